package template

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/authoring/render"
)

// fake renders images named PACKAGE:VERSION.
type fake struct{ calls [][]string }

func (f *fake) Try(_ context.Context, refs []string) (map[string]render.Result, error) {
	f.calls = append(f.calls, refs)
	rendered := map[string]render.Result{}
	for _, ref := range refs {
		pkg, version, _ := strings.Cut(ref, ":")
		if pkg == "absent" {
			rendered[ref] = render.Result{Err: errors.New("rendering bundle " + ref + ": not found")}
			continue
		}
		csv := fmt.Sprintf(`{"kind":"ClusterServiceVersion","metadata":{"name":"%s.v%s"},"spec":{"description":"Text"}}`, pkg, version)
		rendered[ref] = render.Result{Bundle: &render.Bundle{Bundle: declcfg.Bundle{
			Schema: declcfg.SchemaBundle, Package: pkg, Name: pkg + ".v" + version, Image: ref, CsvJSON: csv, Objects: []string{csv},
			Properties: []property.Property{property.MustBuildPackage(pkg, version), property.MustBuildBundleObject([]byte(csv))},
		}}}
	}
	return rendered, nil
}

const basicText = `schema: olm.template.basic
entries:
- {schema: olm.package, name: foo, defaultChannel: a}
- {schema: olm.bundle, image: "foo:1.0.0"}
- {schema: olm.channel, package: foo, name: a, entries: [{name: foo.v1.0.0}]}
- {schema: x, package: foo, value: 9007199254740993, float: 1.0}
`

func semverOf(stable ...string) string {
	text := "schema: olm.semver\nstable: {bundles: ["
	for _, ref := range stable {
		text += `{image: "` + ref + `"}, `
	}
	return text + "]}\n"
}

