package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
)

const (
	patience  = 60 * time.Second      // time limit for a state
	checkGap  = 50 * time.Millisecond // between two checks of a state
	neverPoll = "24h"                 // a polling interval longer than any test
)

// errEnded ends every wait: no state changes after the end of catalogd.
var errEnded = fmt.Errorf("catalogd has ended: %w", eventually.ErrNever)

// world is the system of a test: a control plane, with its own registry and catalogd.
type world struct {
	*system.ControlPlane
	*daemon
	registry *imageRegistry

	deadline time.Time // of all waits for catalogs, after waitTogether
}

// waitTogether gives all following waits for catalogs one common time limit, as many catalogs progress at the same
// time.
func (w *world) waitTogether() { w.deadline = time.Now().Add(patience) }

// newWorld starts a registry, and a catalogd with additional arguments. When the test ends, it deletes every
// CatalogSource, stops both, and prints catalogd's log if the test failed.
func newWorld(t *testing.T, plane *system.ControlPlane, args ...string) *world {
	t.Helper()
	w := &world{ControlPlane: plane, daemon: newDaemon(t, plane.DaemonKubeconfig), registry: newRegistry(t)}
	w.args = append(w.args, args...)
	t.Cleanup(func() { w.close(t) })
	w.start(t)
	eventually.Succeeds(t, "catalogd is ready", func() error { return w.answers("http://"+w.health+"/readyz", http.StatusOK) })
	return w
}

func (w *world) close(t *testing.T) {
	if err := w.DeleteCatalogs(context.Background(), patience/2); err != nil {
		t.Errorf("cleaning up: %v", err)
	}
	if w.alive() {
		w.signal(t, syscall.SIGTERM)
		w.wait(t, patience)
	}
	if t.Failed() {
		t.Logf("catalogd's last log lines:\n%s", w.log.tail(60))
	}
}

// createCatalog creates a CatalogSource for the image; edit may change it before.
func (w *world) createCatalog(t *testing.T, name, image string, edit func(*unstructured.Unstructured)) {
	t.Helper()
	object := system.NewObject(system.CatalogKind, name)
	object.Object["spec"] = map[string]any{"image": image, "pollingInterval": neverPoll}
	if edit != nil {
		edit(object)
	}
	if err := w.Create(t.Context(), object); err != nil {
		t.Fatalf("creating CatalogSource %s: %v", name, err)
	}
}

func (w *world) catalog(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	object := system.NewObject(system.CatalogKind, name)
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatalf("getting CatalogSource %s: %v", name, err)
	}
	return object
}

// patchCatalog applies a JSON merge patch.
func (w *world) patchCatalog(t *testing.T, name, patch string) {
	t.Helper()
	object := system.NewObject(system.CatalogKind, name)
	if err := w.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		t.Fatalf("patching CatalogSource %s with %s: %v", name, patch, err)
	}
}

// askForPoll requests a poll.
func (w *world) askForPoll(t *testing.T, name, value string) {
	t.Helper()
	w.patchCatalog(t, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, system.PollNow, value))
}

// requestPoll requests a poll and waits until status confirms the request.
func (w *world) requestPoll(t *testing.T, name, value string) {
	t.Helper()
	w.askForPoll(t, name, value)
	w.eventuallyCatalog(t, name, "polled for request "+value, func(c *unstructured.Unstructured) error {
		return wantString(c, value, "status", "poll", "requested")
	})
}

// waitReady waits until the catalog is Ready with this digest at the current generation; "" is any digest.
func (w *world) waitReady(t *testing.T, name, digest string) {
	t.Helper()
	w.eventuallyCatalog(t, name, "Ready", func(c *unstructured.Unstructured) error {
		if digest != "" {
			if err := wantString(c, digest, "status", "digest"); err != nil {
				return err
			}
		}
		return wantCondition(c, "Ready", "True")
	})
}

