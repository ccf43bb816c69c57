package publish

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

var update = flag.Bool("update", false, "write the golden files of this package")

// packageBuilder builds packages from catalog files, without an API server or a registry.
type packageBuilder struct {
	Publisher
	t        *testing.T
	source   source.Source
	snapshot *store.Snapshot
	dir      string // of the store
}

func newBuilder(t *testing.T, files map[string]string) *packageBuilder {
	t.Helper()
	dir := t.TempDir()
	st, err := store.Open(dir, store.Options{})
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, st.Close()) })
	stage, err := st.Stage("sample", "")
	must.Succeed(t, err)
	for name, content := range files {
		must.Succeed(t, stage.Root().MkdirAll(filepath.Dir(name), 0o755))
		must.Succeed(t, stage.Root().WriteFile(name, []byte(content), 0o644))
	}
	snapshot, err := stage.Commit(t.Context(), store.Source{Image: "registry.example/sample", Digest: "sha256:" + strings.Repeat("0", 64)})
	must.Succeed(t, err)
	must.Succeed(t, stage.Discard())
	return &packageBuilder{
		Publisher: Publisher{Store: st, Namespace: "catalogd-system", BaseURL: "http://catalogd.example"},
		t:         t, snapshot: snapshot, dir: dir,
		source: source.Source{
			Kind: v1beta1.GroupVersion.WithKind("CatalogSource"), Name: "sample", UID: "11111111-2222-3333-4444-555555555555",
			Names: source.Names{Display: "The Sample", Publisher: "Us"}, Priority: 5,
		},
	}
}

func (b *packageBuilder) tryBuild(name string) (*v1beta1.OperatorPackage, error) {
	b.t.Helper()
	valid, err := b.snapshot.LoadPackage(name)
	must.Succeed(b.t, err)
	heads, err := readHeads(b.t.Context(), b.snapshot, valid)
	must.Succeed(b.t, err)
	return b.builder(b.source).build(valid, heads)
}

func (b *packageBuilder) build(name string) *v1beta1.OperatorPackage {
	b.t.Helper()
	pkg, err := b.tryBuild(name)
	must.Succeed(b.t, err)
	return pkg
}

// TestBuildPackageSample compares every package of the sample catalog with a golden file. e2e compares them with OLM's
// packageserver.
func TestBuildPackageSample(t *testing.T) {
	b := newBuilder(t, sampleCatalog(t))
	packages := b.snapshot.Packages()
	if len(packages) != 10 {
		t.Fatalf("the sample has %d sound packages, want 10", len(packages))
	}
	for _, p := range packages {
		t.Run(p.Name, func(t *testing.T) {
			got, err := json.MarshalIndent(b.build(p.Name), "", "  ")
			must.Succeed(t, err)
			for range 5 {
				again, err := json.MarshalIndent(b.build(p.Name), "", "  ")
				must.Succeed(t, err)
				wantEqual(t, "another build", string(got), string(again))
			}
			golden := filepath.Join("testdata", "operatorpackages", p.Name+".json")
			if *update {
				must.Succeed(t, os.MkdirAll(filepath.Dir(golden), 0o755))
				must.Succeed(t, os.WriteFile(golden, append(got, '\n'), 0o644))
			}
			want, err := os.ReadFile(golden)
			must.Succeed(t, err)
			wantEqual(t, golden, string(want), string(got)+"\n")
			for _, absent := range []string{"alm-examples\"", "base64data"} {
				if strings.Contains(string(got), absent) {
					t.Errorf("holds %s, which no list reads", absent)
				}
			}
		})
	}
}

type object = map[string]any

// blobsOf returns a catalog file.
func blobsOf(t *testing.T, blobs ...object) map[string]string {
	t.Helper()
	var b strings.Builder
	for _, blob := range blobs {
		line, err := json.Marshal(blob)
		must.Succeed(t, err)
		fmt.Fprintln(&b, string(line))
	}
	return map[string]string{"catalog.json": b.String()}
}

func packageBlob(name, defaultChannel string) object {
	return object{"schema": "olm.package", "name": name, "defaultChannel": defaultChannel}
}

func channelBlob(pkg, name string, entries ...object) object {
	return object{"schema": "olm.channel", "package": pkg, "name": name, "entries": entries}
}

// bundleBlob returns the bundle <pkg>.v<version>. metadata is its olm.csv.metadata; nil: none.
func bundleBlob(pkg, version string, metadata object, more ...object) object {
	properties := []object{{"type": "olm.package", "value": object{"packageName": pkg, "version": version}}}
	if metadata != nil {
		properties = append(properties, object{"type": "olm.csv.metadata", "value": metadata})
	}
	return object{
		"schema": "olm.bundle", "package": pkg, "name": pkg + ".v" + version, "image": "registry.example/" + pkg,
		"properties": append(properties, more...),
	}
}