func parse(t *testing.T, text string) *Template {
	t.Helper()
	parsed, err := Parse("t.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestBundlesAreRenderedOnce(t *testing.T) {
	basic, semver, renderer := parse(t, basicText), parse(t, semverOf("foo:1.0.0", "foo:1.1.0")), &fake{}
	catalogs, bundles, err := Render(t.Context(), renderer,
		[]Job{{basic, render.Objects}, {basic, render.Metadata}, {semver, render.Metadata}, {semver, render.Objects}})
	if err != nil {
		t.Fatal(err)
	}
	if len(renderer.calls) != 1 || len(bundles) != 2 {
		t.Errorf("the renderer got %q and made %d bundles", renderer.calls, len(bundles))
	}
	for i, want := range []string{property.TypeBundleObject, property.TypeCSVMetadata, property.TypeCSVMetadata, property.TypeBundleObject} {
		for _, b := range catalogs[i].Bundles {
			if got := b.Properties[len(b.Properties)-1].Type; got != want || len(b.Properties) != 2 {
				t.Errorf("catalog %d, bundle %s: the last of %d properties is %s, want %s", i, b.Name, len(b.Properties), got, want)
			}
		}
	}
	if got := catalogs[3].Packages[0].Description; got != "Text" {
		t.Errorf("the description of the package is %q", got)
	}
}

func TestNumbersAreUnchanged(t *testing.T) {
	catalogs, _, err := Render(t.Context(), &fake{}, []Job{{parse(t, basicText), render.Metadata}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"float":1.0,"package":"foo","schema":"x","value":9007199254740993}` + "\n"
	if diff := cmp.Diff(want, string(catalogs[0].Others[0].Blob)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRenderErrors(t *testing.T) {
	for text, want := range map[string]string{
		semverOf("foo:1.0.0", "absent:1", "absent:2"): "t.yaml: stable.bundles[1]: rendering bundle absent:1: not found\n" +
			"t.yaml: stable.bundles[2]: rendering bundle absent:2: not found",
		semverOf("foo:1.0.0", "bar:1.1.0"): `t.yaml: stable.bundles[0] is of package "foo", and stable.bundles[1] is of package "bar": use a template ` +
			"for each package",
		semverOf("foo:1.0.0+a", "foo:1.0.0+b"): "t.yaml: stable.bundles[0] and stable.bundles[1] have the versions 1.0.0+a and 1.0.0+b, which differ " +
			"only in build metadata and thus have no order: remove one of them",
		semverOf("foo:1.0.0", "foo:1.0.0"): "t.yaml: stable.bundles[0] and stable.bundles[1] have the same version 1.0.0: remove one of them",
		semverOf("foo:1"):                  `t.yaml: stable.bundles[0]: version "1" of the bundle is not a semantic version: No Major.Minor.Patch elements found`,
		semverOf():                         "t.yaml: render: no bundles specified or no bundles could be rendered",
		strings.Replace(basicText, "name: a,", "name: b,", 1): "t.yaml: the rendered catalog would have errors:\n" +
			`  default channel "a" not found: set defaultChannel to one of the package's channels: b (default-channel)`,
	} {
		if _, _, err := Render(t.Context(), &fake{}, []Job{{parse(t, text), render.Metadata}}); err == nil || err.Error() != want {
			t.Errorf("%s: got\n%v\nwant\n%s", text, err, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "the file is empty",
		"# Nothing.\n":               "the file is empty",
		"[]":                         "the top level is a list",
		"a: 1":                       "no schema",
		"schema: olm.package":        `unknown template schema "olm.package"; valid schemas are olm.template.basic, olm.semver, olm.template.substitutes`,
		"schema: olm.composite":      "map templates to catalogs in ci.yaml",
		basicText + "---\nschema: x": "the file has 2 documents, and opm reads only the first",
		basicText + "name: x":        `unknown field "name", which opm would ignore: correct or remove it`,
		basicText + "schema: x":      "schema",
		strings.Replace(basicText, `"foo:1.0.0"`, `""`, 1):                          "entries[1] (olm.bundle) has no image",
		strings.Replace(basicText, `"foo:1.0.0"`, `"foo:1.0.0", package: foo`, 1):   "entries[1] (olm.bundle) must have only schema, name and image",
		strings.Replace(basicText, "{name: foo.v1.0.0}", "{name: x, skip: [y]}", 1): `entries[2] (olm.channel "a"): unknown field "skip"`,
		strings.Replace(basicText, "defaultChannel", "channel", 1):                  `entries[0] (olm.package "foo"): unknown field "channel"`,
		strings.Replace(basicText, "schema: x, ", "", 1):                            "entries[3]: ",
		"schema: olm.semver\nstable: {bundles: [{image: a}, {}]}":                   "stable.bundles[1] has no image",
		"schema: olm.semver\nbeta: {bundles: [{image: a}]}":                         `unknown field "beta"`,
		"schema: olm.template.substitutes\nentries: [{schema: x, value: 9007199254740993}]\n": "entries[0] (x): opm would change the number " +
			"9007199254740993: write it as a string",
		"schema: olm.template.substitutes\nsubstitutions: [{name: a}]":           "substitutions[0] has no base",
		"schema: olm.template.substitutes\nsubstitutions: [{base: a}]":           "substitutions[0] has no name",
		"schema: olm.template.substitutes\nsubstitutions: [{base: a, image: b}]": `unknown field "image"`,
	} {
		if _, err := Parse("t.yaml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "t.yaml: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestParseCI(t *testing.T) {
	const text = `updateGraph: semver-mode
fbc:
  enabled: true
  catalog_mapping:
  - {template_name: a.yaml, catalog_names: [v4.16, v4.17], type: olm.semver}
  - {template_name: b.yaml, catalog_names: [v4.18]}
`
	got, err := ParseCI("ci.yaml", []byte(text))
	want := []Mapping{{"a.yaml", []string{"v4.16", "v4.17"}, Semver}, {"b.yaml", []string{"v4.18"}, ""}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" || !IsCI([]byte(text)) {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, other := range []string{basicText, "a: 1", "schema: x\nfbc: {}", "", "{"} {
		if IsCI([]byte(other)) {
			t.Errorf("%q is taken for a ci.yaml", other)
		}
	}
	change := func(old, with string) string { return strings.Replace(text, old, with, 1) }
	for text, want := range map[string]string{
		"fbc: {enabled: true}": "fbc.catalog_mapping has no entries",
		"fbc: 1":               "cannot unmarshal number",
		change("catalog_names", "catalogs_names"):         `fbc.catalog_mapping[0]: unknown field "catalogs_names"`,
		change("[v4.18]", "[v4.16]"):                      `fbc.catalog_mapping[0] and fbc.catalog_mapping[1] both have catalog "v4.16"`,
		change("[v4.18]", "[]"):                           "fbc.catalog_mapping[1]: catalog_names is empty",
		change("[v4.18]", "[../v4.18]"):                   `fbc.catalog_mapping[1]: invalid name "../v4.18"`,
		change("[v4.18]", "[..]"):                         `invalid name ".."`,
		change("b.yaml", "/etc/passwd"):                   `invalid name "/etc/passwd"`,
		change("template_name: b.yaml, ", ""):             `invalid name ""`,
		change("olm.semver", "semver"):                    `unknown type "semver"; valid types are`,
		change("v4.18]}", "v4.18], type: olm.composite}"): `fbc.catalog_mapping[1]: unknown type "olm.composite"`,
		text + "---\n" + text:                             "2 documents",
	} {
		if _, err := ParseCI("ci.yaml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "ci.yaml: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestConvert(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"foo/b.json": `{"schema":"olm.bundle","package":"foo","name":"foo.v1","image":"i","properties":[{"type":"x","value":9007199254740993}]}`,
		"foo/a.yaml": "schema: olm.package\nname: foo\n",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for schema, want := range map[string]string{
		Basic: `"schema":"olm.template.basic","entries":[{"name":"foo","schema":"olm.package"},{"schema":"olm.bundle","image":"i"}]`,
		Substitutes: `"schema":"olm.template.substitutes","entries":[{"name":"foo","schema":"olm.package"},{"image":"i","name":"foo.v1","package":"foo",` +
			`"properties":[{"type":"x","value":9007199254740993}],"schema":"olm.bundle"}],"substitutions":[]`,
	} {
		got, err := Convert(t.Context(), dir, schema)
		if text := strings.Join(strings.Fields(strings.ReplaceAll(string(got), `": `, `":`)), ""); err != nil || text != "{"+want+"}" {
			t.Errorf("%s: got %s, %v", schema, text, err)
		}
	}
	file := filepath.Join(dir, "foo", "b.json")
	if err := os.WriteFile(file, []byte(`{"schema":"olm.bundle","package":"foo","name":"foo.v1"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Convert(t.Context(), file, Basic); err == nil || !strings.Contains(err.Error(), `b.json: bundle "foo.v1" has no image`) {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Convert(t.Context(), file, Basic); err == nil || !strings.Contains(err.Error(), "the catalog has no blobs") {
		t.Errorf("got %v", err)
	}
}

// FuzzParse checks that what is parsed can be rendered without a panic, and that names in a ci.yaml are safe.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		basicText, semverOf("foo:1.0.0", "foo:1.1.0"), `{"schema":"olm.template.basic","entries":[]}`,
		`{"schema":"olm.template.substitutes","entries":[{"schema":"olm.package"}],"substitutions":[{"name":"a:1","base":"b"}]}`,
		"fbc: {catalog_mapping: [{template_name: a, catalog_names: [v4.17], type: olm.semver}]}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if mappings, err := ParseCI("", text); err == nil {
			for _, m := range mappings {
				for _, name := range append(m.Catalogs, m.Template) {
					if filepath.Dir(filepath.Join("a", name)) != "a" {
						t.Errorf("the name %q leads elsewhere", name)
					}
				}
			}
		}
		parsed, err := Parse("", text)
		if err != nil {
			return
		}
		bundles := map[string]declcfg.Bundle{}
		rendered, _ := (&fake{}).Try(t.Context(), parsed.Images())
		for ref, result := range rendered {
			if result.Bundle != nil {
				bundles[ref] = result.Bundle.Bundle
			}
		}
		if catalog, err := parsed.catalog(t.Context(), bundles); err == nil {
			if err := declcfg.WriteJSON(*catalog, new(bytes.Buffer)); err != nil {
				t.Error(err)
			}
		}
	})
}
