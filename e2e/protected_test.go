package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// newProtectedWorld serves the sample catalog with a self-signed TLS certificate, to clients that the API server
// authorizes, as in a cluster.
func newProtectedWorld(t *testing.T, args ...string) *world {
	t.Helper()
	_, port, err := net.SplitHostPort(system.FreeAddress(t))
	must.Succeed(t, err)
	url := "https://127.0.0.1:" + port
	w := newWorld(t, shared, append([]string{
		"--content-bind-address", "0.0.0.0:" + port, "--external-url", url, "--content-auth", "kubernetes",
	}, args...)...)
	w.content = "127.0.0.1:" + port
	ref, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", ref, nil)
	w.waitReady(t, "sample", digest)
	return w
}

// authority reads the certificates that the ConfigMap catalogd-ca publishes.
func (w *world) authority(t *testing.T) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	eventually.Succeeds(t, "the authority is published", func() error {
		text, err := w.Kubectl(t.Context(), "-n", namespace, "get", "configmap", "catalogd-ca", "-o", `jsonpath={.data.ca\.crt}`)
		if err == nil && !pool.AppendCertsFromPEM([]byte(text)) {
			err = fmt.Errorf("no certificates: %q", text)
		}
		return err
	})
	return pool
}

// serviceAccountToken creates a ServiceAccount with the ClusterRoles, if any, and returns a token of it.
func (w *world) serviceAccountToken(t *testing.T, name string, roles ...string) string {
	t.Helper()
	run := func(args ...string) string {
		out, err := w.Kubectl(t.Context(), args...)
		must.Succeed(t, err)
		return strings.TrimSpace(out)
	}
	run("-n", namespace, "create", "serviceaccount", name)
	t.Cleanup(func() {
		_, _ = w.Kubectl(context.Background(), "-n", namespace, "delete", "serviceaccount", name)
	})
	for _, role := range roles {
		binding := name + "-" + role
		run("create", "clusterrolebinding", binding, "--clusterrole", role, "--serviceaccount", namespace+":"+name)
		t.Cleanup(func() { _, _ = w.Kubectl(context.Background(), "delete", "clusterrolebinding", binding) })
	}
	return run("-n", namespace, "create", "token", name)
}

// reader is a client that reads over TLS.
type reader struct {
	http.Client
	token string
}

func newReader(config *tls.Config, token string) *reader {
	return &reader{http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}, token}
}

func (r *reader) get(t *testing.T, url string) (reply, *tls.ConnectionState) {
	t.Helper()
	defer r.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must.Succeed(t, err)
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	response, err := r.Do(request)
	must.Succeed(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must.Succeed(t, err)
	return reply{response.StatusCode, response.Header, body}, response.TLS
}

func TestReadAccess(t *testing.T) {
	w := newProtectedWorld(t)
	ca := &tls.Config{RootCAs: w.authority(t)}
	url := "https://" + w.content
	all := "/catalogs/sample/api/v1/all"
	user := "system:serviceaccount:" + namespace + ":"

	_, err := w.Kubectl(t.Context(), "create", "clusterrole", "other-catalog-reader", "--verb=get", "--non-resource-url=/catalogs/other/*")
	must.Succeed(t, err)
	t.Cleanup(func() { _, _ = w.Kubectl(context.Background(), "delete", "clusterrole", "other-catalog-reader") })
	anonymous := newReader(ca, "")
	garbage := newReader(ca, "garbage")
	stranger := newReader(ca, w.serviceAccountToken(t, "stranger"))
	permitted := newReader(ca, w.serviceAccountToken(t, "permitted", "catalogd-content-reader"))
	other := newReader(ca, w.serviceAccountToken(t, "other", "other-catalog-reader"))
	for _, test := range []struct {
		who    string
		reader *reader
		path   string
		status int
		says   []string
	}{
		{"without a token", anonymous, all, http.StatusUnauthorized, []string{"401 Unauthorized", "token"}},
		{"without a token", anonymous, "/catalogs", http.StatusUnauthorized, nil},
		{"without a token", anonymous, "/catalogs/absent/api/v1/all", http.StatusUnauthorized, nil},
		{"without a token", anonymous, "/nothing", http.StatusUnauthorized, nil},
		{"with an invalid token", garbage, all, http.StatusUnauthorized, nil},
		{
			"without the role",
			stranger,
			all,
			http.StatusForbidden,
			[]string{"403 Forbidden", user + "stranger", "get", all, "catalogd-content-reader"},
		},
		{"without the role", stranger, "/catalogs/absent/api/v1/all", http.StatusForbidden, nil},
		{"with the role", permitted, all, http.StatusOK, nil},
		{"with the role", permitted, "/catalogs", http.StatusOK, nil},
		{"with the role", permitted, "/openapi.json", http.StatusOK, nil},
		{"with the role", permitted, "/version", http.StatusOK, nil},
		{"without a token", anonymous, "/version", http.StatusUnauthorized, nil},
		{"with the role", permitted, "/api/v1/search?q=skupper", http.StatusOK, nil},
		{"with the role", permitted, "/api/v1/graphql?query={catalogs{name}}", http.StatusOK, nil},
		{"with the role", permitted, "/catalogs/absent/api/v1/all", http.StatusNotFound, nil},
		{"with a role for another catalog", other, all, http.StatusForbidden, nil},
		{"with a role for another catalog", other, "/catalogs/other/api/v1/all", http.StatusNotFound, nil},
	} {
		got, _ := test.reader.get(t, url+test.path)
		if got.status != test.status {
			t.Errorf("%s, %s: status %d, want %d: %s", test.who, test.path, got.status, test.status, got.body)
		}
		if challenge := got.header.Get("WWW-Authenticate"); (test.status == http.StatusUnauthorized) != strings.HasPrefix(challenge, "Bearer") {
			t.Errorf("%s, %s: status %d with WWW-Authenticate %q", test.who, test.path, got.status, challenge)
		}
		for _, part := range test.says {
			if !strings.Contains(string(got.body), part) {
				t.Errorf("%s, %s: the body does not say %q: %s", test.who, test.path, part, got.body)
			}
		}
	}

	admin := newReader(&tls.Config{RootCAs: ca.RootCAs, Certificates: []tls.Certificate{w.clientCertificate(t)}}, "")
	got, state := admin.get(t, url+all)
	if got.status != http.StatusOK {
		t.Errorf("an administrator with a client certificate of the cluster: status %d: %s", got.status, got.body)
	}
	if state.NegotiatedProtocol != "h2" || state.Version < tls.VersionTLS12 {
		t.Errorf("the connection speaks %q, TLS version %x", state.NegotiatedProtocol, state.Version)
	}
	w.checkOldTLS(t)
	if log := w.log.String(); strings.Contains(log, permitted.token) {
		t.Error("the log has a token")
	}
}

// clientCertificate is that of the administrator of the control plane.
func (w *world) clientCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", w.Kubeconfig)
	must.Succeed(t, err)
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	must.Succeed(t, err)
	return pair
}