// labelsOf builds a package whose head has the CSV metadata, and returns its labels.
func labelsOf(t *testing.T, own map[string]string, metadata object) map[string]string {
	t.Helper()
	b := newBuilder(t,
		blobsOf(t, packageBlob("foo", "stable"), channelBlob("foo", "stable", object{"name": "foo.v1.0.0"}),
			bundleBlob("foo", "1.0.0", metadata)))
	b.source.Labels = own
	return b.build("foo").Labels
}

func TestLabels(t *testing.T) {
	const linux, amd64 = "operatorframework.io/os.linux", "operatorframework.io/arch.amd64"
	type labels = map[string]string
	for _, test := range []struct {
		name     string
		own      labels // of the CatalogSource
		metadata object
		want     labels // besides those of every package
	}{
		{name: "none", metadata: object{}, want: labels{"provider": "", "provider-url": "", linux: "supported", amd64: "supported"}},
		{
			name: "legal provider", metadata: object{"provider": object{"name": "Example", "url": "example.com"}},
			want: labels{"provider": "Example", "provider-url": "example.com", linux: "supported", amd64: "supported"},
		},
		{
			name: "provider that is no label", metadata: object{"provider": object{"name": "Example, Inc", "url": "https://example.com"}},
			want: labels{linux: "supported", amd64: "supported"},
		},
		{
			name: "platforms", metadata: object{
				"labels": object{"operatorframework.io/os.windows": "supported", "operatorframework.io/arch.arm64": "supported"},
			},
			want: labels{
				"provider": "", "provider-url": "", "operatorframework.io/os.windows": "supported", "operatorframework.io/arch.arm64": "supported",
			},
		},
		{
			name: "one platform only", metadata: object{"labels": object{"operatorframework.io/arch.arm64": "supported"}},
			want: labels{"provider": "", "provider-url": "", linux: "supported", "operatorframework.io/arch.arm64": "supported"},
		},
		{
			name: "platform whose value is illegal", metadata: object{"labels": object{"operatorframework.io/arch.arm64": "yes, it is"}},
			want: labels{"provider": "", "provider-url": "", linux: "supported", amd64: "supported"},
		},
		{
			name: "labels of the catalog and of the content", own: labels{"team": "a", "tier": "gold"},
			metadata: object{
				"labels": object{"tier": "silver", "bad key!": "x", "bad-value": "a b", strings.Repeat("k", 64): "x", "long": strings.Repeat("v", 64)},
			},
			want: labels{"provider": "", "provider-url": "", linux: "supported", amd64: "supported", "team": "a", "tier": "silver"},
		},
		{
			name: "labels that say whose it is", own: labels{"catalog": "own", "catalog-namespace": "own"},
			metadata: object{"labels": object{"catalog": "content", "catalog-namespace": "content", "provider": "content"}},
			want:     labels{"provider": "content", "provider-url": "", linux: "supported", amd64: "supported"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.want["catalog"], test.want["catalog-namespace"] = "sample", "catalogd-system"
			test.want[v1beta1.CatalogKindLabel] = "CatalogSource"
			got := labelsOf(t, test.own, test.metadata)
			wantEqual(t, "labels", test.want, got)
			for key, value := range got {
				if errs := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(errs) > 0 {
					t.Errorf("%s=%s: %v", key, value, errs)
				}
			}
		})
	}
}

