package content

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// The version is found behind any name of a catalog in the path.
func TestVersion(t *testing.T) {
	for _, catalog := range []string{"sample", "digests", "api", "catalogs"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Location", "/below"+Path(catalog, "sha256:0123-0", "all"))
		}))
		defer server.Close()
		at, err := ParseAddress(server.URL, "")
		if err != nil {
			t.Fatal(err)
		}
		service, err := Direct(&rest.Config{}, at, Options{})
		if err != nil {
			t.Fatal(err)
		}
		served, err := service.Version(t.Context(), catalog)
		read, errRead := service.Blobs(t.Context(), catalog, "", "all", nil, nil)
		if err != nil || errRead != nil || served != "sha256:0123-0" || read != served {
			t.Errorf("%s is at %q (%v), and what is read of it at %q (%v)", catalog, served, err, read, errRead)
		}
	}
}
