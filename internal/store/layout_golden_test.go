package store

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

var update = flag.Bool("update", false, "write the golden files of a new layoutVersion")

// goldenCatalog fills every field that the store keeps; TestGoldenCatalogIsComplete holds it to that.
var goldenCatalog = files{"a/catalog.json": `{"schema":"olm.package","name":"foo","defaultChannel":"stable","description":"short",
	"icon":{"base64data":"PHN2Zy8+","mediatype":"image/svg+xml"}}
{"schema":"olm.channel","package":"foo","name":"stable","entries":[{"name":"foo.v1"},{"name":"foo.v2","replaces":"foo.v1"}]}
{"schema":"olm.bundle","package":"foo","name":"foo.v1","image":"example.com/foo:v1",
	"properties":[{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0"}}]}
{"schema":"olm.bundle","package":"foo","name":"foo.v2","image":"example.com/foo:v2","properties":[
	{"type":"olm.package","value":{"packageName":"foo","version":"2.0.0"}},
	{"type":"olm.gvk","value":{"group":"example.com","version":"v1","kind":"Foo"}},
	{"type":"olm.csv.metadata","value":{"annotations":{"description":"one line","categories":"Database,Storage","capabilities":"Basic Install",
		"features.operators.openshift.io/disconnected":"true"},"installModes":[{"type":"AllNamespaces","supported":true}],
		"displayName":"Foo","description":"long","keywords":["one","two"],"provider":{"name":"Example"}}}]}
{"schema":"olm.deprecations","package":"foo","entries":[{"reference":{"schema":"olm.package"},"message":"package"},
	{"reference":{"schema":"olm.channel","name":"stable"},"message":"channel"},
	{"reference":{"schema":"olm.bundle","name":"foo.v2"},"message":"bundle"}]}`,
	"b/custom.yaml": "schema: example.com/custom\npackage: foo\nname: text\n"}

// commitGolden commits the golden catalog twice, with every field of a Source, so that the pointer has a previous version.
func commitGolden(t *testing.T) (testVolume, *Snapshot) {
	t.Helper()
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	src := Source{Image: "example.com/catalog:v1", Digest: digest(1), ConfigDir: "configs", Endpoint: "mirror.example/catalog@" + digest(1),
		Basis: "basis", Owner: "owner", Since: c.Now()}
	_, err := tryCommit(t, s, "cat", src, goldenCatalog)
	must.Succeed(t, err)
	src.Digest = digest(2)
	snap, err := tryCommit(t, s, "cat", src, goldenCatalog)
	must.Succeed(t, err)
	return v, snap
}

// Later releases read what this one writes. A change of these files needs a higher layoutVersion: raise it and run this test with
// -update. For an addition that earlier releases ignore (see TestPointerOfLaterRelease), or after a change of packagesMagic, delete the
// golden files instead.
func TestLayoutMatchesItsVersion(t *testing.T) {
	v, snap := commitGolden(t)
	golden := filepath.Join("testdata", "layout-"+layoutVersion)
	_, err := os.Stat(golden)
	write := *update && os.IsNotExist(err) // what a release wrote is never written over
	if write {
		must.Succeed(t, os.MkdirAll(golden, 0o755))
	}
	for name, file := range map[string]string{
		"pointer":    filepath.Join(catalogsDir, "cat"),
		catalogFile:  filepath.Join(snapshotsDir, snap.Key(), catalogFile),
		indexFile:    filepath.Join(snapshotsDir, snap.Key(), indexFile),
		snapshotFile: filepath.Join(snapshotsDir, snap.Key(), snapshotFile),
		packagesFile: filepath.Join(snapshotsDir, snap.Key(), packagesFile),
	} {
		got := v.read(file)
		if write {
			must.Succeed(t, os.WriteFile(filepath.Join(golden, name), []byte(got), 0o644))
			continue
		}
		if want, err := os.ReadFile(filepath.Join(golden, name)); err != nil || string(want) != got {
			t.Errorf("%s: layout %s is written in another way (%v): raise layoutVersion\ngot  %q\nwant %q", name, layoutVersion, err, got, want)
		}
	}
	line, err := marshalLine(InvalidPackage{Name: "name", Reason: "reason", Hash: "hash"})
	if want := `{"name":"name","reason":"reason"}`; err != nil || string(line) != want {
		t.Errorf("an invalid package is written as %s %v, not as %s: raise layoutVersion", line, err, want)
	}
}

// A field that is added to what the store keeps fails here until the golden catalog has it; then it fails the test above.
func TestGoldenCatalogIsComplete(t *testing.T) {
	v, snap := commitGolden(t)
	summary, _, err := snap.Summary("foo")
	must.Succeed(t, err)
	pkg, err := snap.LoadPackage("foo")
	must.Succeed(t, err)
	var p pointer
	must.Succeed(t, json.Unmarshal([]byte(v.read(catalogsDir, "cat")), &p))
	for _, kept := range []any{snap.Info(), summary, *pkg, pkg.Channels[0], pkg.Channels[0].Entries[0], p, p.Previous[0]} {
		value := reflect.ValueOf(kept)
		for i := range value.NumField() {
			if name := value.Type().Field(i).Name; name != "Subset" && value.Field(i).IsZero() { // TestSubsetLayout has subsets
				t.Errorf("%s.%s is not set by the golden catalog", value.Type(), value.Type().Field(i).Name)
			}
		}
	}
}

// What an earlier release stored is served at once, and its packages as soon as they are validated again.
func TestValidationOfEarlierRelease(t *testing.T) {
	earlier := filepath.Join("testdata", "layout-1-earlier")
	store := func(t *testing.T) *Store {
		v := testVolume{t, t.TempDir()}
		must.Succeed(t, os.MkdirAll(v.path(catalogsDir), 0o755))
		pointer, err := os.ReadFile(filepath.Join(earlier, "pointer"))
		must.Succeed(t, err)
		v.write(string(pointer), catalogsDir, "cat")
		snapshot := v.path(snapshotsDir, Source{Digest: digest(2), ConfigDir: "configs"}.Key())
		must.Succeed(t, os.MkdirAll(filepath.Dir(snapshot), 0o755))
		must.Succeed(t, os.CopyFS(snapshot, os.DirFS(earlier)))
		return open(t, v.dir, newClock())
	}
	for name, validate := range map[string]func(*Store, Catalog) error{
		"at the next pass": func(s *Store, c Catalog) error {
			return s.Serve(t.Context(), "cat", Source{Image: c.Image, Digest: digest(2), ConfigDir: "configs", Owner: c.Owner}, c.Snapshot)
		},
		"by a scrub": func(s *Store, _ Catalog) error {
			_, err := s.Scrub(t.Context())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := store(t)
			c, ok := s.Catalog("cat")
			if !ok || c.Snapshot.Validated() {
				t.Fatalf("got %v %+v, want a catalog without validated packages", ok, c)
			}
			must.Succeed(t, validate(s, c))
			summary, ok, err := c.Snapshot.Summary("foo")
			if err != nil || !ok || summary.IconHash == "" || len(summary.Architectures) == 0 {
				t.Errorf("got %+v %v %v, want a summary with all fields", summary, ok, err)
			}
			if reopened, err := openSnapshot(s.volume, c.Snapshot.Key()); err != nil || !reopened.Validated() {
				t.Errorf("the new validation is not stored (%v)", err)
			}
		})
	}
}