func TestBuildPackageChannels(t *testing.T) {
	csv := object{"displayName": "Foo"}
	type want struct {
		channels []string // "<name> <current CSV>: <entries by version>"
		def      string
		version  string
		unfit    string
	}
	for _, test := range []struct {
		name  string
		blobs []object
		want  want
	}{
		{
			name: "sorted, entries highest version first",
			blobs: []object{
				packageBlob("foo", "stable"),
				channelBlob("foo", "stable", object{"name": "foo.v1.2.0"}, object{"name": "foo.v1.10.0", "replaces": "foo.v1.2.0"}),
				channelBlob("foo", "beta", object{"name": "foo.v1.10.0"}),
				bundleBlob("foo", "1.2.0", csv), bundleBlob("foo", "1.10.0", csv),
			},
			want: want{[]string{"beta foo.v1.10.0: 1.10.0", "stable foo.v1.10.0: 1.10.0 1.2.0"}, "stable", "1.10.0", ""},
		},
		{
			name: "a channel whose head has no CSV is left out",
			blobs: []object{
				packageBlob("foo", "stable"),
				channelBlob("foo", "stable", object{"name": "foo.v1.0.0"}),
				channelBlob("foo", "old", object{"name": "foo.v0.1.0"}),
				bundleBlob("foo", "1.0.0", csv), bundleBlob("foo", "0.1.0", nil),
			},
			want: want{[]string{"stable foo.v1.0.0: 1.0.0"}, "stable", "1.0.0", ""},
		},
		{
			name: "the first channel stands in for a default channel that is left out",
			blobs: []object{
				packageBlob("foo", "stable"),
				channelBlob("foo", "stable", object{"name": "foo.v1.0.0"}),
				channelBlob("foo", "rapid", object{"name": "foo.v2.0.0"}),
				channelBlob("foo", "fast", object{"name": "foo.v3.0.0"}),
				bundleBlob("foo", "1.0.0", nil), bundleBlob("foo", "2.0.0", csv), bundleBlob("foo", "3.0.0", csv),
			},
			want: want{[]string{"fast foo.v3.0.0: 3.0.0", "rapid foo.v2.0.0: 2.0.0"}, "fast", "3.0.0", ""},
		},
		{
			name: "no channel is left",
			blobs: []object{
				packageBlob("foo", "stable"), channelBlob("foo", "stable", object{"name": "foo.v1.0.0"}), bundleBlob("foo", "1.0.0", nil),
			},
			want: want{unfit: "no channel has a head with a usable CSV: bundle foo.v1.0.0 has neither"},
		},
		{
			name: "entries that are deprecated by property are left out",
			blobs: []object{
				packageBlob("foo", "stable"),
				channelBlob("foo", "stable", object{"name": "foo.v1.0.0"}, object{"name": "foo.v2.0.0", "replaces": "foo.v1.0.0"}),
				bundleBlob("foo", "1.0.0", csv, object{"type": "olm.deprecated", "value": object{}}), bundleBlob("foo", "2.0.0", csv),
			},
			want: want{[]string{"stable foo.v2.0.0: 2.0.0"}, "stable", "2.0.0", ""},
		},
		{
			name: "a CSV with another name among the objects of the bundle",
			blobs: []object{
				packageBlob("foo", "stable"), channelBlob("foo", "stable", object{"name": "foo.v1.0.0"}),
				bundleBlob("foo", "1.0.0", nil, object{"type": "olm.bundle.object", "value": object{"data": base64.StdEncoding.EncodeToString(
					[]byte(`{"kind":"ClusterServiceVersion","metadata":{"name":"other"},"spec":{"version":"1.0.0","displayName":"Foo"}}`),
				)}}),
			},
			want: want{[]string{"stable foo.v1.0.0: 1.0.0"}, "stable", "1.0.0", ""},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBuilder(t, blobsOf(t, test.blobs...))
			p, err := b.tryBuild("foo")
			var unfit *unfitError
			if test.want.unfit != "" {
				if !errors.As(err, &unfit) || !strings.Contains(unfit.Error(), test.want.unfit) {
					t.Errorf("got error %v, want that it is unfit: %s", err, test.want.unfit)
				}
				return
			}
			must.Succeed(t, err)
			var channels []string
			for _, ch := range p.Status.Channels {
				line := ch.Name + " " + ch.CurrentCSV + ":"
				for _, e := range ch.Entries {
					line += " " + e.Version
				}
				channels = append(channels, line)
			}
			wantEqual(t, "channels", test.want.channels, channels)
			if p.Status.DefaultChannel != test.want.def ||
				p.Status.Summary.Channel != test.want.def || p.Status.Summary.Version != test.want.version {
				t.Errorf("default channel %s, summary %+v, want %s and %s", p.Status.DefaultChannel, p.Status.Summary, test.want.def, test.want.version)
			}
			if p.Status.Summary.DisplayName != "Foo" {
				t.Errorf("display name is %s", p.Status.Summary.DisplayName)
			}
		})
	}
}

