package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// upgradable is a control plane whose API server reports a version that a test sets and otherwise acts as the real
// one. Clients have the user of catalogd.
type upgradable struct {
	version    atomic.Value // string: gitVersion; "" fails /version
	kubeconfig string
}

func newUpgradable(t *testing.T, plane *system.ControlPlane, version string) *upgradable {
	t.Helper()
	forward, err := system.ForwardTo(plane.DaemonKubeconfig)
	must.Succeed(t, err)
	forward.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	u := &upgradable{}
	u.version.Store(version)
	mux := http.NewServeMux()
	mux.Handle("/", forward)
	mux.HandleFunc("/version", u.tell)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	u.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	must.Succeed(t, system.WriteKubeconfig(u.kubeconfig, server.URL))
	return u
}

func (u *upgradable) tell(w http.ResponseWriter, _ *http.Request) {
	version, _ := u.version.Load().(string)
	if version == "" {
		http.Error(w, "no version", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"gitVersion": version, "major": "9", "minor": "99+"})
}

// pushTag uploads the image as repository:tag and returns its digest.
func (r *imageRegistry) pushTag(t *testing.T, repository, tag string, image v1.Image) (digest string) {
	t.Helper()
	ref, err := name.NewTag(r.address + "/" + repository + ":" + tag)
	must.Succeed(t, err)
	must.Succeed(t, remote.Write(ref, image, remote.WithContext(t.Context())))
	hash, err := image.Digest()
	must.Succeed(t, err)
	return hash.String()
}

// TestTemplate follows the version of a cluster that is upgraded, by field and by annotation. If the version is
// unknown, the condition says so and the served content stays.
func TestTemplate(t *testing.T) {
	cluster := newUpgradable(t, shared, "v1.20.1+bd9e442")
	upgraded := *shared
	upgraded.DaemonKubeconfig = cluster.kubeconfig
	w := newWorld(t, &upgraded)
	older := w.registry.pushTag(t, "ns/catalog", "v1.20", catalogImage(t, tinyCatalog(t, "older")))
	newer := w.registry.pushTag(t, "ns/catalog", "v1.21", catalogImage(t, tinyCatalog(t, "newer")))
	image := w.registry.address + "/ns/catalog:v"
	template := image + "{kube_major_version}.{kube_minor_version}"
	w.createCatalog(t, "field", "", func(c *unstructured.Unstructured) {
		unstructured.RemoveNestedField(c.Object, "spec", "image")
		must.Succeed(t, unstructured.SetNestedField(c.Object, template, "spec", "imageTemplate"))
	})
	w.createCatalog(t, "annotation", image+"0.0", func(c *unstructured.Unstructured) {
		c.SetAnnotations(map[string]string{"olm.catalogImageTemplate": template})
	})
	w.createCatalog(t, "plain", image+"1.20", nil)
	w.waitReady(t, "plain", older)
	if c, ok := conditionOf(w.catalog(t, "plain"), "TemplatesHaveResolved"); ok {
		t.Errorf("a catalog without a template has TemplatesHaveResolved: %+v", c)
	}
	both := []string{"field", "annotation"}
	for _, catalog := range both {
		w.waitRendered(t, catalog, image+"1.20", older)
	}

	cluster.version.Store("v1.21.0-rc.1")
	for _, catalog := range both {
		w.requestPoll(t, catalog, "upgraded")
		w.waitRendered(t, catalog, image+"1.21", newer)
	}

	cluster.version.Store("unheard-of")
	for _, catalog := range both {
		w.askForPoll(t, catalog, "unresolvable")
		w.waitUnresolved(t, catalog,
			`Cannot construct catalog image reference, variables "kube_major_version", "kube_minor_version" couldn't be resolved`)
		c := w.catalog(t, catalog)
		err := errors.Join(wantString(c, newer, "status", "digest"), wantCondition(c, "Serving", "True"),
			w.answers(w.contentURL(catalog, "/api/v1/all"), http.StatusOK))
		if err != nil {
			t.Errorf("CatalogSource %s while its template cannot be resolved: %v", catalog, err)
		}
	}
	cluster.version.Store("v1.20.2")
	for _, catalog := range both {
		w.askForPoll(t, catalog, "resolvable")
		w.waitRendered(t, catalog, image+"1.20", older)
	}

	w.patchCatalog(t, "field", fmt.Sprintf(`{"spec":{"imageTemplate":%q}}`, image+"{foo}"))
	w.waitUnresolved(t, "field", `Cannot construct catalog image reference, "{foo}" is not a known variable; known are `+
		`kube_major_version, kube_minor_version, kube_patch_version`)
}

func (w *world) waitRendered(t *testing.T, catalog, image, digest string) {
	t.Helper()
	w.waitReady(t, catalog, digest)
	w.eventuallyCatalog(t, catalog, "resolved", func(c *unstructured.Unstructured) error {
		got, _ := conditionOf(c, "TemplatesHaveResolved")
		if got.status != "True" || got.reason != "AllTemplatesResolved" {
			return fmt.Errorf("TemplatesHaveResolved is %+v", got)
		}
		return wantString(c, image, "status", "image")
	})
}

func (w *world) waitUnresolved(t *testing.T, catalog, message string) {
	t.Helper()
	w.eventuallyCatalog(t, catalog, "unresolved", func(c *unstructured.Unstructured) error {
		got, _ := conditionOf(c, "TemplatesHaveResolved")
		if got.status != "False" || got.reason != "UnableToResolve" || !strings.Contains(got.message, message) {
			return fmt.Errorf("TemplatesHaveResolved is %+v, want False, UnableToResolve, %q", got, message)
		}
		return wantCondition(c, "Ready", "False")
	})
}
