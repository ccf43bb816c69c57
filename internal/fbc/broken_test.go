package fbc

import (
	"errors"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// verdict is the expected result for a catalog: refused, or the reasons of its invalid packages.
type verdict struct {
	refused  string            // part of the error, with the path; empty: it is read
	packages map[string]string // invalid ones: part of the reason
	blobs    int               // how many are read
}

func inPackage(name, reason string) verdict {
	return verdict{packages: map[string]string{name: reason}, blobs: -1}
}

// broken has the verdict for each catalog in testdata/broken. The README there describes the errors.
var broken = map[string]verdict{
	"00-control":         {blobs: 4},
	"bad-icon-base64":    inPackage("foo", "parse package: illegal base64 data"),
	"bad-icon-mediatype": {blobs: 4},
	"bad-image-reference": inPackage("foo",
		`bundle "foo.v0.2.0" image: invalid image pull spec "oci://quay.io/example/foo:v0.2.0"`),
	"bad-related-image":    inPackage("foo", `relatedImages[0].image: invalid image pull spec "quay.io/example/foo@"`),
	"bundle-in-no-channel": inPackage("foo", `bundle "foo.v0.3.0" not found in any channel entries`),
	"bundle-object-bad-base64": inPackage("foo",
		`bundle "foo.v0.2.0": parse property at index 2 as bundle object: illegal base64 data`),
	"bundle-object-ref":               {blobs: 4},
	"bundle-unknown-package":          inPackage("nosuch", `unknown package "nosuch" for bundle "nosuch.v0.1.0"`),
	"bundle-without-image":            inPackage("foo", `invalid channel "stable": invalid bundle "foo.v0.2.0": bundle image must be set`),
	"bundle-without-package-property": inPackage("foo", `must have exactly 1 "olm.package" property, found 0`),
	"channel-unknown-package":         inPackage("nosuch", `unknown package "nosuch" for channel "beta"`),
	"channel-without-package": {
		packages: map[string]string{"": `unknown package "" for channel "stable"`, "foo": `default channel "stable" not found`}, blobs: 4,
	},
	"csv-metadata-wrong-type": inPackage("foo",
		`bundle "foo.v0.2.0": parse property[2] of type "olm.csv.metadata": json: cannot unmarshal string`),
	"cyclic-replaces": inPackage("foo", `invalid channel "stable": no channel head found in graph`),
	"cyclic-replaces-below-head": inPackage("foo",
		`detected cycle in replaces chain of upgrade graph: foo.v0.2.0 -> foo.v0.1.0 -> foo.v0.2.0`),
	"deep-nesting-9000": {blobs: 5},
	"deep-nesting-json": {refused: "foo/deep.json:1: invalid character '[' exceeded max depth"},
	"deep-nesting-yaml": {refused: "foo/deep.yaml: yaml: line 3: exceeded max depth of 10000"},
	"deprecations-bad-schema": inPackage("foo",
		`Schema:"olm.nonsense", Name:"x"} referenced by entry 0 for package "foo": object schema unknown`),
	"deprecations-control":           {blobs: 5},
	"deprecations-no-package":        inPackage("", "package name must be set for deprecation item 0"),
	"deprecations-twice":             inPackage("foo", "expected a maximum of one deprecation per package"),
	"deprecations-unknown-package":   inPackage("nosuch", `cannot apply deprecations to an unknown package "nosuch"`),
	"deprecations-unknown-reference": inPackage("foo", `cannot deprecate bundle "foo.v9.9.9" for package "foo": bundle not found`),
	"duplicate-bundle":               inPackage("foo", `duplicate bundle "foo.v0.2.0"`),
	"duplicate-channel":              inPackage("foo", `duplicate channel "stable"`),
	"duplicate-entry":                inPackage("foo", `channel "stable": duplicate entry "foo.v0.2.0"`),
	"duplicate-json-key":             {refused: `foo/catalog.json:1: duplicate key "name"`},
	"duplicate-package":              inPackage("foo", `duplicate package "foo"`),
	"duplicate-version":              inPackage("foo", "duplicate versions found in bundles: [{0.2.0: [foo.v0.2.0, foo.v0.3.0]}]"),
	"empty-catalog":                  {blobs: 0},
	"empty-channel":                  inPackage("foo", `invalid channel "beta": channel must contain at least one bundle`),
	"empty-file":                     {blobs: 4},
	"empty-schema":                   {refused: `foo/catalog.json:83: the blob {"schema":"","package":"foo","name":"x"} has no schema`},
	"entries-wrong-type":             inPackage("foo", "parse channel: json: cannot unmarshal object"),
	"entry-unknown-bundle":           inPackage("foo", "no olm.bundle blobs found in package \"foo\" for olm.channel entries [foo.v0.9.0]"),
	"garbage-after-json":             {refused: "foo/catalog.json:83: invalid character 'h' in literal true"},
	"gvk-value-string":               inPackage("foo", `parse property[1] of type "olm.gvk": json: cannot unmarshal string`),
	"icon-mediatype-mismatch":        {blobs: 4},
	"icon-no-mediatype":              {blobs: 4},
	"icon-svg-script":                {blobs: 4},
	"invalid-semver":                 inPackage("foo", `version "1.two.3": Invalid character(s) found in minor number "two"`),
	"invalid-skiprange":              inPackage("foo", `invalid bundle "foo.v0.2.0": invalid skipRange "<v0.2.0 or so"`),
	"invalid-yaml":                   {refused: "foo/catalog.yaml: yaml: line 8: did not find expected '-' indicator"},
	"lone-surrogate":                 {blobs: 4},
	"missing-default-channel":        inPackage("foo", "default channel must be set"),
	"multiple-heads":                 inPackage("foo", "multiple channel heads found in graph: foo.v0.1.0, foo.v0.2.0"),
	"name-wrong-type":                {refused: `foo/catalog.json:1: the value of "name" is a number, not a string`},
	"no-schema":                      {refused: `foo/catalog.json:83: the blob {"package":"foo","name":"foo.v0.3.0"`},
	"non-utf8":                       {blobs: 4},
	"nul-byte":                       {refused: `foo/catalog.json:5: invalid character '\x00'`},
	"only-comments":                  {blobs: 4},
	"package-bad-name":               inPackage("../Foo Bar", `invalid package name "../Foo Bar": [a lowercase RFC 1123 label must`),
	"package-property-mismatch":      inPackage("foo", `package "foo" does not match "olm.package" property "bar"`),
	"package-without-channels":       inPackage("foo", `default channel "stable" not found`),
	"package-without-name": {
		packages: map[string]string{"": "config contains package with no name", "foo": `unknown package "foo" for channel "stable"`}, blobs: 4,
	},
	"property-without-type":  {blobs: 4},
	"property-without-value": inPackage("foo", `parse property[2] of type "example.com.thing": unexpected end of JSON input`),
	"readme-in-catalog": {refused: `README.md:3: the blob {"Some text":"with a colon"} has no schema; if the file is not part ` +
		`of the catalog, list it in a .indexignore file`},
	"schema-not-string":       {refused: `foo/catalog.json:83: the value of "schema" is a number`},
	"self-replaces":           inPackage("foo", "channel contains one or more stranded bundles: foo.v0.2.0"),
	"semver-v-prefix":         inPackage("foo", `version "v0.2.0": Invalid character(s) found in major number "v0"`),
	"stranded-bundle":         inPackage("foo", "channel contains one or more stranded bundles: foo.v0.1.0"),
	"tail-replaces-missing":   {blobs: 4},
	"top-level-array":         {refused: "foo/catalog.json:1: the top level is a list"},
	"top-level-scalar":        {refused: "foo/catalog.json:1: the top level is a string"},
	"truncated-json":          {refused: "foo/catalog.json:54: the file ends in the middle of this blob"},
	"truncated-second-file":   {refused: "foo/catalog.json:54: the file ends in the middle of this blob"},
	"two-package-properties":  inPackage("foo", `must have exactly 1 "olm.package" property, found 2`),
	"unknown-default-channel": inPackage("foo", `default channel "beta" not found`),
	"unknown-olm-schema":      {blobs: 5},
	"utf16":                   {refused: "foo/catalog.json: the file is UTF-16"},
	"utf8-bom":                {blobs: 4},
	"yaml-alias-bomb":         {refused: "foo/bomb.yaml:4: the aliases of the document exceed the limit of"},
	"yaml-duplicate-key":      {refused: `foo/catalog.yaml:1: duplicate key "name"`},
}

func TestBrokenCatalogs(t *testing.T) {
	dirs, err := os.ReadDir("testdata/broken")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, dir := range dirs {
		if !dir.IsDir() {
			continue
		}
		seen++
		t.Run(dir.Name(), func(t *testing.T) {
			want, ok := broken[dir.Name()]
			if !ok {
				t.Fatal("this file has no verdict for it")
			}
			checkVerdict(t, "testdata/broken/"+dir.Name(), want)
		})
	}
	if seen != len(broken) {
		t.Errorf("testdata/broken has %d catalogs, this file has a verdict for %d", seen, len(broken))
	}
}

func checkVerdict(t *testing.T, dir string, want verdict) {
	t.Helper()
	fsys := os.DirFS(dir)
	files, err := scan.Files(fsys)
	if err != nil {
		t.Fatal(err)
	}
	var blobs []scan.Blob
	for _, name := range files {
		var more []scan.Blob
		more, err = readAll(fsys, name, 0)
		if blobs = append(blobs, more...); err != nil {
			break
		}
	}
	if want.refused != "" {
		path, _, _ := strings.Cut(want.refused, ":")
		wantError(t, err, path, want.refused)
		return
	}
	if err != nil {
		t.Fatalf("got error %v, want none", err)
	}
	if want.blobs >= 0 && len(blobs) != want.blobs {
		t.Errorf("got %d blobs, want %d", len(blobs), want.blobs)
	}
	got := invalidPackages(t, blobs)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want.packages)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("invalid packages, -want +got:\n%s", diff)
	}
	for name, reason := range got {
		if !strings.Contains(reason, want.packages[name]) || strings.Contains(reason, "\n") {
			t.Errorf("package %q: got the reason %q, want one line with %q", name, reason, want.packages[name])
		}
	}
}

