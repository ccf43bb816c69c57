package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestServesWithoutDependencies takes everything but the volume away from catalogd, one thing after the other: it keeps serving its
// content. It stops an API server, so it needs a control plane of its own.
func TestServesWithoutDependencies(t *testing.T) {
	plane, err := system.StartControlPlane("..")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must.Succeed(t, plane.Stop()) })
	w := newWorld(t, plane)
	ref, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", ref, nil)
	w.waitReady(t, "sample", digest)
	url := w.contentURL("sample", "/api/v1/all")
	before := get(t, url)
	etag := before.header.Get("ETag")
	if before.status != http.StatusOK || etag == "" {
		t.Fatalf("GET %s: status %d, ETag %q; want 200 with an ETag", url, before.status, etag)
	}
	serves := func() error {
		r, err := tryGet(url)
		if err != nil {
			return err
		}
		if r.status != http.StatusOK || r.header.Get("ETag") != etag || string(r.body) != string(before.body) {
			return fmt.Errorf("status %d, ETag %s, %d bytes; want 200, %s, %d bytes", r.status, r.header.Get("ETag"), len(r.body), etag,
				len(before.body))
		}
		if modified := r.header.Get("Last-Modified"); modified != before.header.Get("Last-Modified") {
			return fmt.Errorf("Last-Modified is %s, was %s", modified, before.header.Get("Last-Modified"))
		}
		return nil
	}

	w.kill(t)
	w.registry.stop()
	w.start(t)
	eventually.Succeeds(t, "the content is served after kill -9 without a registry", serves)

	w.kill(t)
	if err := plane.Env.ControlPlane.APIServer.Stop(); err != nil {
		t.Fatal(err)
	}
	w.start(t)
	eventually.Succeeds(t, "the content is served after kill -9 without a registry and an API server", serves)
	if !w.alive() {
		t.Error("catalogd has ended for want of an API server")
	}

	must.Succeed(t, plane.Env.ControlPlane.APIServer.Start())
	w.registry.start(t)
	_, second := w.registry.push(t, "sample", catalogImage(t, soundDir))
	eventually.Succeeds(t, "the API server answers", func() error { return w.List(t.Context(), system.NewList(system.CatalogKind)) })
	w.requestPoll(t, "sample", "all is back")
	w.waitReady(t, "sample", second)
}
