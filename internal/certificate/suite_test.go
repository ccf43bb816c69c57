package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/operator-catalogs/catalogd/internal/testing/controlplane"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// namespace is the namespace of catalogd, in which its account has the rights of config/rbac.
const namespace = "catalogd-system"

// plane is the API server of all tests. TestMain sets it.
var plane *controlplane.Plane

func TestMain(m *testing.M) {
	controlplane.Main(m, filepath.Join("..", ".."), func(p *controlplane.Plane) error {
		plane = p
		return nil
	})
}

func newClient(t *testing.T, cfg *rest.Config) corev1client.CoreV1Interface {
	t.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	clients, err := kubernetes.NewForConfig(cfg)
	must.Succeed(t, err)
	return clients.CoreV1()
}

// world is a namespace with a fake clock, in which catalogd runs.
type world struct {
	t         *testing.T
	api       corev1client.CoreV1Interface // the test's own
	clock     *clocktesting.FakeClock
	namespace string
	log       *lockedBuffer
}

// start is the initial time of every clock.
var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// newWorld creates a namespace, in which only an administrator has rights.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, api: newClient(t, plane.Admin), clock: clocktesting.NewFakeClock(start), log: &lockedBuffer{}}
	ns, err := w.api.Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "certificate-"},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	w.namespace = ns.Name
	return w
}

// newRealWorld returns the namespace of catalogd, emptied at the end.
func newRealWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, api: newClient(t, plane.Admin), clock: clocktesting.NewFakeClock(start), namespace: namespace, log: &lockedBuffer{}}
	t.Cleanup(func() {
		ctx := context.Background()
		must.Succeed(t, w.api.Secrets(namespace).Delete(ctx, secretName, metav1.DeleteOptions{}))
		must.Succeed(t, w.api.ConfigMaps(namespace).Delete(ctx, configMapName, metav1.DeleteOptions{}))
	})
	return w
}

// replica is a process of catalogd with an account.
func (w *world) replica(account *rest.Config) *SelfSigned {
	w.t.Helper()
	return &SelfSigned{
		Client:    newClient(w.t, account),
		Namespace: w.namespace,
		Names:     []string{"catalogd.example", "localhost", "127.0.0.1", "::1"},
		Clock:     w.clock,
		Logger:    slog.New(slog.NewTextHandler(w.log, nil)),
	}
}

func (w *world) secret() *corev1.Secret {
	w.t.Helper()
	secret, err := w.api.Secrets(w.namespace).Get(w.t.Context(), secretName, metav1.GetOptions{})
	must.Succeed(w.t, err)
	return secret
}

func (w *world) configMap() *corev1.ConfigMap {
	w.t.Helper()
	configMap, err := w.api.ConfigMaps(w.namespace).Get(w.t.Context(), configMapName, metav1.GetOptions{})
	must.Succeed(w.t, err)
	return configMap
}

// bundle returns the published bundle.
func (w *world) bundle() string {
	w.t.Helper()
	bundle := w.configMap().Data["ca.crt"]
	if inSecret := string(w.secret().Data["ca.crt"]); inSecret != bundle {
		w.t.Errorf("the Secret has another ca.crt than the ConfigMap:\n%s\n%s", inSecret, bundle)
	}
	return bundle
}

// connect does a TLS handshake of a client that trusts bundle, at the time of the clock.
func (w *world) connect(s *SelfSigned, bundle, name string) (tls.ConnectionState, error) {
	w.t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(bundle))
	return handshake(w.t, TLSConfig(s.GetCertificate, false), &tls.Config{RootCAs: pool, ServerName: name, Time: w.clock.Now})
}

// handshake connects a client and a server, and returns the result of the client.
func handshake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	must.Succeed(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if conn, err := listener.Accept(); err == nil {
			io.Copy(io.Discard, conn) // until the client goes
			conn.Close()
		}
	}()
	defer func() {
		listener.Close()
		<-served
	}()
	raw, err := net.Dial("tcp", listener.Addr().String())
	must.Succeed(t, err)
	defer raw.Close()
	conn := tls.Client(raw, client)
	err = conn.HandshakeContext(t.Context())
	return conn.ConnectionState(), err
}

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
