package author

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/session/sessiontest"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/subset"
)

// exported is a catalog with names that no directory should have, packages whose blobs do not stand together, and numbers that Go has not.
var exported = []string{
	`{"schema":"olm.package","name":"a","defaultChannel":"x"}`,
	`{"schema":"olm.package","name":"../b"}`,
	`{"schema":"example.com.info","n":1.0,"big":12345678901234567890123}`,
	`{"schema":"olm.channel","package":"a","name":"x","z":1,"y":2}`,
	`{"schema":"olm.package","name":"A"}`,
	`{"schema":"olm.package","name":".indexignore"}`,
	`{"schema":"olm.package","name":"catalog.json"}`,
	`{"schema":"olm.package","name":"c/d"}`,
	`{"schema":"olm.package","name":"` + strings.Repeat("long", 100) + `"}`,
	`{"schema":"olm.bundle","package":"a","name":"a.v1","description":"one\ntwo\n"}`,
	`{"schema":"example.com.info","package":"","n":2}`,
}

const exportedVersion = "sha256:0123"

// serveExported answers as the content service does; cut breaks the reply off.
func serveExported(t *testing.T, cut bool) *session.Session {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /catalogs/sample", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"bytes":1}`) })
	lines := func(pkg string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Location", "/catalogs/sample/digests/"+exportedVersion+"/api/v1/x")
			for _, blob := range exported {
				if pkg == "" || strings.Contains(blob, `"`+pkg+`"`) {
					fmt.Fprintln(w, blob)
				}
			}
			if cut {
				fmt.Fprint(w, `{"schema":`)
			}
		}
	}
	mux.HandleFunc("GET /catalogs/sample/api/v1/all", lines(""))
	mux.HandleFunc("GET /catalogs/sample/api/v1/packages/a", lines("a"))
	mux.HandleFunc("GET /catalogs/sample/digests/"+exportedVersion+"/api/v1/packages/A", lines("A"))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return sessiontest.New(t, io.Discard, "--server-url", server.URL)
}

// blobsIn reads a directory as catalogd does: the blobs by package, in their order.
func blobsIn(t *testing.T, root string) map[string][]string {
	t.Helper()
	files, err := scan.Files(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, file := range files {
		err := scan.ReadFile(os.DirFS(root), file, 0, func(b scan.Blob) error {
			pkg, _ := fbc.PackageOf(b.Schema, b.Package, b.Name)
			found[pkg] = append(found[pkg], string(b.JSON))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func exportSample(t *testing.T, cut bool, packages []string, to string, force bool) error {
	t.Helper()
	rules, err := subset.Parse(packages)
	if err != nil {
		t.Fatal(err)
	}
	req := exportRequest{catalog: "sample", rules: rules, to: to, force: force}
	_, err = exportCatalog(t.Context(), serveExported(t, cut), req)
	return err
}

func TestExportEqualsServedContent(t *testing.T) {
	want := map[string][]string{}
	for _, blob := range exported {
		pkg := ""
		switch {
		case strings.Contains(blob, `"olm.package"`):
			pkg = strings.Split(blob, `"`)[7]
		case strings.Contains(blob, `"a"`):
			pkg = "a"
		}
		want[pkg] = append(want[pkg], blob)
	}
	for _, to := range []string{"new/../dir", "one.json", "one.yaml"} {
		t.Run(to, func(t *testing.T) {
			outside := t.TempDir()
			root := filepath.Join(outside, "root")
			if err := os.Mkdir(root, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := exportSample(t, false, nil, filepath.Join(root, to), false); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, blobsIn(t, root)); diff != "" {
				t.Error(diff)
			}
			if left, _ := fs.Glob(os.DirFS(root), "*"); len(left) != 1 {
				t.Errorf("there is %q, want one", left)
			}
			if left, _ := fs.Glob(os.DirFS(outside), "*"); len(left) != 1 {
				t.Errorf("there is %q outside, want the root only", left)
			}
		})
	}
}

func TestExportOfPackages(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	if err := exportSample(t, false, []string{"a", "A", "a"}, root, false); err != nil {
		t.Fatal(err)
	}
	got := blobsIn(t, root)
	if len(got) != 2 || len(got["a"]) != 3 || len(got["A"]) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestFailedExportKeepsExistingContent(t *testing.T) {
	for _, to := range []string{"dir", "one.json"} {
		root := t.TempDir()
		path := filepath.Join(root, to)
		if err := os.MkdirAll(filepath.Join(path, "old"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := exportSample(t, false, nil, path, false); !exit.IsUsage(err) {
			t.Errorf("%s is not empty, and the error is %v", to, err)
		}
		if err := exportSample(t, true, nil, path, true); err == nil {
			t.Errorf("%s: a reply that is cut off passes for the whole", to)
		}
		if _, err := os.Stat(filepath.Join(path, "old")); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(root); len(left) != 1 {
			t.Errorf("there is %v, want only what was there", left)
		}
		if err := exportSample(t, false, nil, path, true); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(path, "old")); err == nil {
			t.Errorf("%s is not replaced", to)
		}
		if left, _ := os.ReadDir(root); len(left) != 1 {
			t.Errorf("there is %v, want the export only", left)
		}
	}
}

func TestShortDigestSelectsServedVersion(t *testing.T) {
	const served = "sha256:ec6a8101d039aead203323a35a3077d2ffe58639500fb75aa4e1b65ac1f7d718"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Location", "/catalogs/sample/digests/"+served+"/api/v1/metas")
	}))
	defer server.Close()
	service, err := sessiontest.New(t, io.Discard, "--server-url", server.URL).Direct()
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{
		"": "", "ec6a8101d039": served, "sha256:ec6a8101": served, "ec6a810": "ec6a810", served: served, "deadbeef": "",
	} {
		got, err := wholeVersion(t.Context(), service, "sample", version)
		if got != want || (err != nil) != (version == "deadbeef") {
			t.Errorf("%q: got %q, want %q; error %v", version, got, want, err)
		}
	}
}
