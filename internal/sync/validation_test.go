package sync

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/sync/status"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// validationFile returns the file with the validation of the served packages.
func (w *world) validationFile() string {
	w.t.Helper()
	served, ok := w.Store.Catalog(w.catalog)
	if !ok {
		w.t.Fatal("nothing is served")
	}
	return filepath.Join(w.dir, "snapshots", served.Snapshot.Key(), "packages")
}

// crashBeforeValidation restarts after a crash between the commit of the content and the validation of its packages.
func (w *world) crashBeforeValidation() {
	w.t.Helper()
	must.Succeed(w.t, os.Remove(w.validationFile()))
	w.restart()
}

// damageInvalid damages the invalid packages in the validation file.
func (w *world) damageInvalid() {
	w.t.Helper()
	w.damageValidation(`"reason"`)
}

// damageValidation damages the validation file wherever it has a text.
func (w *world) damageValidation(text string) {
	w.t.Helper()
	b, err := os.ReadFile(w.validationFile())
	must.Succeed(w.t, err)
	if !bytes.Contains(b, []byte(text)) {
		w.t.Fatalf("the validation file has no %s", text)
	}
	f, err := os.OpenFile(w.validationFile(), os.O_WRONLY, 0)
	must.Succeed(w.t, err)
	defer f.Close()
	_, err = f.Write(bytes.ReplaceAll(b, []byte(text), bytes.ToUpper([]byte(text)))) // in place, as a disk does it
	must.Succeed(w.t, err)
}

// Until the packages are validated, the status reports that and keeps the counts of the same digest.
func TestStatusBeforeValidation(t *testing.T) {
	w := published(t, pkg{name: "foo"}, pkg{name: "bad", head: "absent"})
	packages, want := w.packages(), w.source().Status.Content
	w.crashBeforeValidation()

	const message = "False Unpacking: The packages are still being validated."
	conclude := func(rec *trial) (outcome, *v1beta1.CatalogSource) {
		t.Helper()
		rec.publish()
		out, c := rec.conclude()
		wantCondition(t, c, v1beta1.PackagesSyncedCondition, message)
		wantCondition(t, c, v1beta1.ReadyCondition, message)
		return out, c
	}
	_, c := conclude(w.begin())
	wantEqual(t, "content of the same digest", want, c.Status.Content)
	wantEqual(t, "packages", packages, w.packages())

	rec := w.begin()
	rec.src.Observed.Digest = "sha256:other"
	out, c := conclude(rec)
	got := c.Status.Content
	if got.Packages != 0 || got.InvalidPackageCount != 0 || got.InvalidPackages != nil {
		t.Errorf("the content of another digest is %+v", got)
	}
	wantEqual(t, "events", []status.Event{{
		Type: "Normal", Reason: "Unpacked", Action: "Unpack",
		Note: "Serving " + c.Spec.Image + " at " + c.Status.Digest + ": packages still being validated, 2 bundles.",
	}}, out.events)

	w.clock.SetTime(start.Add(time.Hour))
	w.reconcile()
	if ready := conditions(w.source())[v1beta1.ReadyCondition]; !strings.HasPrefix(ready, "True ") {
		t.Errorf("Ready is %q after a whole pass", ready)
	}
}

// A pass that is canceled during the validation reports no fault.
func TestCanceledDuringValidation(t *testing.T) {
	w := published(t, pkg{name: "foo"})
	w.crashBeforeValidation()
	rec := w.begin()
	rec.resolve()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := rec.tryUnpack(stopped); !errors.Is(err, context.Canceled) || rec.f.fault() != nil {
		t.Errorf("got error %v and fault %v, want a canceled context and no fault", err, rec.f.fault())
	}
}

// A damaged list of invalid packages is rebuilt without a request to the registry.
func TestDamagedInvalidPackagesAreValidatedAgain(t *testing.T) {
	w := published(t, pkg{name: "foo"}, pkg{name: "bad", head: "absent"})
	want := w.source().Status.Content
	w.damageInvalid()
	w.reconcile()
	wantEqual(t, "content", want, w.source().Status.Content)
	wantEqual(t, "requests to the registry", nil, w.registry.take())
}

