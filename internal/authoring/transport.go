package authoring

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

// remote returns the options of go-containerregistry; moved counts the bytes of blobs.
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

// meter counts the bytes of blobs from a registry.
type meter struct {
	next   http.RoundTripper
	report func(done, total int64)
	total  int64
	done   atomic.Int64
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := m.next.RoundTrip(req)
	if err == nil && m.report != nil && isBlob(req) && res.StatusCode < http.StatusMultipleChoices {
		res.Body = &meteredBody{res.Body, m}
	}
	return res, err
}

// isBlob reports whether a request, or the one that redirected to it, is for a blob.
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
		b.meter.report(b.meter.done.Add(int64(n)), b.meter.total)
	}
	return n, err
}
