package local

import (
	"cmp"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// remote is how go-containerregistry reaches a registry; what it reads of blobs is metered.
func (o Options) remote(moved *meter) []remote.Option {
	wire, ok := remote.DefaultTransport.(*http.Transport)
	if !ok {
		wire = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	wire = wire.Clone()
	if o.Insecure {
		wire.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the user asked for it
	}
	moved.next = wire
	keychain := o.Keychain
	if keychain == nil {
		keychain = authn.DefaultKeychain
	}
	return []remote.Option{
		remote.WithTransport(moved),
		remote.WithAuthFromKeychain(keychain),
		remote.WithUserAgent(cmp.Or(o.UserAgent, "kubectl-catalog")),
		remote.WithPlatform(platform),
	}
}

// meter counts the bytes of blobs that come from a registry.
type meter struct {
	next  http.RoundTripper
	tell  func(done, total int64)
	total int64
	done  atomic.Int64
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := m.next.RoundTrip(req)
	if err == nil && m.tell != nil && isBlob(req) && res.StatusCode < http.StatusMultipleChoices {
		res.Body = &meteredBody{res.Body, m}
	}
	return res, err
}

// isBlob tells whether a request is for a blob: by the registry's path, or because the registry sent it on to where its blobs are.
func isBlob(req *http.Request) bool {
	if req.Method != http.MethodGet {
		return false
	}
	for r := req; ; r = r.Response.Request {
		if strings.Contains(r.URL.Path, "/blobs/") {
			return true
		}
		if r.Response == nil {
			return false
		}
	}
}

type meteredBody struct {
	io.ReadCloser
	meter *meter
}

func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.meter.tell(b.meter.done.Add(int64(n)), b.meter.total)
	}
	return n, err
}