// A damaged validation of valid packages is rebuilt once they must be written.
func TestDamagedValidPackagesAreValidatedAgain(t *testing.T) {
	w := published(t, pkg{name: "bar"}, pkg{name: "foo"})
	w.damageValidation(`"DefaultChannel"`)
	w.change(func(c *v1beta1.CatalogSource) { c.Spec.DisplayName = "Shown" })
	w.reconcile()
	for _, name := range []string{"bar", "foo"} {
		if got := w.getPackage(name).Status.CatalogSourceDisplayName; got != "Shown" {
			t.Errorf("%s shows %q", name, got)
		}
	}
	if ready := conditions(w.source())[v1beta1.ReadyCondition]; !strings.HasPrefix(ready, "True ") {
		t.Errorf("Ready is %q", ready)
	}
	wantEqual(t, "requests to the registry", []string{"HEAD manifests"}, w.registry.take()) // as after every change
}

// With a damaged channel head the pass fails and the published packages stay. The next pass unpacks the content again.
func TestDamagedHeadIsUnpackedAgain(t *testing.T) {
	long := strings.Repeat("long ", 30_000) // its values are hashed
	w := published(t, pkg{name: "bar"}, pkg{name: "foo", description: long})
	served, _ := w.Store.Catalog(w.catalog)
	content := filepath.Join(w.dir, "snapshots", served.Snapshot.Key(), "catalog.jsonl")
	b, err := os.ReadFile(content)
	must.Succeed(t, err)
	at := bytes.LastIndex(b, []byte(`[{"type"`)) + 1
	f, err := os.OpenFile(content, os.O_WRONLY, 0)
	must.Succeed(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("z"), int64(at))
	must.Succeed(t, err)

	w.change(func(c *v1beta1.CatalogSource) { c.Spec.DisplayName = "Shown" })
	if _, err := w.tryReconcile(); !errors.As(err, new(*store.DamagedError)) ||
		!strings.Contains(err.Error(), "making OperatorPackage foo."+w.catalog) {
		t.Fatalf("the pass ends with %v", err)
	}
	if got := w.getPackage("foo").Status.CatalogSourceDisplayName; got == "Shown" {
		t.Error("the damaged package is written")
	}
	if ready := conditions(w.source())[v1beta1.ReadyCondition]; !strings.HasPrefix(ready, "False SyncFailed: ") ||
		!strings.Contains(ready, "does not match its hash") {
		t.Errorf("Ready is %q", ready)
	}
	w.registry.take()
	w.reconcile()
	wantEqual(t, "requests to the registry", []string{"GET manifests", "GET blobs", "GET blobs"}, w.registry.take())
	for _, name := range []string{"bar", "foo"} {
		if got := w.getPackage(name).Status.CatalogSourceDisplayName; got != "Shown" {
			t.Errorf("%s shows %q", name, got)
		}
	}
	if ready := conditions(w.source())[v1beta1.ReadyCondition]; !strings.HasPrefix(ready, "True ") {
		t.Errorf("Ready is %q", ready)
	}
}

// If validating again fails, the conditions report it, the packages stay, and retries do not poll the registry.
func TestFailedRevalidationKeepsPackages(t *testing.T) {
	w := published(t, pkg{name: "foo"}, pkg{name: "bad", head: "absent"})
	packages, want := w.packages(), w.source().Status.Content
	w.damageInvalid()
	must.Succeed(t, os.RemoveAll(filepath.Join(w.dir, "stage")))
	w.clock.SetTime(start.Add(time.Hour)) // a poll is due
	for range 3 {
		if _, err := w.tryReconcile(); err == nil || !strings.Contains(err.Error(), "validating the packages") {
			t.Errorf("got error %v, want a failed validation", err)
		}
	}
	wantEqual(t, "requests to the registry", []string{"HEAD manifests"}, w.registry.take())
	c := w.source()
	for _, conditionType := range []string{v1beta1.PackagesSyncedCondition, v1beta1.ReadyCondition} {
		if got := conditions(c)[conditionType]; !strings.HasPrefix(got, "False SyncFailed: Validating the packages of "+w.catalog) {
			t.Errorf("%s is %q", conditionType, got)
		}
	}
	wantEqual(t, "content", want, c.Status.Content)
	wantEqual(t, "packages", packages, w.packages())
}

// The scrub requeues the catalogs whose packages it validated first, and no others.
func TestScrubRequeuesValidatedCatalogs(t *testing.T) {
	w := published(t, pkg{name: "foo"})
	other := w.another()
	ref, _ := w.registry.push("other", catalogOf(pkg{name: "bar"}))
	other.create(ref, nil)
	other.settle()
	w.crashBeforeValidation()
	again := make(chan event.GenericEvent, 10)
	w.again = again
	w.keeper().scrub(t.Context())
	close(again)
	var names []string
	for e := range again {
		names = append(names, e.Object.GetName())
	}
	wantEqual(t, "requeued catalogs", []string{w.catalog}, names)
}