func (w *world) checkOldTLS(t *testing.T) {
	t.Helper()
	conn, err := tls.Dial("tcp", w.content, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	if err == nil {
		conn.Close()
		t.Error("catalogd speaks TLS 1.1")
	}
}

// TestCertificateFiles replaces the files while catalogd runs, as Kubernetes does in a mounted Secret.
func TestCertificateFiles(t *testing.T) {
	dir := t.TempDir()
	place := func(version string, authority authority) {
		pair := authority.issue(t, "catalogd", "127.0.0.1")
		must.Succeed(t, os.Mkdir(filepath.Join(dir, version), 0o755))
		writeFile(t, filepath.Join(dir, version), "tls.crt", pair.certificate)
		writeFile(t, filepath.Join(dir, version), "tls.key", pair.key)
		must.Succeed(t, os.Symlink(version, filepath.Join(dir, "..next")))
		must.Succeed(t, os.Rename(filepath.Join(dir, "..next"), filepath.Join(dir, "..data")))
	}
	first, second := newAuthority(t, "first"), newAuthority(t, "second")
	place("..1", first)
	for _, file := range []string{"tls.crt", "tls.key"} {
		must.Succeed(t, os.Symlink(filepath.Join("..data", file), filepath.Join(dir, file)))
	}
	w := newWorld(t, shared, "--tls-cert-file", filepath.Join(dir, "tls.crt"), "--tls-private-key-file", filepath.Join(dir, "tls.key"))
	handshake := func(a authority) error {
		conn, err := tls.Dial("tcp", w.content, &tls.Config{RootCAs: a.pool()})
		if err == nil {
			conn.Close()
		}
		return err
	}
	must.Succeed(t, handshake(first))
	place("..2", second)
	eventually.Succeeds(t, "the new certificate is shown", func() error { return handshake(second) })
	if handshake(first) == nil {
		t.Error("the old certificate is shown still")
	}
}

// TestAuthorizationMustBeChosen requires a choice of authorization when the content service listens on a network.
func TestAuthorizationMustBeChosen(t *testing.T) {
	for _, args := range [][]string{nil, {"--tls-cert-file", "absent.crt", "--tls-private-key-file", "absent.key"}} {
		args = append([]string{
			"--kubeconfig", shared.DaemonKubeconfig, "--data-dir", t.TempDir(), "--content-bind-address", "0.0.0.0:0",
		}, args...)
		output, err := exec.Command(os.Getenv("CATALOGD_BIN"), args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 {
			t.Errorf("%v: %v, want exit code 2", args, err)
		}
		for _, part := range []string{
			`--content-auth is required, as other machines can reach --content-bind-address "0.0.0.0:0"`,
			"--content-auth=kubernetes",
			"--content-auth=none",
		} {
			if !strings.Contains(string(output), part) {
				t.Errorf("%v: it does not say %q: %s", args, part, output)
			}
		}
	}
}

// TestProtectedExamples runs the commands of docs/api.md about a service with authentication.
func TestProtectedExamples(t *testing.T) {
	w := newProtectedWorld(t)
	w.authority(t) // it is published
	t.Cleanup(func() {
		for _, object := range []string{
			"clusterrolebinding/catalog-reader",
			"clusterrolebinding/sample-reader",
			"clusterrole/sample-reader",
			"clusterrolebinding/jane-views-packages",
		} {
			_, _ = w.Kubectl(context.Background(), "delete", "--ignore-not-found", object)
		}
		_, _ = w.Kubectl(context.Background(), "-n", namespace, "delete", "--ignore-not-found", "serviceaccount", "catalog-reader",
			"sample-reader")
		_, _ = w.Kubectl(context.Background(), "-n", namespace, "delete", "--ignore-not-found", "rolebinding", "jane-reads-catalogs")
	})
	runExamples(t, examplesOf(t, "../docs/api.md", protected), "CATALOGD=https://"+w.content, "KUBECONFIG="+w.Kubeconfig)
}
