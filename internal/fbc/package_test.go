package fbc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

func pkgBlob(name, defaultChannel string) string {
	return fmt.Sprintf(`{"schema":"olm.package","name":%q,"defaultChannel":%q,"description":"about %s"}`, name, defaultChannel, name)
}

// channelBlob has entries like "a replaces b skips c,d".
func channelBlob(pkg, name string, entries ...string) string {
	var out []string
	for _, e := range entries {
		words := strings.Fields(e)
		entry := fmt.Sprintf(`{"name":%q`, words[0])
		for i := 1; i+1 < len(words); i += 2 {
			if words[i] == "skips" {
				entry += fmt.Sprintf(`,"skips":["%s"]`, strings.ReplaceAll(words[i+1], ",", `","`))
			} else {
				entry += fmt.Sprintf(`,%q:%q`, words[i], words[i+1])
			}
		}
		out = append(out, entry+"}")
	}
	return fmt.Sprintf(`{"schema":"olm.channel","package":%q,"name":%q,"entries":[%s]}`, pkg, name, strings.Join(out, ","))
}

// bundleBlob returns a bundle with additional properties (JSON).
func bundleBlob(pkg, name, version string, properties ...string) string {
	properties = append([]string{fmt.Sprintf(`{"type":"olm.package","value":{"packageName":%q,"version":%q}}`, pkg, version)}, properties...)
	return fmt.Sprintf(`{"schema":"olm.bundle","package":%q,"name":%q,"image":"quay.io/example/%s:v%s","properties":[%s]}`,
		pkg, name, pkg, strings.ReplaceAll(version, "+", "-"), strings.Join(properties, ","))
}

