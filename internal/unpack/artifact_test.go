package unpack

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// A titled layer of an artifact; the title "" is left out.
type titled struct {
	title   string
	content []byte
}

// artifactOf returns an artifact with an empty configuration and the layers.
func artifactOf(t testing.TB, annotations map[string]string, layers ...titled) v1.Image {
	t.Helper()
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), emptyLayer)
	for _, layer := range layers {
		add := mutate.Addendum{Layer: static.NewLayer(layer.content, "application/octet-stream")}
		if layer.title != "" {
			add.Annotations = map[string]string{titleAnnotation: layer.title}
		}
		var err error
		if img, err = mutate.Append(img, add); err != nil {
			t.Fatal(err)
		}
	}
	annotated, ok := mutate.Annotations(img, annotations).(v1.Image)
	if !ok {
		t.Fatal("an image with annotations is none")
	}
	return annotated
}

func TestArtifact(t *testing.T) {
	host := registry.Start(t, nil)
	catalog := archive(t, file("configs/foo/catalog.json", "{}"), file("readme", "x"))
	configs := map[string]string{ConfigsLabel: "/configs"}
	json, long := []byte(`{"schema":"olm.package"}`), []byte(`{"schema":"`+strings.Repeat("x", 2000)+`"}`)
	for name, test := range map[string]struct {
		annotations map[string]string
		layers      []titled
		configDir   string
		dir         string
		want        map[string]string
	}{
		"tar": {
			nil,
			[]titled{{"", catalog}},
			"",
			"/",
			map[string]string{"configs/": "", "configs/foo/": "", "configs/foo/catalog.json": "{}", "readme": "x"},
		},
		"tar, gzip": {
			configs, []titled{{"", gzipped(t, catalog)}}, "", "/configs", map[string]string{"foo/": "", "foo/catalog.json": "{}"},
		},
		"tar, zstd": {
			configs, []titled{{"configs", zstandard(t, catalog)}}, "", "/configs", map[string]string{"foo/": "", "foo/catalog.json": "{}"},
		},
		"configDir goes first": {
			map[string]string{ConfigsLabel: "/other"},
			[]titled{{"", catalog}},
			"configs/foo",
			"/configs/foo",
			map[string]string{"catalog.json": "{}"},
		},
		"a tar with a file's name": {nil, []titled{{"catalog.json", archive(t, file("a", "1"))}}, "", "/", map[string]string{"a": "1"}},
		"a file":                   {nil, []titled{{"catalog.json", json}}, "", "/", map[string]string{"catalog.json": string(json)}},
		"a longer file":            {nil, []titled{{"catalog.json", long}}, "", "/", map[string]string{"catalog.json": string(long)}},
		"a compressed file":        {nil, []titled{{"catalog.json", gzipped(t, long)}}, "", "/", map[string]string{"catalog.json": string(long)}},
		"an empty file":            {nil, []titled{{"catalog.json", nil}}, "", "/", map[string]string{"catalog.json": ""}},
		"several files": {
			nil,
			[]titled{{"foo/catalog.yaml", []byte("a: 1")}, {"./foo//b.yml", []byte("b: 1")}, {"/c.json", json}},
			"",
			"/",
			map[string]string{"foo/": "", "foo/catalog.yaml": "a: 1", "foo/b.yml": "b: 1", "c.json": string(json)},
		},
		"in the directory or not": {
			configs,
			[]titled{{"configs/a.json", json}, {"b.json", json}, {"configs2/c.json", json}},
			"",
			"/configs",
			map[string]string{"a.json": string(json)},
		},
		"a file, then an archive": {
			nil, []titled{{"a.json", json}, {"", archive(t, file("b", "2"), whiteout(".wh.a.json"))}}, "", "/", map[string]string{"b": "2"},
		},
		"the later file": {nil, []titled{{"a.json", json}, {"a.json", []byte("{}")}}, "", "/", map[string]string{"a.json": "{}"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScratch(t)
			got, err := Image(t.Context(), push(t, host, artifactOf(t, test.annotations, test.layers...)), s.root,
				Options{ConfigDir: test.configDir})
			if err != nil {
				t.Fatal(err)
			}
			if got.ConfigDir != test.dir {
				t.Errorf("got directory %s, want %s", got.ConfigDir, test.dir)
			}
			if diff := cmp.Diff(test.want, s.files(t)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadArtifacts(t *testing.T) {
	host := registry.Start(t, nil)
	text := []byte("schema: olm.package")
	large := []byte(strings.Repeat(" ", 1000))
	for name, test := range map[string]struct {
		layers []titled
		limits Limits
		limit  string
		want   string
	}{
		"no title": {[]titled{{"", text}}, Limits{}, "", `layer 1 of 1: it is neither a tar archive (plain, or compressed with ` +
			`gzip or zstd) nor a catalog file: its annotation org.opencontainers.image.title is ""; set it to the file's name, which must ` +
			`end in .json, .yaml or .yml`},
		"another ending": {[]titled{{"README.md", text}}, Limits{}, "", `is "README.md"; set it to the file's name`},
		"leaves": {
			[]titled{{"../../evil.json", text}}, Limits{}, "", `the name of entry "../../evil.json" points outside of the image`,
		},
		"long":     {[]titled{{strings.Repeat("x", 300) + ".json", text}}, Limits{}, "", "exceeds the limit of 255 for one file name"},
		"cut gzip": {[]titled{{"a.json", gzipped(t, large)[:20]}}, Limits{}, "", "its gzip stream is damaged"},
		"large": {
			[]titled{{"a.json", large}},
			Limits{FileBytes: 999},
			LimitFileBytes,
			"a.json has 1000 bytes, which exceeds the limit of 999 for one file (--max-file-bytes)",
		},
		"large in all": {
			[]titled{{"a.json", large}, {"b.json", large}},
			Limits{TotalBytes: 1999},
			LimitTotalBytes,
			"it has at least 2000 bytes of files, which exceeds the limit of 1999",
		},
		"much larger": {
			[]titled{{"a.json", large}, {"b.json", large}},
			Limits{TotalBytes: 1200},
			LimitTotalBytes,
			"it has at least 1201 bytes of files, which exceeds the limit of 1200",
		},
		"many":             {[]titled{{"a.json", text}, {"b.json", text}}, Limits{Files: 1}, LimitFiles, "(--max-files)"},
		"nothing":          {nil, Limits{}, "", "the catalog's directory / has no files"},
		"an image's title": {[]titled{{"a.json/..", text}}, Limits{}, "", `is "a.json/.."`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScratch(t)
			_, err := Image(t.Context(), push(t, host, artifactOf(t, nil, test.layers...)), s.root, Options{Limits: test.limits})
			checkError(t, err, test.want, true)
			checkLimit(t, err, test.limit)
			s.checkOutside(t)
		})
	}
	_, err := Image(t.Context(), push(t, host, artifactOf(t, nil, titled{"a.json", large})), newScratch(t).root, Options{
		Limits: Limits{FileBytes: 1000, TotalBytes: 1000, Files: 1},
	})
	checkError(t, err, "", true)
	img := labelled(t, map[string]string{ConfigsLabel: "/"}, text)
	_, err = Image(t.Context(), push(t, host, img), newScratch(t).root, Options{})
	checkError(t, err, "it is not a tar archive", true)
}

// typed is an image whose manifest has an artifact type, and an empty layer.
type typed struct {
	v1.Image
	manifest []byte
}

func (i typed) RawManifest() ([]byte, error)    { return i.manifest, nil }
func (i typed) Manifest() (*v1.Manifest, error) { return partial.Manifest(i) }
func (i typed) Digest() (v1.Hash, error)        { return partial.Digest(i) }

func TestArtifactType(t *testing.T) {
	img := imageOf(t, "/labelled", archive(t, file("catalog.json", "{}")), []byte("{}"))
	manifest, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	manifest = manifest.DeepCopy()
	manifest.ArtifactType = "application/vnd.example.catalog"
	manifest.Layers[1].MediaType = emptyLayer
	raw, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	s := newScratch(t)
	got, err := Image(t.Context(), push(t, registry.Start(t, nil), typed{img, raw}), s.root, Options{})
	if diff := cmp.Diff(Result{ConfigDir: "/", Files: 1, Bytes: 2}, got); err != nil || diff != "" {
		t.Errorf("error %v, result (-want +got):\n%s", err, diff)
	}
}

func FuzzTitle(f *testing.F) {
	for _, title := range []string{
		"catalog.json",
		"foo/bar.yaml",
		"../evil.json",
		"/etc/x.yml",
		"configs/../../x.json",
		".wh.x.json",
		".wh..wh..opq",
		"x.json/",
		"a\x00.json",
		"\xfa/.yml",
	} {
		f.Add(title, []byte("{}"))
	}
	f.Fuzz(func(t *testing.T, title string, content []byte) {
		for _, dir := range []string{"configs", "."} {
			s := newScratch(t)
			tree := newTree(s.root, location{dir: dir, artifact: true}, Limits{TotalBytes: 1 << 20, FileBytes: 1 << 16, Files: 100}.withDefaults())
			err := applyLayer(t.Context(), &source{reader: strings.NewReader(string(content))}, title, tree)
			if err == nil {
				_, err = tree.result()
			}
			s.checkOutside(t)
			s.files(t)
			if err != nil && !isInvalid(err) {
				t.Errorf("the image is not blamed for %v", err)
			}
		}
	})
}
