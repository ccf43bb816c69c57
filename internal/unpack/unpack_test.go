package unpack

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

func TestImage(t *testing.T) {
	host := registry.Start(t, nil)
	base := archive(t, dir("etc"), file("etc/passwd", "root"), symlink("bin", "usr/bin"), dir("configs"))
	catalog := archive(t, dir("configs"), dir("configs/foo"), file("configs/foo/catalog.json", "{}"), file("configs/.indexignore", "*.md"))
	want := map[string]string{"foo/": "", "foo/catalog.json": "{}", ".indexignore": "*.md"}
	docker := mutate.ConfigMediaType(mutate.MediaType(imageOf(t, "/configs", catalog), types.DockerManifestSchema2), types.DockerConfigJSON)
	for name, test := range map[string]struct {
		img       v1.Image
		configDir string
	}{
		"plain":              {imageOf(t, "/configs", catalog), ""},
		"gzip":               {imageOf(t, "/configs", gzipped(t, catalog)), ""},
		"zstd":               {imageOf(t, "/configs", zstandard(t, catalog)), ""},
		"several":            {imageOf(t, "/configs", base, gzipped(t, catalog), archive(t, file("opt/x", "y"))), ""},
		"an empty layer":     {imageOf(t, "/configs", catalog, nil), ""},
		"docker schema 2":    {docker, ""},
		"relative label":     {imageOf(t, "configs/", catalog), ""},
		"no label":           {imageOf(t, "", catalog), "/configs"},
		"not what it labels": {imageOf(t, "/data", catalog), "/configs"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScratch(t)
			got, err := Image(t.Context(), push(t, host, test.img), s.root, Options{ConfigDir: test.configDir})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Result{ConfigDir: "/configs", Files: 2, Bytes: 6}, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, s.files(t)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImageModes(t *testing.T) {
	s := newScratch(t)
	img := imageOf(t, "/configs", archive(t, dir("configs/foo"), file("configs/foo/catalog.json", "{}")))
	if _, err := Image(t.Context(), push(t, registry.Start(t, nil), img), s.root, Options{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"foo": 0o755 | os.ModeDir, "foo/catalog.json": 0o644} {
		info, err := os.Stat(filepath.Join(s.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode(); got&^want != 0 { // the umask may take away
			t.Errorf("%s has mode %v, want %v or less", name, got, want)
		}
	}
}

func TestImageConfigDir(t *testing.T) {
	host := registry.Start(t, nil)
	layer := archive(t, file("opt/catalog/foo.json", "1"), file("opt/catalog-2/foo.json", "22"), file("readme", "333"))
	for configDir, want := range map[string]struct {
		result Result
		err    string
	}{
		"/opt/catalog":          {Result{"/opt/catalog", 1, 1}, ""},
		"opt//x/../catalog-2/":  {Result{"/opt/catalog-2", 1, 2}, ""},
		"../../../opt/catalog":  {Result{"/opt/catalog", 1, 1}, ""},
		"/opt":                  {Result{"/opt", 2, 3}, ""},
		"/":                     {Result{"/", 3, 6}, ""},
		"/opt/cat":              {Result{}, "the image has no directory /opt/cat for its catalog: set spec.extractContent.configDir"},
		"/readme":               {Result{}, "the image has no directory /readme"},
		"/opt/catalog/foo.json": {Result{}, "the image has no directory /opt/catalog/foo.json"},
		"":                      {Result{}, "the image has neither label " + ConfigsLabel + " nor " + DatabaseLabel},
	} {
		t.Run(configDir, func(t *testing.T) {
			got, err := Image(t.Context(), push(t, host, imageOf(t, "", layer)), newScratch(t).root, Options{ConfigDir: configDir})
			checkError(t, err, want.err, true)
			if diff := cmp.Diff(want.result, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIndex(t *testing.T) {
	own := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	amd64, s390x, arm := v1.Platform{OS: "linux", Architecture: "amd64"}, v1.Platform{OS: "linux", Architecture: "s390x"}, v1.Platform{
		OS: "linux", Architecture: "arm", Variant: "v7",
	}
	attestation := v1.Platform{OS: "unknown", Architecture: "unknown"}
	host := registry.Start(t, nil)
	for name, test := range map[string]struct {
		children []v1.Platform
		platform v1.Platform
		want     string
	}{
		"own":            {[]v1.Platform{s390x, arm, own}, v1.Platform{}, "2"},
		"asked for":      {[]v1.Platform{own, s390x, amd64}, s390x, "1"},
		"variant":        {[]v1.Platform{amd64, s390x, arm}, v1.Platform{OS: "linux", Architecture: "arm"}, "2"},
		"else amd64":     {[]v1.Platform{s390x, amd64}, arm, "1"},
		"else the first": {[]v1.Platform{attestation, s390x, arm}, own, "1"},
		"no platforms":   {[]v1.Platform{{}, {}}, v1.Platform{}, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
			for i, platform := range test.children {
				img := imageOf(t, "/configs", archive(t, file("configs/which", string(rune('0'+i)))))
				index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &platform}})
			}
			s := newScratch(t)
			if _, err := Image(t.Context(), pushIndex(t, host, index), s.root, Options{Platform: test.platform}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{"which": test.want}, s.files(t)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
	_, err := Image(t.Context(), pushIndex(t, host, empty.Index), newScratch(t).root, Options{})
	checkError(t, err, "its image index lists no image", true)
}

// indexOf returns an index of the children; a child that is not an image is a nested index.
func indexOf(mediaType types.MediaType, children ...mutate.IndexAddendum) v1.ImageIndex {
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, mediaType), children...)
}

func TestNestedIndexes(t *testing.T) {
	host := registry.Start(t, nil)
	image := func(which, architecture string) mutate.IndexAddendum {
		add := mutate.IndexAddendum{Add: imageOf(t, "/configs", archive(t, file("configs/which", which)))}
		if architecture != "" {
			add.Platform = &v1.Platform{OS: "linux", Architecture: architecture}
		}
		return add
	}
	index := func(children ...mutate.IndexAddendum) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: indexOf(types.OCIImageIndex, children...)}
	}
	own := v1.Platform{OS: "linux", Architecture: "arm64"}
	many := make([]mutate.IndexAddendum, maxIndexes)
	for i := range many {
		many[i] = index(image(string(rune('a'+i)), ""))
	}
	for name, test := range map[string]struct {
		index v1.ImageIndex
		want  string
		err   string
	}{
		"docker manifest list":  {indexOf(types.DockerManifestList, image("0", "s390x"), image("1", "arm64")), "1", ""},
		"one in another":        {indexOf(types.OCIImageIndex, index(image("0", "s390x"), image("1", "arm64"))), "1", ""},
		"own platform below":    {indexOf(types.OCIImageIndex, image("0", "s390x"), index(image("1", "arm64"))), "1", ""},
		"own platform above":    {indexOf(types.OCIImageIndex, index(image("0", "amd64")), image("1", "arm64")), "1", ""},
		"else the first of all": {indexOf(types.OCIImageIndex, index(image("0", "s390x")), image("1", "ppc64le")), "0", ""},
		"as deep as may be":     {indexOf(types.OCIImageIndex, index(index(image("0", "")))), "0", ""},
		"deeper": {
			indexOf(types.OCIImageIndex, index(index(index(image("0", ""))))),
			"",
			"its image index nests more than 15 indexes, or more than 2 levels: push an index of images",
		},
		"more":               {indexOf(types.OCIImageIndex, many...), "", "push an index of images"},
		"indexes of nothing": {indexOf(types.OCIImageIndex, index(), index()), "", "its image index lists no image"},
		"nothing but strangers": {
			indexOf(types.OCIImageIndex, mutate.IndexAddendum{Add: static.NewLayer([]byte("x"), types.OCILayer)}),
			"",
			"its image index lists no image",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScratch(t)
			_, err := Image(t.Context(), pushIndex(t, host, test.index), s.root, Options{Platform: own})
			checkError(t, err, test.err, true)
			if got := s.files(t)["which"]; got != test.want {
				t.Errorf("got image %q, want %q", got, test.want)
			}
		})
	}
}

// TestRemovesEarlierFiles unpacks to a root with files of an earlier attempt.
func TestRemovesEarlierFiles(t *testing.T) {
	host := registry.Start(t, nil)
	s := newScratch(t)
	for _, name := range []string{"old", "d", "foo"} {
		if err := os.MkdirAll(filepath.Join(s.dir, name, "x", "y"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	bad := imageOf(t, "/configs", archive(t, file("configs/d/a", "1"), file("configs/b", "1")), []byte("no layer"))
	_, err := Image(t.Context(), push(t, host, bad), s.root, Options{})
	checkError(t, err, "layer 2 of 2: it is not a tar archive", true)
	good := imageOf(t, "/configs", archive(t, file("configs/d", "2")))
	for range 2 {
		if _, err := Image(t.Context(), push(t, host, good), s.root, Options{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"d": "2"}, s.files(t)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	}
}

func pushIndex(t *testing.T, host string, index v1.ImageIndex) name.Digest {
	t.Helper()
	tag, err := name.NewTag(host + "/catalogs/test:index")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(tag, index); err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return tag.Context().Digest(digest.String())
}

// TestArchives checks the error or the files of each archive of testdata/archives.
func TestArchives(t *testing.T) {
	host := registry.Start(t, nil)
	const sparse = "configs/foo/more.json is a sparse file, which is not supported: pack it without --sparse"
	verdicts := map[string]string{
		"control":          "",
		"path-traversal":   `layer 1 of 1: the name of entry "configs/../../evil.txt" points outside of the image`,
		"absolute-path":    "", // relative to the image's root, so not in the catalog
		"symlink-escape":   "configs/bar is a symbolic link, which is not supported: replace it with the file",
		"symlink-read":     "configs/foo/more.json is a symbolic link",
		"symlink-inside":   "configs/foo/same.json is a symbolic link",
		"symlink-loop":     "configs/foo/loop is a symbolic link",
		"hardlink-escape":  "configs/foo/more.json is a hard link to",
		"fifo":             "configs/foo/pipe.json is a named pipe; only files and directories are supported",
		"device":           "configs/foo/zero.json is a device; only files and directories are supported",
		"duplicate-entry":  "", // the later one
		"sparse-gnu":       sparse,
		"sparse-pax-0.0":   sparse,
		"sparse-pax-0.1":   sparse,
		"sparse-pax-1.0":   sparse,
		"sparse-elsewhere": "",
		"truncated":        "layer 1 of 1: unpacking configs/foo/catalog.json: its gzip stream is damaged: unexpected EOF",
		"not-gzip":         "layer 1 of 1: it is not a tar archive, neither plain nor compressed with gzip or zstd",
	}
	readme, err := os.ReadFile("testdata/archives/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range verdicts {
		if !strings.Contains(string(readme), "`"+name+".tar.gz`") {
			t.Errorf("README.md does not say what %s is", name)
		}
	}
	if lines := strings.Count(string(readme), ".tar.gz`"); lines != len(verdicts) {
		t.Errorf("README.md names %d archives, of which %d have a verdict", lines, len(verdicts))
	}
	archives, err := filepath.Glob("testdata/archives/*.tar.gz")
	if err != nil || len(archives) != len(verdicts) {
		t.Fatalf("%d archives for %d verdicts, error %v", len(archives), len(verdicts), err)
	}
	for _, archive := range archives {
		name := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
		t.Run(name, func(t *testing.T) {
			layer, err := os.ReadFile(archive)
			if err != nil {
				t.Fatal(err)
			}
			want, ok := verdicts[name]
			if !ok {
				t.Fatal("no verdict")
			}
			for form, layer := range map[string][]byte{"gzip": layer, "plain": plain(t, layer)} {
				t.Run(form, func(t *testing.T) { checkArchive(t, host, name, layer, formOf(form, want)) })
			}
		})
	}
}

// plain returns the decompressed archive, up to an error.
func plain(t *testing.T, layer []byte) []byte {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		return layer
	}
	content, err := io.ReadAll(reader)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	return content
}

// formOf returns the expected result of an archive in that form.
func formOf(form, want string) string {
	if form == "plain" {
		return strings.ReplaceAll(want, "gzip stream is", "tar archive is")
	}
	return want
}

func checkArchive(t *testing.T, host, name string, layer []byte, want string) {
	s := newScratch(t)
	beside := filepath.Join(filepath.Dir(s.dir), "served")
	if err := os.Mkdir(beside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(beside, "catalog.json"), []byte("served"), 0o600); err != nil {
		t.Fatal(err)
	}
	result, err := Image(t.Context(), push(t, host, imageOf(t, "/configs", layer)), s.root, Options{})
	checkError(t, err, want, true)
	if content, err := os.ReadFile(filepath.Join(beside, "catalog.json")); err != nil || string(content) != "served" {
		t.Errorf("what was beside became %q, %v", content, err)
	}
	if err := os.RemoveAll(beside); err != nil {
		t.Fatal(err)
	}
	s.checkOutside(t)
	files := s.files(t)
	if want == "" && (result.Files != 1 || len(files) != 2 || !strings.Contains(files["foo/catalog.json"], `"name": "foo"`)) {
		t.Errorf("got result %+v and files %v", result, files)
	}
	if second := strings.Contains(files["foo/catalog.json"], "second"); name == "duplicate-entry" && !second {
		t.Errorf("got the first of two files of one name: %s", files["foo/catalog.json"])
	}
}

func TestOtherImages(t *testing.T) {
	host := registry.Start(t, nil)
	wide := strings.Repeat("0123456789abcdef", 4<<20) // 64 MiB, which the window of 64 MiB spans
	for name, test := range map[string]struct {
		img  v1.Image
		want string
	}{
		"schema 1":   {mutate.MediaType(imageOf(t, "/configs"), types.DockerManifestSchema1), "its manifest has the unsupported type"},
		"no layers":  {imageOf(t, "/configs"), "the image has no directory /configs"},
		"no files":   {imageOf(t, "/configs", archive(t, dir("configs/foo"))), "the catalog's directory /configs has no files"},
		"all hidden": {imageOf(t, "/configs", archive(t, file("configs/a", "a")), archive(t, whiteout("configs/.wh.a"))), "has no files"},
		"removed": {
			imageOf(t, "/configs", archive(t, file("configs/a", "a")), archive(t, whiteout(".wh.configs"))),
			"the image has no directory /configs",
		},
		"large window": {
			imageOf(t, "/configs", zstandard(t, archive(t, file("configs/a", wide)), zstd.WithWindowSize(64<<20))),
			"its zstd stream is damaged: window size exceeded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Image(t.Context(), push(t, host, test.img), newScratch(t).root, Options{})
			checkError(t, err, test.want, true)
		})
	}
}

// TestForeignLayer prevents server-side request forgery: an image must not choose hosts for catalogd's requests.
func TestForeignLayer(t *testing.T) {
	var asked atomic.Bool
	other := registry.Start(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) })
	})
	layer := archive(t, file("configs/a", "a"))
	img, err := mutate.Append(imageOf(t, "/configs"), mutate.Addendum{
		Layer: imageLayer(t, layer), URLs: []string{"http://" + other + "/layer"}, MediaType: types.OCIUncompressedRestrictedLayer,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Image(t.Context(), push(t, registry.Start(t, nil), img), newScratch(t).root, Options{})
	checkError(t, err, "layer 1 of 1: it is stored outside the registry", true)
	var blob string
	host := registry.Start(t, alter(&blob, func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusNotFound) }))
	lent := manifestOf(t, host, imageOf(t, "/configs", layer), func(m *v1.Manifest) {
		m.Config = m.Layers[0] // whose digest it shares, and to which it lends its addresses
		m.Config.URLs = []string{"http://" + other + "/layer"}
		blob = m.Config.Digest.String()
	})
	_, err = Image(t.Context(), putManifest(t, host, lent), newScratch(t).root, Options{})
	checkError(t, err, "the image configuration: it is stored outside the registry", true)
	if asked.Load() {
		t.Error("another host was asked")
	}
}