func TestLoadPackage(t *testing.T) {
	deprecated := `{"type":"olm.deprecated","value":{}}`
	got, err := LoadPackage("foo", sequence(
		`{"schema":"example.com.custom","package":"foo","entries":7}`, // custom: not looked at
		channelBlob("foo", "stable", "v1 replaces v0 skips v1-rc", "v1-rc replaces v0", "v0 replaces gone", "v10 replaces v2", "v2 replaces v1"),
		bundleBlob("foo", "v2", "2.0.0"),
		bundleBlob("foo", "v10", "10.0.0"),
		bundleBlob("foo", "v1", "1.0.0"),
		bundleBlob("foo", "v1-rc", "1.0.0-rc.1"),
		bundleBlob("foo", "v0", "0.9.0", deprecated),
		channelBlob("foo", "candidate", "v10"),
		channelBlob("foo", "old", "v0"),
		pkgBlob("foo", "stable"),
		`{"schema":"olm.deprecations","package":"foo","entries":[
			{"reference":{"schema":"olm.package"},"message":"use bar"},
			{"reference":{"schema":"olm.channel","name":"old"},"message":"old is old"},
			{"reference":{"schema":"olm.bundle","name":"v1"},"message":"v1 has a fault"}]}`,
	))
	if err != nil {
		t.Fatal(err)
	}
	want := &Package{
		Name: "foo", Description: "about foo", DefaultChannel: "stable", Deprecation: "use bar",
		Channels: []Channel{
			{Name: "candidate", Head: "v10", Entries: []Entry{{"v10", "10.0.0", ""}}},
			{Name: "old", Head: "v0", Deprecation: "old is old", Entries: []Entry{}},
			{Name: "stable", Head: "v10", Entries: []Entry{
				{"v10", "10.0.0", ""}, {"v2", "2.0.0", ""}, {"v1", "1.0.0", "v1 has a fault"}, {"v1-rc", "1.0.0-rc.1", ""},
			}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A bundle without an image is valid if it has its objects in the catalog, as in old indexes.
func TestLoadPackageOfBundleObjects(t *testing.T) {
	bundle := strings.Replace(bundleBlob("foo", "v1", "1.0.0", csvObject(csvManifest)), `"image":"quay.io/example/foo:v1.0.0",`, "", 1)
	if strings.Contains(bundle, `"image"`) {
		t.Fatal("the bundle has an image")
	}
	got, err := LoadPackage("foo", sequence(pkgBlob("foo", "stable"), channelBlob("foo", "stable", "v1"), bundle))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Channel{{Name: "stable", Head: "v1", Entries: []Entry{{"v1", "1.0.0", ""}}}}, got.Channels); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Versions that differ only in build metadata have equal precedence (semver 2.0, item 10). Their order must not
// depend on map iteration.
func TestLoadPackageOrdersEntriesAlways(t *testing.T) {
	var entries, blobs []string
	for i := range 20 {
		entries = append(entries, fmt.Sprintf("v1-%02d replaces v1-%02d", i, i+1))
		blobs = append(blobs, bundleBlob("foo", fmt.Sprintf("v1-%02d", i), fmt.Sprintf("1.0.0+%d", i)))
	}
	blobs = append(blobs, pkgBlob("foo", "stable"), channelBlob("foo", "stable", entries...))
	var first *Package
	for range 50 {
		got, err := LoadPackage("foo", sequence(blobs...))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = got
		}
		if diff := cmp.Diff(first, got); diff != "" {
			t.Fatalf("two runs differ:\n%s", diff)
		}
	}
	if n := len(first.Channels[0].Entries); n != 20 {
		t.Errorf("got %d entries, want 20", n)
	}
}

func TestReplacesOrdersEqualVersions(t *testing.T) {
	for _, names := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "c", "a"}} {
		blobs := []string{
			pkgBlob("foo", "stable"),
			channelBlob("foo", "stable", names[0], names[1]+" replaces "+names[0], names[2]+" replaces "+names[1]),
		}
		for i, name := range names {
			blobs = append(blobs, bundleBlob("foo", name, fmt.Sprintf("1.12.13+%d", 9-i)))
		}
		p, err := LoadPackage("foo", sequence(blobs...))
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range p.Channels[0].Entries {
			if want := names[len(names)-1-i]; e.Name != want {
				t.Errorf("replaces chain %v: entry %d is %s, want %s", names, i, e.Name, want)
			}
		}
	}
}

func TestLoadPackageRefuses(t *testing.T) {
	valid := []string{pkgBlob("foo", "stable"), channelBlob("foo", "stable", "v1"), bundleBlob("foo", "v1", "1.0.0")}
	long := make([]string, MaxEntries+1)
	for i := range long {
		long[i] = fmt.Sprintf("v%d replaces v%d", i, i+1)
	}
	for name, c := range map[string]struct {
		blobs []string
		want  string
	}{
		"no blobs": {nil, "olm.package blob not found"},
		"of another name": {
			[]string{pkgBlob("bar", "stable"), channelBlob("bar", "stable", "v1"), bundleBlob("bar", "v1", "1.0.0")},
			"olm.package blob not found",
		},
		"several reasons at once": {
			[]string{
				pkgBlob("foo", ""),
				channelBlob("foo", "b"),
				channelBlob("foo", "a", "v1", "v2"),
				bundleBlob("foo", "v1", "1.0.0"),
				bundleBlob("foo", "v2", "1.0.0"),
			},
			`default channel must be set; duplicate versions found in bundles: [{1.0.0: [v1, v2]}]; ` +
				`invalid channel "a": multiple channel heads found in graph: v1, v2; invalid channel "b": channel must contain at least one bundle`,
		},
		"a schema of the wrong type": {append([]string{`{"schema":7}`}, valid...), `the value of "schema" is a number, not a string`},
		"more entries than accepted": {
			append([]string{channelBlob("foo", "long", long...)}, valid...), `channel "long" has 2001 entries, which exceeds the limit of 2000`,
		},
		"a reason as long as the catalog likes": {
			append(valid, bundleBlob("foo", strings.Repeat("é", 2000), "1.0.1")), `package "foo", bundle "` + strings.Repeat("é", 100),
		},
		"line breaks in a name": {append(valid, bundleBlob("foo", "v\n2", "1.0.1")), `bundle "v\n2" not found in any channel entries`},
	} {
		t.Run(name, func(t *testing.T) {
			var first string
			for range 50 {
				_, err := LoadPackage("foo", sequence(c.blobs...))
				var invalid *InvalidPackageError
				if !errors.As(err, &invalid) {
					t.Fatalf("got %T %v, want an *InvalidPackageError", err, err)
				}
				if first == "" {
					first = invalid.Reason
				}
				if invalid.Reason != first {
					t.Fatalf("two runs differ:\n%s\n%s", first, invalid.Reason)
				}
			}
			if !strings.HasPrefix(first, c.want) &&
				!strings.Contains(first, c.want) || strings.Contains(first, "\n") || len(first) > maxReason+len("…") {
				t.Errorf("got the reason %q, want one short line with %q", first, c.want)
			}
		})
	}
}

func TestLoadPackageReturnsErrorsOfTheBlobs(t *testing.T) {
	_, err := LoadPackage("foo", func(yield func([]byte, error) bool) { yield(nil, fs.ErrPermission) })
	var invalid *InvalidPackageError
	if !errors.Is(err, fs.ErrPermission) || errors.As(err, &invalid) {
		t.Errorf("got %T %v, want the error of the blobs, unchanged", err, err)
	}
}

func TestSmallCatalogIsValid(t *testing.T) {
	fsys := os.DirFS("testdata/small")
	files, err := scan.Files(fsys)
	if err != nil {
		t.Fatal(err)
	}
	var blobs []scan.Blob
	for _, name := range files {
		more, err := readAll(fsys, name, 0)
		if err != nil {
			t.Fatal(err)
		}
		blobs = append(blobs, more...)
	}
	if got := invalidPackages(t, blobs); len(got) > 0 {
		t.Errorf("got invalid packages %v, want none", got)
	}
}

func TestPackageOf(t *testing.T) {
	for _, c := range []struct {
		blob     scan.Blob
		want     string
		required bool
	}{
		{scan.Blob{Schema: SchemaPackage, Name: "foo"}, "foo", true},
		{scan.Blob{Schema: SchemaPackage, Package: "bar"}, "", true},
		{scan.Blob{Schema: SchemaChannel, Package: "foo", Name: "stable"}, "foo", true},
		{scan.Blob{Schema: SchemaBundle, Name: "foo.v1"}, "", true},
		{scan.Blob{Schema: SchemaDeprecations, Package: "foo"}, "foo", true},
		{scan.Blob{Schema: "example.com", Package: "foo"}, "foo", false},
		{scan.Blob{Schema: "example.com", Name: "foo"}, "", false},
		{scan.Blob{Schema: "olm.nonsense", Package: "foo"}, "foo", false},
	} {
		if got, required := PackageOf(c.blob.Schema, c.blob.Package, c.blob.Name); got != c.want || required != c.required {
			t.Errorf("%+v: got %q %v, want %q %v", c.blob, got, required, c.want, c.required)
		}
	}
}

func TestCheckBlob(t *testing.T) {
	for blob, want := range map[string]string{
		pkgBlob("foo", "a"): "",
		`{"schema":"olm.channel","package":"foo","name":"a","entries":{}}`:                     "cannot unmarshal object",
		`{"schema":"olm.package","name":"foo","icon":{"base64data":"%"}}`:                      "illegal base64",
		`{"schema":"olm.bundle","name":"b","properties":[{"type":"olm.gvk","value":"a"}]}`:     `parse property[0] of type "olm.gvk"`,
		`{"schema":"olm.bundle","name":"b","relatedImages":[{"image":"a"},{"image":"b@"}]}`:    "relatedImages[1].image",
		`{"schema":"example.com","name":"b","properties":[{"type":"olm.gvk","value":"none"}]}`: "",
	} {
		err := CheckBlob([]byte(blob))
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", blob, err, want)
		}
	}
}
