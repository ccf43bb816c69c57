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
	clientNamespace = "default" // of the service accounts of the readers

	replyTime    = 20 * time.Second // time limit of a complete reply
	retryPause   = 200 * time.Millisecond
	digestHeader = "Catalogd-Digest"
)

// paths are the paths that readers request of each catalog. The variations have all packages of the sample.
var paths = []string{"/api/v1/all", "/api/v1/metas?schema=olm.package", "/api/v1/metas?schema=olm.channel"}

// content is the expected content: for each path, the digest and the checksum of the body.
type content map[string]answer

type answer struct {
	digest string
	sum    [sha256.Size]byte
}

// clientOf returns an HTTP client for a Service or Pod that trusts only the authority that catalogd publishes.
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

// serviceAddress returns the address of the Service in the cluster's network.
func (i *installation) serviceAddress(ctx context.Context) (string, error) {
	s := &corev1.Service{}
	if err := i.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, s); err != nil {
		return "", err
	}
	return s.Spec.ClusterIP + ":443", nil
}

// token creates a service account and returns a token of it.
func (i *installation) token(ctx context.Context, account string) (string, error) {
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: clientNamespace, Name: account}}
	if err := client.IgnoreAlreadyExists(i.Create(ctx, object)); err != nil {
		return "", err
	}
	request, err := i.kubernetes.CoreV1().ServiceAccounts(clientNamespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return request.Status.Token, nil
}

// reader sends one request after another and compares each reply with the expected one. Not safe for concurrent
// use.
type reader struct {
	client  *http.Client
	token   string
	known   content
	rng     *rand.Rand
	replies int
	retries int
}

// run sends requests until ctx ends. Its error is the first wrong reply.
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
		pause(ctx, 5*time.Millisecond) // leaves CPU time to others
	}
	return nil
}

// ask retries once if there was no reply at all, as clients do when a connection was closed.
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
		return fmt.Errorf("GET %s, after %d good replies: it is %x of %s, want %x of %s", path, r.replies, got.sum, got.digest, want.sum,
			want.digest)
	}
	r.replies++
	return nil
}

var errNoReply = errors.New("no reply")

// get reads a complete reply. Any status but 200 is an error, and so is a truncated body.
func (r *reader) get(ctx context.Context, path string) (a answer, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+service+path, nil)
	if err != nil {
		return a, err
	}
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
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

// learn reads all content from one address, as the expected content.
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

// whileReading disturbs the cluster while clients read through the Service, and waits until the cluster has
// recovered. Some clients keep their connections, like controllers; others open one per request. The test fails
// with the first wrong reply.
func whileReading(t *testing.T, do func()) {
	t.Helper()
	whileReadingAs(t, readerToken(t), do)
}

// whileReadingAs is whileReading with a token; without one, clients are anonymous.
func whileReadingAs(t *testing.T, token string, do func()) {
	t.Helper()
	address, err := installed.serviceAddress(t.Context())
	must.Succeed(t, err)
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
