package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestPluginUI reads through the API server's service proxy, as a user with the two roles, and as users with one of them.
func TestPluginUI(t *testing.T) {
	w := newProtectedWorld(t, "--external-url", "https://catalogd."+namespace+".svc")
	w.exposeThroughAPIServer(t)
	ui := []string{"ui", "skupper-operator", "--no-browser", "--as"}
	w.bind(t, "clusterrolebinding", "ui-views", "--clusterrole=catalogd-packages-viewer", "--user=viewer", "--user=both")
	w.bind(t, "rolebinding", "ui-reads", "--role=catalogd-cli-user", "--user=reader", "--user=both")
	for user, role := range map[string]string{"reader": "ClusterRole catalogd-packages-viewer", "viewer": "Role catalogd-cli-user"} {
		eventually.Succeeds(t, "the error names the missing role", func() error {
			run := w.plugin(t, append(ui, user)...)
			if run.code != 1 || run.stdout != "" || !strings.Contains(run.stderr, role) {
				return fmt.Errorf("exit code %d: %s%s", run.code, run.stdout, run.stderr)
			}
			return nil
		})
	}
	var p *servedPage
	eventually.Succeeds(t, "both roles suffice", func() (err error) {
		p, err = w.servePage(t, append(ui, "both")...)
		return err
	})
	base, found := strings.CutSuffix(p.url, "catalogs/sample/packages/skupper-operator")
	if !found {
		t.Fatalf("the URL is %s", p.url)
	}
	query := `{"query":"query($n: String!) { package(name: $n) { name } }","variables":{"n":"skupper-operator"}}`
	for _, test := range []struct {
		method, url, host, body string
		code                    int
		has                     string
	}{
		{"GET", p.url, "", "", http.StatusOK, "skupper-operator"},
		{"GET", base, "", "", http.StatusOK, "skupper-operator"},
		{"POST", base + "graphql", "", query, http.StatusOK, `{"data":{"package":{"name":"skupper-operator"}}}`},
		{"GET", base + "catalogs/sample/packages/absent", "", "", http.StatusNotFound, ""},
		{"GET", p.url, "evil.example", "", http.StatusMisdirectedRequest, ""},
		{"GET", "http://" + strings.Split(p.url, "/")[2] + "/", "", "", http.StatusNotFound, "404 Not Found\n"},
		{"PUT", p.url, "", "", http.StatusMethodNotAllowed, ""},
	} {
		code, body := requestPage(t, test.method, test.url, test.host, test.body)
		if code != test.code || !strings.Contains(body, test.has) {
			t.Errorf("%s %s of host %q: %d, want %d with %q; got\n%s", test.method, test.url, test.host, code, test.code, test.has, body)
		}
	}
	if t.Failed() {
		t.Logf("it printed %s", p.stderr)
	}
	must.Succeed(t, p.cmd.Process.Signal(syscall.SIGINT))
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("after SIGINT: %v; it printed %s", err, p.stderr)
	}
}

// TestPluginUIOfDirectory serves a directory without a cluster, and shows what changes.
func TestPluginUIOfDirectory(t *testing.T) {
	w := &world{} // no cluster
	dir := t.TempDir()
	must.Succeed(t, os.CopyFS(dir, os.DirFS(sampleCatalog+"/skupper-operator")))
	p, err := w.servePage(t, "ui", dir, "--no-browser", "--kubeconfig", "/nonexistent")
	must.Succeed(t, err)
	if code, body := requestPage(t, http.MethodGet, p.url, "", ""); code != http.StatusOK || !strings.Contains(body, "skupper-operator") {
		t.Errorf("got %d %s", code, body)
	}
	must.Succeed(t, os.CopyFS(dir, os.DirFS(sampleCatalog+"/ecr-secret-operator")))
	eventually.Succeeds(t, "the page shows the new package", func() error {
		if _, body := requestPage(t, http.MethodGet, p.url, "", ""); !strings.Contains(body, "ecr-secret-operator") {
			return errors.New(body)
		}
		return nil
	})
	must.Succeed(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v; it printed %s", err, p.stderr)
	}
}