func TestBuildPackageDeprecations(t *testing.T) {
	b := newBuilder(t, blobsOf(t,
		packageBlob("foo", "stable"),
		channelBlob("foo", "stable", object{"name": "foo.v1.0.0"}, object{"name": "foo.v2.0.0", "replaces": "foo.v1.0.0"}),
		channelBlob("foo", "beta", object{"name": "foo.v2.0.0"}),
		bundleBlob("foo", "1.0.0", object{}), bundleBlob("foo", "2.0.0", object{}),
		object{"schema": "olm.deprecations", "package": "foo", "entries": []object{
			{"reference": object{"schema": "olm.package"}, "message": "use bar"},
			{"reference": object{"schema": "olm.channel", "name": "beta"}, "message": "use stable"},
			{"reference": object{"schema": "olm.bundle", "name": "foo.v1.0.0"}, "message": "has a hole"},
		}},
	))
	s := b.build("foo").Status
	message := func(d *v1beta1.Deprecation) string {
		if d == nil {
			return ""
		}
		return d.Message
	}
	beta, stable := s.Channels[0], s.Channels[1]
	got := []string{
		message(s.Deprecation), message(beta.Deprecation), message(stable.Deprecation),
		message(beta.Entries[0].Deprecation), message(stable.Entries[0].Deprecation), message(stable.Entries[1].Deprecation),
	}
	wantEqual(t, "of package, beta, stable, 2.0.0 in beta, 2.0.0 and 1.0.0 in stable",
		[]string{"use bar", "use stable", "", "", "", "has a hole"}, got)
}

func TestBuildPackageIcon(t *testing.T) {
	with := packageBlob("foo", "stable")
	with["icon"] = object{"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"}
	for want, blob := range map[string]object{
		"": packageBlob("foo", "stable"),
		"http://catalogd.example/catalogs/sample/api/v1/packages/foo/icon": with,
	} {
		b := newBuilder(t, blobsOf(t, blob, channelBlob("foo", "stable", object{"name": "foo.v1.0.0"}), bundleBlob("foo", "1.0.0", object{})))
		if got := b.build("foo").Status.URLs; got.Icon != want || got.Package != "http://catalogd.example/catalogs/sample/api/v1/packages/foo" {
			t.Errorf("URLs are %+v, want the icon at %q", got, want)
		}
	}
}

// The hash covers everything that an object is built from, and nothing else.
func TestContentHash(t *testing.T) {
	version := store.PackageVersion{Name: "foo", Hash: "12"}
	base := func() (Publisher, source.Source) {
		return Publisher{Namespace: "n", BaseURL: "u"}, source.Source{
			Name: "c", Labels: map[string]string{"a": "1", "b": "2"}, Image: source.Image{Ref: "a"},
		}
	}
	hash := func(p Publisher, src source.Source, v store.PackageVersion) string { return p.builder(src).hasher()(v) }
	p, src := base()
	seen := map[string]string{hash(p, src, version): "the first"}
	for name, change := range map[string]func(*Publisher, *source.Source, *store.PackageVersion){
		"content":     func(_ *Publisher, _ *source.Source, v *store.PackageVersion) { v.Hash = "34" },
		"name":        func(_ *Publisher, _ *source.Source, v *store.PackageVersion) { v.Name = "bar" },
		"catalog":     func(_ *Publisher, src *source.Source, _ *store.PackageVersion) { src.Name = "d" },
		"labels":      func(_ *Publisher, src *source.Source, _ *store.PackageVersion) { src.Labels["a"] = "2" },
		"displayName": func(_ *Publisher, src *source.Source, _ *store.PackageVersion) { src.Names.Display = "x" },
		"publisher":   func(_ *Publisher, src *source.Source, _ *store.PackageVersion) { src.Names.Publisher = "x" },
		"priority":    func(_ *Publisher, src *source.Source, _ *store.PackageVersion) { src.Priority = 1 },
		"namespace":   func(p *Publisher, _ *source.Source, _ *store.PackageVersion) { p.Namespace = "x" },
		"base URL":    func(p *Publisher, _ *source.Source, _ *store.PackageVersion) { p.BaseURL = "x" },
	} {
		p, src := base()
		v := version
		change(&p, &src, &v)
		got := hash(p, src, v)
		if other, ok := seen[got]; ok {
			t.Errorf("a change of the %s has the hash of %s", name, other)
		}
		seen[got] = name
	}
	p, src = base()
	former := revision
	revision = func() string { return "of another release" }
	if seen[hash(p, src, version)] != "" {
		t.Error("the hash does not change with the code that makes packages")
	}
	revision = former
	src.Image.Ref, src.Observed.Digest, src.Generation = "b", "d", 5
	if seen[hash(p, src, version)] != "the first" {
		t.Error("the hash follows what no package shows")
	}
}

// sampleCatalog returns the files of the catalog of config/samples.
func sampleCatalog(t *testing.T) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..", "..", "config", "samples", "catalog", "configs")
	files := map[string]string{}
	must.Succeed(t, fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(root, path))
		files["configs/"+path] = string(b)
		return err
	}))
	return files
}

func wantEqual[T any](t testing.TB, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
