package e2e

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// An upstream is the catalogd of OLM v1. It only runs where it finds a token and a namespace as in a pod, so it gets a
// mount namespace of its own.
type upstream struct {
	pod     string // a directory with both
	args    []string
	content string // host:port
	conf    string // registries.conf, as it refuses plain HTTP
	cmd     *exec.Cmd
	log     logBuffer
}

func (w *world) newUpstream(t *testing.T, ca authority) *upstream {
	t.Helper()
	pair, dir := ca.issue(t, "upstream", "127.0.0.1"), t.TempDir()
	u := &upstream{content: system.FreeAddress(t), pod: t.TempDir()}
	token, err := w.Kubectl(t.Context(), "-n", namespace, "create", "token", "catalogd")
	must.Succeed(t, err)
	writeFile(t, u.pod, "token", []byte(strings.TrimSpace(token)))
	writeFile(t, u.pod, "namespace", []byte(namespace))
	_, webhook, _ := strings.Cut(system.FreeAddress(t), ":")
	u.args = []string{
		"--kubeconfig", w.Kubeconfig, "--system-namespace", namespace, "--leader-elect", "--cache-dir", t.TempDir(),
		"--catalogs-server-addr", u.content, "--external-address", u.content, "--webhook-server-port", webhook,
		"--metrics-bind-address", system.FreeAddress(t), "--health-probe-bind-address", system.FreeAddress(t),
		"--tls-cert", writeFile(t, dir, "tls.crt", pair.certificate), "--tls-key", writeFile(t, dir, "tls.key", pair.key),
	}
	u.conf = writeFile(t, dir, "registries.conf", []byte("[[registry]]\nlocation = \""+w.registry.address+"\"\ninsecure = true\n"))
	t.Cleanup(func() {
		u.stop(t)
		if t.Failed() {
			t.Logf("upstream's last log lines:\n%s", u.log.tail(30))
		}
	})
	return u
}

func (u *upstream) start(t *testing.T) {
	t.Helper()
	inPod := `mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io && cp -r "$0" /run/secrets/kubernetes.io/serviceaccount && exec "$@"`
	program := needed(t, "UPSTREAM_CATALOGD", "hack/operatorcontroller/build.sh catalogd")
	u.cmd = exec.Command("sh", append([]string{"-c", inPod, u.pod, program}, u.args...)...)
	u.cmd.Env = append(os.Environ(), "CONTAINERS_REGISTRIES_CONF="+u.conf)
	u.cmd.Stdout, u.cmd.Stderr = &u.log, &u.log
	u.cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:   syscall.SIGKILL,
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	must.Succeed(t, u.cmd.Start())
}

// stop releases its lease, too.
func (u *upstream) stop(t *testing.T) {
	t.Helper()
	if u.cmd != nil {
		must.Succeed(t, u.cmd.Process.Signal(syscall.SIGTERM))
		_ = u.cmd.Wait()
	}
	u.cmd = nil
}

// TestMigrationFromUpstream has both catalogds serve a ClusterCatalog in turn: the digest and the content stay the same, and the
// one that comes second leaves the object to the first.
func TestMigrationFromUpstream(t *testing.T) {
	w := newOLMWorld(t)
	w.signal(t, syscall.SIGTERM)
	w.wait(t, patience)
	ca := newAuthority(t, "upstream")
	u := w.newUpstream(t, ca)
	u.start(t)
	ref, digest := w.registry.push(t, "moved", catalogImage(t, sampleCatalog))
	w.createClusterCatalog(t, "moved", ref)
	first := w.waitServing(t, "moved", digest)
	theirs, _ := newReader(&tls.Config{RootCAs: ca.pool()}, "").get(t, "https://"+u.content+"/catalogs/moved/api/v1/all")

	w.start(t)
	eventually.Succeeds(t, "catalogd sees upstream", func() error {
		metrics, err := tryGet("http://" + w.metrics + "/metrics")
		if err == nil && !strings.Contains(string(metrics.body), `catalogd_contested{catalog="moved"} 1`) {
			err = errors.New("the metric is not 1")
		}
		return err
	})
	if now := w.clusterCatalog(t, "moved"); now.GetResourceVersion() != first.GetResourceVersion() {
		t.Errorf("catalogd wrote to an object of upstream's: %s", cmp.Diff(first.Object, now.Object))
	}
	w.signal(t, syscall.SIGTERM)
	w.wait(t, patience)
	u.stop(t)

	w.start(t)
	eventually.Succeeds(t, "catalogd serves it", func() error {
		return wantString(w.clusterCatalog(t, "moved"), "https://"+w.content+"/catalogs/moved", "status", "urls", "base")
	})
	second := w.waitServing(t, "moved", digest)
	if diff := cmp.Diff(statusOf(first), statusOf(second)); diff != "" {
		t.Errorf("status (-upstream +catalogd):\n%s", diff)
	}
	ours, _ := newReader(&tls.Config{RootCAs: w.authority(t)}, "").get(t, "https://"+w.content+"/catalogs/moved/api/v1/all")
	if theirs.status != http.StatusOK || ours.status != http.StatusOK {
		t.Fatalf("upstream answers %d, catalogd %d", theirs.status, ours.status)
	}
	if diff := cmp.Diff(decoded(t, theirs.body), decoded(t, ours.body)); diff != "" {
		t.Errorf("content (-upstream +catalogd):\n%s", diff)
	}
	w.signal(t, syscall.SIGTERM)
	w.wait(t, patience)
	u.start(t)
	eventually.Succeeds(t, "upstream serves it again", func() error {
		return wantString(w.clusterCatalog(t, "moved"), "https://"+u.content+"/catalogs/moved", "status", "urls", "base")
	})
	u.stop(t)
	w.start(t)
	eventually.Succeeds(t, "catalogd serves it again", func() error {
		return wantString(w.clusterCatalog(t, "moved"), "https://"+w.content+"/catalogs/moved", "status", "urls", "base")
	})
	must.Succeed(t, w.Delete(t.Context(), w.clusterCatalog(t, "moved")))
	eventually.Succeeds(t, "no finalizer is left", func() error {
		return w.deleted(t, "moved")
	})
}

// deleted returns nil if a ClusterCatalog does not exist.
func (w *world) deleted(t *testing.T, name string) error {
	c := system.NewObject(system.ClusterCatalogKind, name)
	err := w.Get(t.Context(), client.ObjectKey{Name: name}, c)
	if err == nil {
		err = fmt.Errorf("it is still there, with finalizers %v", c.GetFinalizers())
	}
	return client.IgnoreNotFound(err)
}

// statusOf returns the resolved source and the conditions of a ClusterCatalog, without times.
func statusOf(c *unstructured.Unstructured) map[string]any {
	status := map[string]any{"ref": resolvedRef(c), "generation": c.GetGeneration()}
	for _, kind := range []string{"Progressing", "Serving"} {
		now, _ := conditionOf(c, kind)
		status[kind] = []string{now.status, now.reason, now.message}
	}
	return status
}

// decoded returns the values in a stream of JSON.
func decoded(t *testing.T, stream []byte) (values []any) {
	t.Helper()
	for decoder := json.NewDecoder(bytes.NewReader(stream)); decoder.More(); {
		var value any
		must.Succeed(t, decoder.Decode(&value))
		values = append(values, value)
	}
	return values
}
