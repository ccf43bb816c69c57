package auth

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/operator-catalogs/catalogd/internal/testing/controlplane"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// shared is the cluster of all tests that do not stop theirs. TestMain sets it.
var shared *cluster

func TestMain(m *testing.M) {
	controlplane.Main(m, root, func(p *controlplane.Plane) (err error) {
		shared, err = newCluster(p)
		return err
	})
}

var root = filepath.Join("..", "..")

// cluster is an API server with config/rbac applied.
type cluster struct {
	*controlplane.Plane
	admin *kubernetes.Clientset
}

func newCluster(p *controlplane.Plane) (*cluster, error) {
	admin, err := kubernetes.NewForConfig(p.Admin)
	return &cluster{p, admin}, err
}

// authorizer returns an Authorizer with the account of catalogd.
func (c *cluster) authorizer(t *testing.T, change func(*Config)) *Authorizer {
	t.Helper()
	cfg := Config{REST: c.Daemon, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	a, err := New(cfg)
	must.Succeed(t, err)
	return a
}

// bind allows a user to get paths and waits until that is effective.
func (c *cluster) bind(t *testing.T, name, clusterRole, user string, paths ...string) {
	t.Helper()
	_, err := c.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	t.Cleanup(func() {
		must.Succeed(t, c.admin.RbacV1().ClusterRoleBindings().Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
	for _, path := range paths {
		eventually.Holds(t, user+" may get "+path, func() bool {
			review, err := c.admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{
					User:                  user,
					NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
				},
			}, metav1.CreateOptions{})
			must.Succeed(t, err)
			return review.Status.Allowed
		})
	}
}

// counter counts the requests to the API server, by the last part of their path.
type counter struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *counter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		c.mu.Lock()
		c.counts[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]++
		c.mu.Unlock()
		return next.RoundTrip(r)
	})
}

// take returns the counts since the last call.
func (c *counter) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.counts = map[string]int{} }()
	return c.counts
}

// counted counts the requests of cfg.
func counted(cfg *Config) *counter {
	c := &counter{counts: map[string]int{}}
	cfg.REST = rest.CopyConfig(cfg.REST)
	cfg.REST.Wrap(c.wrap)
	return c
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// lockedBuffer is a log for concurrent writes and reads.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// testAuthority signs client certificates.
type testAuthority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

func newAuthority(t *testing.T) *testAuthority {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "another authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must.Succeed(t, err)
	cert, err := x509.ParseCertificate(der)
	must.Succeed(t, err)
	return &testAuthority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a *testAuthority) client(t *testing.T, name string) tls.Certificate {
	t.Helper()
	return a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: a.cert.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *testAuthority) sign(t *testing.T, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	must.Succeed(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