func (w *world) eventuallyCatalog(t *testing.T, name, state string, check func(*unstructured.Unstructured) error) {
	t.Helper()
	limit := patience
	if !w.deadline.IsZero() {
		limit = max(0, time.Until(w.deadline))
	}
	err := eventually.Within(t.Context(), limit, func() error {
		c := w.catalog(t, name)
		if err := check(c); err != nil {
			return fmt.Errorf("%w; conditions: %s", err, describeConditions(c))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("waiting until CatalogSource %s is %s: %v", name, state, err)
	}
}

// packages returns the OperatorPackages of a catalog by object name.
func (w *world) packages(t *testing.T, catalog string) map[string]unstructured.Unstructured {
	t.Helper()
	list := system.NewList(system.PackageKind)
	if err := w.List(t.Context(), list, client.MatchingLabels{"catalog": catalog}); err != nil {
		t.Fatalf("listing the OperatorPackages of %s: %v", catalog, err)
	}
	found := map[string]unstructured.Unstructured{}
	for _, item := range list.Items {
		found[item.GetName()] = item
	}
	return found
}

// gone returns nil if the CatalogSource no longer exists.
func (w *world) gone(t *testing.T, name string) error {
	object := system.NewObject(system.CatalogKind, name)
	err := w.Get(t.Context(), client.ObjectKeyFromObject(object), object)
	if err == nil {
		return errors.New("the CatalogSource is still there")
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// contentURL returns the URL of a path below a catalog's own.
func (w *world) contentURL(catalog, path string) string {
	return "http://" + w.content + "/catalogs/" + catalog + path
}

// reply is a complete HTTP reply.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func get(t *testing.T, url string) reply {
	t.Helper()
	r, err := tryGet(url)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	return r
}

func tryGet(url string) (reply, error) { return tryGetWith(url, nil) }

// tryGetBriefly has a short time limit, as the server may be stopped.
func tryGetBriefly(url string) (reply, error) { return tryGetWithin(3*time.Second, url, nil) }

// tryGetWith sends only the Accept-Encoding of header.
func tryGetWith(url string, header map[string]string) (reply, error) {
	return tryGetWithin(patience, url, header)
}

func tryGetWithin(limit time.Duration, url string, header map[string]string) (reply, error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return reply{}, err
	}
	for name, value := range header {
		request.Header.Set(name, value)
	}
	c := &http.Client{Timeout: limit, Transport: &http.Transport{DisableCompression: true}}
	defer c.CloseIdleConnections()
	response, err := c.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, body}, err
}

// answers returns nil if a GET of the URL has the status.
func (w *world) answers(url string, status int) error {
	if !w.alive() {
		return errEnded
	}
	r, err := tryGet(url)
	if err != nil {
		return err
	}
	if r.status != status {
		return fmt.Errorf("GET %s: status %d, want %d: %.200s", url, r.status, status, r.body)
	}
	return nil
}

// condition is one entry of status.conditions.
type condition struct{ status, reason, message string }

func conditionOf(object *unstructured.Unstructured, kind string) (condition, bool) {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		c, ok := item.(map[string]any)
		if !ok || c["type"] != kind {
			continue
		}
		if g, ok := c["observedGeneration"].(int64); ok && g != object.GetGeneration() {
			return condition{}, false
		}
		text := func(key string) string { s, _ := c[key].(string); return s }
		return condition{text("status"), text("reason"), text("message")}, true
	}
	return condition{}, false
}

func wantCondition(object *unstructured.Unstructured, kind, status string) error {
	if c, _ := conditionOf(object, kind); c.status != status {
		return fmt.Errorf("condition %s is %q, want %q", kind, c.status, status)
	}
	return nil
}

func wantString(object *unstructured.Unstructured, want string, path ...string) error {
	if got, _, _ := unstructured.NestedString(object.Object, path...); got != want {
		return fmt.Errorf("%s is %q, want %q", strings.Join(path, "."), got, want)
	}
	return nil
}

func describeConditions(object *unstructured.Unstructured) string {
	var b strings.Builder
	for _, kind := range []string{"Ready", "Serving", "Progressing", "PackagesSynced"} {
		c, _ := conditionOf(object, kind)
		fmt.Fprintf(&b, "\n  %s=%s %s: %s", kind, c.status, c.reason, c.message)
	}
	return b.String()
}
