package sync

import (
	"testing"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// madeAnew has a catalog deleted, and another one of its name made, while a replica that serves the first does not
// look. The registry does not
// answer any more.
func madeAnew(t *testing.T, change func(*v1beta1.CatalogSource)) (w, away *world, first string) {
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

// What a deleted catalog served is not served for another one of its name, whatever role the replica has.
func TestMadeAnew(t *testing.T) {
	for name, role := range map[string]role{"follower": follower, "leader": leader} {
		t.Run(name, func(t *testing.T) {
			_, away, first := madeAnew(t, nil)
			away.Leadership = role
			for range 2 { // as a leader, it announces first that it begins
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

// What another replica got for the new catalog is that one's, whoever had it before: it is not taken out of service in between.
func TestMadeAnewAsItWas(t *testing.T) {
	for _, test := range []struct {
		name, dir string
		served    bool
	}{
		{"of the same directory", "", true},
		{"of another directory", "/elsewhere", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, away, digest := madeAnew(t, func(c *v1beta1.CatalogSource) {
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
				t.Errorf("it is served for %s, want %s", served.Owner, c.UID)
			}
		})
	}
}

// What an earlier release pointed to is of nobody in particular, and stays; from then on it is known whose it is.
func TestNobodys(t *testing.T) {
	w := newWorld(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	served, _ := w.Store.Catalog(w.catalog)
	nobodys := store.Source{Image: served.Image, Digest: digest}
	must.Succeed(t, w.Store.Serve(t.Context(), w.catalog, nobodys, served.Snapshot))
	w.restart()
	w.registry.refuse(everything)
	w.reconcile()
	wantEqual(t, "digest", digest, w.servedDigest())
	again, _ := w.Store.Catalog(w.catalog)
	wantEqual(t, "catalog as the store has it", served.Owner+served.Basis+served.Endpoint, again.Owner+again.Basis+again.Endpoint)
	wantEqual(t, "since when it is served", served.Since, again.Since)
}
