package sync

import (
	"testing"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// recreate deletes and recreates a catalog while the replica away, which serves the first one, is down. The registry
// then refuses all requests.
func recreate(t *testing.T, change func(*v1beta1.CatalogSource)) (w, away *world, first string) {
	t.Helper()
	w = newWorld(t)
	ref, first := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	away = w.replica()
	away.reconcile()
	wantEqual(t, "digest of the replica", first, away.servedDigest())
	must.Succeed(t, w.api.Delete(t.Context(), w.source()))
	w.reconcile()
	w.create(ref, change)
	w.registry.refuse(everything)
	away.restart()
	return w, away, first
}

// Leaders and followers drop the content of a deleted catalog when a catalog with the same name exists.
func TestRecreatedCatalogDropsOldContent(t *testing.T) {
	for name, role := range map[string]role{"follower": follower, "leader": leader} {
		t.Run(name, func(t *testing.T) {
			_, away, first := recreate(t, nil)
			away.Leadership = role
			for range 2 { // the first pass of a leader only announces the work
				away.reconcile()
			}
			wantEqual(t, "digest", "", away.servedDigest())
			wantEqual(t, "digest in the status", "", away.source().Status.Digest)
			wantEqual(t, "packages", map[string]string{}, away.packages())

			away.registry.refuse(nil)
			away.Leadership = leader
			away.requestPoll("now")
			away.settle()
			wantEqual(t, "digest once the registry answers", first, away.servedDigest())
			away.restart()
			away.registry.refuse(everything)
			away.reconcile()
			wantEqual(t, "digest after a restart without a registry", first, away.servedDigest())
		})
	}
}

// A replica keeps serving the old content if another replica pulled the same content for the new catalog.
func TestRecreatedCatalogKeepsSameContent(t *testing.T) {
	for _, test := range []struct {
		name, dir string
		served    bool
	}{
		{"same directory", "", true},
		{"other directory", "/elsewhere", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, away, digest := recreate(t, func(c *v1beta1.CatalogSource) {
				if test.dir != "" {
					c.Spec.ExtractContent = &v1beta1.ExtractContent{ConfigDir: test.dir}
				}
			})
			c := w.source()
			c.Status.Digest, c.Status.Image = digest, c.Spec.Image
			must.Succeed(t, w.api.Status().Update(t.Context(), c))
			away.reconcile()
			want := map[bool]string{true: digest}[test.served]
			wantEqual(t, "digest of the replica", want, away.servedDigest())
			if served, _ := away.Store.Catalog(w.catalog); test.served && served.Owner != string(c.UID) {
				t.Errorf("the content belongs to %s, want %s", served.Owner, c.UID)
			}
		})
	}
}

// Content that an earlier release stored has no owner. It stays and gets one.
func TestContentWithoutOwnerStays(t *testing.T) {
	w := newWorld(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	served, _ := w.Store.Catalog(w.catalog)
	ownerless := store.Source{Image: served.Image, Digest: digest}
	must.Succeed(t, w.Store.Serve(t.Context(), w.catalog, ownerless, served.Snapshot))
	w.restart()
	w.registry.refuse(everything)
	w.reconcile()
	wantEqual(t, "digest", digest, w.servedDigest())
	again, _ := w.Store.Catalog(w.catalog)
	wantEqual(t, "stored catalog", served.Owner+served.Basis+served.Endpoint, again.Owner+again.Basis+again.Endpoint)
	wantEqual(t, "start of serving", served.Since, again.Since)
}
