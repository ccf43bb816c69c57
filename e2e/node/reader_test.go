package node

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

const (
	clientNamespace = "default" // where the readers' service accounts are

	replyTime    = 20 * time.Second // within which a reply comes whole
	retryPause   = 200 * time.Millisecond
	digestHeader = "Catalogd-Digest"
)

// paths are what readers ask of each catalog. Each of the sample's packages is in its variations too.
var paths = []string{"/api/v1/all", "/api/v1/metas?schema=olm.package", "/api/v1/metas?schema=olm.channel"}

// content is what there is to read: for each path the digest and the checksum of the body.
type content map[string]answer

type answer struct {
	digest string
	sum    [sha256.Size]byte
}

// clientOf is an HTTP client of a Service or Pod, as one in the cluster is: it trusts the authority that catalogd publishes, and no other.
func (i *installation) clientOf(ctx context.Context, address string) (*http.Client, error) {
	published := &corev1.ConfigMap{}
	if err := i.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "catalogd-ca"}, published); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(published.Data["ca.crt"])) {
		return nil, errors.New("the ConfigMap catalogd-ca has no certificate")
	}
	transport := i.transport()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: service + "." + namespace + ".svc"}
	transport.ForceAttemptHTTP2 = true
	transport.DialContext = dialTo(i.dial, address)
	return &http.Client{Transport: transport, Timeout: replyTime}, nil
}

// serviceAddress is where the Service is in the cluster's network.
func (i *installation) serviceAddress(ctx context.Context) (string, error) {
	s := &corev1.Service{}
	if err := i.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, s); err != nil {
		return "", err
	}
	return s.Spec.ClusterIP + ":443", nil
}

// token is that of a service account, which is made for it.
func (i *installation) token(ctx context.Context, account string) (string, error) {
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: clientNamespace, Name: account}}
	if err := client.IgnoreAlreadyExists(i.Create(ctx, object)); err != nil {
		return "", err
	}
	request, err := i.kubernetes.CoreV1().ServiceAccounts(clientNamespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return request.Status.Token, nil
}

// reader asks one question after another and compares each reply with what is known. It is for one goroutine.
type reader struct {
	client  *http.Client
	token   string
	known   content
	rng     *rand.Rand
	replies int
	retries int
}

// run asks until ctx ends. The error is the first reply that is not as it should be.
func (r *reader) run(ctx context.Context) error {
	defer r.client.CloseIdleConnections()
	all := make([]string, 0, len(r.known))
	for path := range r.known {
		all = append(all, path)
	}
	for ctx.Err() == nil {
		if err := r.ask(ctx, all[r.rng.IntN(len(all))]); err != nil {
			return err
		}
		pause(ctx, 5*time.Millisecond) // two cores have other things to do, too
	}
	return nil
}

// ask tries a second time if there was no reply at all: that a client does when it finds its connection closed.
func (r *reader) ask(ctx context.Context, path string) error {
	got, err := r.get(ctx, path)
	if errors.Is(err, errNoReply) && ctx.Err() == nil {
		r.retries++
		pause(ctx, retryPause)
		got, err = r.get(ctx, path)
	}
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("GET %s, after %d good replies: %w", path, r.replies, err)
	}
	if want := r.known[path]; got != want {
		return fmt.Errorf("GET %s, after %d good replies: it is %x of %s, want %x of %s", path, r.replies, got.sum, got.digest, want.sum, want.digest)
	}
	r.replies++
	return nil
}

var errNoReply = errors.New("no reply")

// get reads a reply to its end. Any status but 200 is an error, and so is a body that ends early.
func (r *reader) get(ctx context.Context, path string) (a answer, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+service+path, nil)
	if err != nil {
		return a, err
	}
	request.Header.Set("Authorization", "Bearer "+r.token)
	response, err := r.client.Do(request)
	if err != nil {
		return a, fmt.Errorf("%w: %w", errNoReply, err)
	}
	defer response.Body.Close()
	hash := sha256.New()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 300))
		return a, fmt.Errorf("status %d: %s", response.StatusCode, body)
	}
	if _, err := io.Copy(hash, response.Body); err != nil {
		return a, fmt.Errorf("reading the body: %w", err)
	}
	hash.Sum(a.sum[:0])
	a.digest = response.Header.Get(digestHeader)
	return a, nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// learn reads everything from one address, as it is to be read from then on.
func (i *installation) learn(ctx context.Context, address, token string) (content, error) {
	web, err := i.clientOf(ctx, address)
	if err != nil {
		return nil, err
	}
	defer web.CloseIdleConnections()
	r, known := &reader{client: web, token: token}, content{}
	for _, catalog := range i.catalogs {
		for _, path := range paths {
			path = "/catalogs/" + catalog + path
			if known[path], err = r.get(ctx, path); err != nil {
				return nil, fmt.Errorf("GET %s from %s: %w", path, address, err)
			}
		}
	}
	return known, nil
}

// whileReading does something to the cluster while clients read through the Service, and waits until all is as it was. Some of the
// clients keep their connections, as controllers do; some make one for each request. The test fails with the first bad reply.
func whileReading(t *testing.T, do func()) {
	t.Helper()
	address, err := installed.serviceAddress(t.Context())
	must.Succeed(t, err)
	token := readerToken(t)
	known, err := installed.learn(t.Context(), address, token)
	must.Succeed(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var readers []*reader
	var running sync.WaitGroup
	for n := range 4 {
		web, err := installed.clientOf(ctx, address)
		must.Succeed(t, err)
		web.Transport.(*http.Transport).DisableKeepAlives = n%2 == 0
		r := &reader{client: web, token: token, known: known, rng: rand.New(rand.NewPCG(1, uint64(n)))}
		readers = append(readers, r)
		running.Go(func() {
			if err := r.run(ctx); err != nil {
				t.Errorf("%s: reader %d: %v", time.Now().Format(time.TimeOnly), n, err)
			}
		})
	}
	do()
	waitUntil(t, "all is as it was", installed.allReady)
	pause(ctx, 2*time.Second) // of the state that was reached
	stop()
	running.Wait()
	for n, r := range readers {
		t.Logf("reader %d: %d replies right, %d retried", n, r.replies, r.retries)
		if r.replies == 0 {
			t.Errorf("reader %d read nothing", n)
		}
	}
}