// invalidPackages returns the reasons by package.
func invalidPackages(t *testing.T, blobs []scan.Blob) map[string]string {
	t.Helper()
	byPackage := map[string][]scan.Blob{}
	required := map[string]bool{}
	for _, b := range blobs {
		name, must := PackageOf(b.Schema, b.Package, b.Name)
		byPackage[name] = append(byPackage[name], b)
		required[name] = required[name] || must
	}
	reasons := map[string]string{}
	for name := range byPackage {
		if !required[name] {
			continue
		}
		_, err := LoadPackage(name, sequence(jsonOf(byPackage[name])...))
		var invalid *InvalidPackageError
		if errors.As(err, &invalid) {
			if invalid.Name != name {
				t.Errorf("the error of package %q names %q", name, invalid.Name)
			}
			reasons[name] = invalid.Reason
		} else if err != nil {
			t.Errorf("package %q: got %T %v, want an *InvalidPackageError or none", name, err, err)
		}
	}
	return reasons
}

// sequence returns blobs as a store does: in one buffer that each step overwrites.
func sequence(blobs ...string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var buf []byte
		for _, b := range blobs {
			for i := range buf {
				buf[i] = '!'
			}
			buf = append(buf[:0], b...)
			if !yield(buf, nil) {
				return
			}
		}
	}
}
