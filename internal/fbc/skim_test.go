package fbc

import (
	"encoding/base64"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"go.podman.io/image/v5/docker/reference"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// checkSkimmed compares a skimmed bundle with the decoded one, and reports whether it could be skimmed.
func checkSkimmed(t *testing.T, blob []byte) bool {
	t.Helper()
	got, ok := skimBundle(blob)
	if !ok {
		return false
	}
	want, _, err := decodeBundle(blob)
	if err == nil {
		err = checkAndSlim(&want)
	}
	if err != nil {
		t.Fatalf("a bundle is skimmed, but %v: %s", err, blob)
	}
	if want.Image != "" {
		if _, err := reference.ParseNormalizedNamed(want.Image); err != nil {
			t.Fatalf("the image is accepted, but %v: %s", err, blob)
		}
		want.Image = validImage
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("-decoded +skimmed:\n%s\n%s", diff, blob)
	}
	return true
}

var manifest = base64.StdEncoding.EncodeToString([]byte("\n {\"kind\":\"ClusterServiceVersion\"}"))

// FuzzSkimBundle checks that skimmed bundles equal decoded ones.
func FuzzSkimBundle(f *testing.F) {
	addSeeds(f, ".json")
	f.Add([]byte(bundleBlob("foo", "v1", "1.0.0", csvMetadata, csvObject(csvManifest))))
	f.Fuzz(func(t *testing.T, text []byte) {
		_ = scan.ReadFile(fstest.MapFS{"c.json": {Data: text}}, "c.json", 1<<20, func(b scan.Blob) error {
			checkSkimmed(t, b.JSON)
			return nil
		})
	})
}

// Bundles of real catalogs need no decoding.
func TestSampleBundlesAreSkimmed(t *testing.T) {
	fsys := os.DirFS("testdata/small")
	files, err := scan.Files(fsys)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		blobs, err := readAll(fsys, name, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blobs {
			if b.Schema == SchemaBundle && !checkSkimmed(t, b.JSON) {
				t.Errorf("%s is not skimmed", b.Name)
			}
		}
	}
}

func TestSkimBundle(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for name, c := range map[string]struct {
		members string
		skimmed bool
	}{
		"nothing":            {`"x":[{"y":null}]`, true},
		"an image by digest": {`"image":"quay.io/a/b:1@` + digest + `"`, true},
		"no image":           {`"image":""`, true},
		"images":             {`"relatedImages":[{"name":"a","image":"a"},{"name":null,"image":"a"},{"image":"","x":{}}]`, true},
		"properties": {`"properties":[{"type":"olm.package","value":{"version":"1.0.0"}},{"type":"olm.deprecated",` +
			`"value":null},{"x":1,"type":"x","value":[1]}]`, true},
		"null in structs": {`"properties":[{"type":"olm.csv.metadata","value":{"annotations":{"a":null},"keywords":null,` +
			`"links":[null],"provider":null}}]`, true},
		"a number in a struct": {
			`"properties":[{"type":"olm.csv.metadata","value":{"apiServiceDefinitions":{"owned":[{"containerPort":80}]}}}]`, true,
		},
		"a priority":         {`"properties":[{"type":"olm.channel","value":{"channelName":"a","priority":1}}]`, true},
		"a manifest":         {`"properties":[{"type":"olm.bundle.object","value":{"data":"` + manifest + `"}}]`, true},
		"a large manifest":   {`"properties":[{"type":"olm.bundle.object","value":{"data":"` + strings.Repeat("ewog", 3000) + `"}}]`, true},
		"a manifest in YAML": {`"properties":[{"type":"olm.bundle.object","value":{"data":"YTogYg=="}}]`, false},
		"an empty manifest":  {`"properties":[{"type":"olm.bundle.object","value":{"data":""}}]`, false},
		"a reference":        {`"properties":[{"type":"olm.bundle.object","value":{"ref":"a"}}]`, false},
		"no base64":          {`"properties":[{"type":"olm.bundle.object","value":{"data":"ew"}}]`, false},
		"no base64 within": {
			`"properties":[{"type":"olm.bundle.object","value":{"data":"` + strings.Repeat("ewog", 1023) + "ewo=" + manifest + `"}}]`, false,
		},
		"two manifests in one":  {`"properties":[{"type":"olm.bundle.object","value":{"data":"` + manifest + `","data":"YTogYg=="}}]`, false},
		"another case":          {`"Image":"quay.io/a/b"`, false},
		"an escape in a key":    {`"im\u0061ge":"quay.io/a/b"`, false},
		"a wrong image":         {`"image":"https://a"`, false},
		"a wrong related image": {`"relatedImages":[{"name":"a","image":"a@"}]`, false},
		"two digests":           {`"image":"quay.io/a/b@` + digest + "@" + digest + `"`, false},
		"a digest alone":        {`"image":"@` + digest + `"`, false},
		"a number":              {`"image":7`, false},
		"null":                  {`"properties":null`, false},
		"a null property":       {`"properties":[null]`, false},
		"two lists":             {`"properties":[],"properties":[]`, false},
		"no type":               {`"properties":[{"value":1}]`, false},
		"no value":              {`"properties":[{"type":"a"}]`, false},
		"the value first":       {`"properties":[{"value":{},"type":"olm.gvk"}]`, false},
		"a wrong priority":      {`"properties":[{"type":"olm.channel","value":{"priority":"1"}}]`, false},
		"a wrong number": {
			`"properties":[{"type":"olm.csv.metadata","value":{"apiServiceDefinitions":{"owned":[{"containerPort":80.5}]}}}]`, false,
		},
		"a wrong type in a list":   {`"properties":[{"type":"olm.csv.metadata","value":{"keywords":[1]}}]`, false},
		"a wrong type in a map":    {`"properties":[{"type":"olm.csv.metadata","value":{"annotations":{"a":true}}}]`, false},
		"a wrong type of a struct": {`"properties":[{"type":"olm.gvk","value":"a"}]`, false},
		"a wrong boolean":          {`"properties":[{"type":"olm.csv.metadata","value":{"installModes":[{"supported":"true"}]}}]`, false},
		"a long version": {
			`"properties":[{"type":"olm.package","value":{"version":"` + strings.Repeat("1", scan.MaxKeyBytes) + `"}}]`, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			blob := []byte(`{"schema":"olm.bundle","name":"foo.v1","package":"foo",` + c.members + `}`)
			if got := checkSkimmed(t, blob); got != c.skimmed {
				t.Errorf("got %v, want %v", got, c.skimmed)
			}
		})
	}
}