// exposeThroughAPIServer makes the daemon the endpoint of the Service of config/default. The API server accepts only endpoints that
// have the address of a pod, and no loopback ones.
func (w *world) exposeThroughAPIServer(t *testing.T) {
	t.Helper()
	_, port, err := net.SplitHostPort(w.content)
	must.Succeed(t, err)
	addresses, err := net.InterfaceAddrs()
	must.Succeed(t, err)
	own := ""
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			own = ip.IP.String()
		}
	}
	if own == "" {
		t.Skip("this machine has no IPv4 address but loopback, so the API server cannot reach the daemon")
	}
	manifest := fmt.Sprintf(`{"apiVersion":"v1","kind":"List","items":[
		{"apiVersion":"v1","kind":"Service","metadata":{"name":"catalogd","namespace":%[1]q},"spec":{"ports":[{"name":"https","port":443,"targetPort":%[3]s}]}},
		{"apiVersion":"v1","kind":"Pod","metadata":{"name":"catalogd","namespace":%[1]q},
			"spec":{"serviceAccountName":"catalogd","securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},
				"containers":[{"name":"catalogd","image":"example",
					"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}},
		{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","addressType":"IPv4",
			"metadata":{"name":"catalogd-ui","namespace":%[1]q,"labels":{"kubernetes.io/service-name":"catalogd"}},
			"endpoints":[{"addresses":[%[2]q],"targetRef":{"kind":"Pod","namespace":%[1]q,"name":"catalogd"}}],"ports":[{"name":"https","port":%[3]s}]}]}`, namespace, own, port)
	apply := w.kubectl(t, "apply", "-f", "-")
	apply.Stdin = strings.NewReader(manifest)
	out, err := apply.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	status := fmt.Sprintf(`{"status":{"podIP":%[1]q,"podIPs":[{"ip":%[1]q}]}}`, own)
	_, err = w.Kubectl(t.Context(), "-n", namespace, "patch", "pod", "catalogd", "--subresource=status", "--type=merge", "-p", status)
	must.Succeed(t, err)
	t.Cleanup(func() {
		for _, object := range []string{"service/catalogd", "pod/catalogd", "endpointslice/catalogd-ui"} {
			_, _ = w.Kubectl(context.Background(), "-n", namespace, "delete", "--ignore-not-found", object)
		}
	})
}

// bind creates a binding in catalogd's namespace, until the test ends.
func (w *world) bind(t *testing.T, kind, name string, args ...string) {
	t.Helper()
	_, err := w.Kubectl(t.Context(), append([]string{"-n", namespace, "create", kind, name}, args...)...)
	must.Succeed(t, err)
	t.Cleanup(func() { _, _ = w.Kubectl(context.Background(), "-n", namespace, "delete", kind, name) })
}

// A servedPage is a running kubectl catalog ui.
type servedPage struct {
	cmd    *exec.Cmd
	url    string
	stderr *bytes.Buffer
}

// servePage starts the plugin and reads the URL that it prints.
func (w *world) servePage(t *testing.T, args ...string) (*servedPage, error) {
	t.Helper()
	p := &servedPage{cmd: exec.CommandContext(t.Context(), pluginBinary(t), args...), stderr: &bytes.Buffer{}}
	p.cmd.Env = append(os.Environ(), "NO_COLOR=")
	if w.ControlPlane != nil {
		p.cmd.Env = append(p.cmd.Env, "KUBECONFIG="+w.Kubeconfig)
	}
	p.cmd.Stderr = p.stderr
	out, err := p.cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, p.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(err, p.cmd.Wait(), errors.New(p.stderr.String()))
	}
	p.url = strings.TrimSpace(line)
	return p, nil
}

// requestPage returns the status and the body of a response.
func requestPage(t *testing.T, method, url, host, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must.Succeed(t, err)
	r.Host = host
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	must.Succeed(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must.Succeed(t, err)
	return resp.StatusCode, string(text)
}
