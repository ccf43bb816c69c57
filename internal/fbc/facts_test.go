package fbc

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// factsIn returns the facts of a bundle read from a file.
func factsIn(t *testing.T, properties string) BundleFacts {
	t.Helper()
	got, err := readText(t, "c.json", `{"schema":"olm.bundle","name":"b",`+properties+`,"z":1}`, 0)
	if err != nil || len(got) != 1 {
		t.Fatalf("got %d blobs, %v", len(got), err)
	}
	return FactsOf(got[0])
}

func TestBundleFacts(t *testing.T) {
	long := strings.Repeat("x", scan.MaxKeyBytes)
	for name, c := range map[string]struct {
		in   string
		want BundleFacts
	}{
		"all there is": {
			`"properties":[
				{"type":"olm.gvk","value":{"group":"b.example.com","kind":"B","version":"v1"}},
				{"type":"olm.package","value":{"packageName":"p","version":"1.2.3-rc.1+build"}},
				{"type":"olm.gvk","value":{"group":"a.example.com","kind":"A","version":"v1"}},
				{"type":"olm.gvk","value":{"group":"b.example.com","kind":"B","version":"v1"}},
				{"type":"olm.gvk.required","value":{"group":"c.example.com","kind":"C","version":"v1"}},
				{"type":"example.com","value":[[{"type":"no"}],"]}",{"type":"olm.gvk"}]}]`,
			BundleFacts{
				Version:    "1.2.3-rc.1+build",
				Provides:   []GVK{{"a.example.com", "v1", "A"}, {"b.example.com", "v1", "B"}},
				Properties: []string{"example.com", "olm.gvk", "olm.gvk.required", "olm.package"},
			},
		},
		"other spellings": {
			`"Properties":[{"VALUE":{"Version":"1.0.0"},"\u0074ype":"olm.\u0070ackage"}]`,
			BundleFacts{Version: "1.0.0", Properties: []string{"olm.package"}},
		},
		"the core group": {
			`"properties":[{"type":"olm.gvk","value":{"kind":"Pod","version":"v1"}}]`,
			BundleFacts{Provides: []GVK{{"", "v1", "Pod"}}, Properties: []string{"olm.gvk"}},
		},
		"the first version counts": {
			`"properties":[{"type":"olm.package","value":{"version":"2"}},{"type":"olm.package","value":{"version":"1"}}]`,
			BundleFacts{Version: "2", Properties: []string{"olm.package"}},
		},
		"none":          {`"properties":[]`, BundleFacts{}},
		"no list":       {`"properties":{"type":"olm.package"}`, BundleFacts{}},
		"null":          {`"properties":null`, BundleFacts{}},
		"no properties": {`"other":[{"type":"olm.package","value":{"version":"2"}}]`, BundleFacts{}},
		"elements that are nothing": {
			`"properties":[1,null,"olm.package",[],{},{"type":7},{"type":""},{"value":{"version":"1"}},{"type":"only"}]`,
			BundleFacts{Properties: []string{"only"}},
		},
		"values of the wrong type": {`"properties":[{"type":"olm.package","value":"1.0.0"},{"type":"olm.gvk","value":[]},` +
			`{"type":"olm.package","value":{"version":1}}]`, BundleFacts{Properties: []string{"olm.gvk", "olm.package"}}},
		"half an API": {
			`"properties":[{"type":"olm.gvk","value":{"group":"g","kind":"K"}},{"type":"olm.gvk","value":{"group":"g","version":"v1"}}]`,
			BundleFacts{Properties: []string{"olm.gvk"}},
		},
		"an API with a slash": {
			`"properties":[{"type":"olm.gvk","value":{"group":"g","version":"v1","kind":"a/b"}}]`, BundleFacts{Properties: []string{"olm.gvk"}},
		},
		"too long": {
			`"properties":[{"type":"` + long + `y","value":1},{"type":"olm.package","value":{"version":"` + long + `y"}},{"type":"olm.gvk","value":{"group":"` + long + `","version":"v1","kind":"K"}},{"type":"` + long + `","value":1}]`,
			BundleFacts{Properties: []string{"olm.gvk", "olm.package", long}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, factsIn(t, c.in), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestBundleFactsAreBounded(t *testing.T) {
	var list []string
	for i := range maxFacts + 10 {
		list = append(list, fmt.Sprintf(`{"type":"t%d","value":0},{"type":"olm.gvk","value":{"group":"g","version":"v1","kind":"K%d"}}`, i, i))
	}
	got := factsIn(t, `"properties":[`+strings.Join(list, ",")+`]`)
	if len(got.Properties) != maxFacts || len(got.Provides) != maxFacts {
		t.Errorf("got %d types and %d APIs, want %d each", len(got.Properties), len(got.Provides), maxFacts)
	}
	if !slices.Contains(got.Properties, "t0") || slices.Contains(got.Properties, fmt.Sprintf("t%d", maxFacts+5)) {
		t.Error("want the first ones")
	}
}

// An index lists only bundles by property or API.
func TestOtherBlobsHaveNoFacts(t *testing.T) {
	for _, schema := range []string{SchemaPackage, SchemaChannel, SchemaDeprecations, "example.com"} {
		got, err := readText(t, "c.json", `{"schema":"`+schema+`","properties":[{"type":"olm.package","value":{"version":"1"}}]}`, 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(BundleFacts{}, FactsOf(got[0])); diff != "" {
			t.Errorf("%s has facts: %s", schema, diff)
		}
	}
}

// FuzzBundleFacts compares the facts of a bundle with what encoding/json decodes.
func FuzzBundleFacts(f *testing.F) {
	f.Add(`[{"type":"olm.gvk","value":{"group":"g","version":"v1","kind":"K"}},{"type":"olm.package","value":{"version":"1.0.0"}}]`)
	f.Add(`[{"type":"a\\\"b","value":"\\\\"},{"Type":"x"},[[]],{"value":{"a":[1,{}]},"type":"y"}]`)
	f.Add(`{"type":"olm.gvk"}`)
	f.Fuzz(func(t *testing.T, properties string) {
		var valid json.RawMessage
		if json.Unmarshal([]byte(properties), &valid) != nil {
			return
		}
		var facts BundleFacts
		err := scan.ReadFile(fstest.MapFS{
			"c.json": {Data: []byte(`{"schema":"olm.bundle","properties":` + properties + `}`)},
		}, "c.json", 1<<20, func(b scan.Blob) error {
			facts = FactsOf(b)
			return nil
		})
		if err != nil {
			return // nested too deep, now that it is one level down
		}
		checkFacts(t, facts)
		var decoded []struct {
			Type string `json:"type"`
		}
		if json.Unmarshal([]byte(strings.ToValidUTF8(properties, "\uFFFD")), &decoded) != nil ||
			len(decoded) > maxFacts || strings.ContainsFunc(properties, func(r rune) bool { return r > 127 }) {
			return // the types of some properties are no strings, and encoding/json reads none
		}
		want := map[string]bool{}
		for _, p := range decoded {
			if p.Type != "" && len(p.Type) <= scan.MaxKeyBytes {
				want[p.Type] = true
			}
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), facts.Properties, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("the types of %s, -want +got:\n%s", properties, diff)
		}
	})
}

func checkFacts(t *testing.T, facts BundleFacts) {
	t.Helper()
	if !slices.IsSorted(facts.Properties) || len(slices.Compact(slices.Clone(facts.Properties))) != len(facts.Properties) {
		t.Fatalf("got the types %q", facts.Properties)
	}
	if !slices.IsSortedFunc(facts.Provides, compareGVK) || len(slices.Compact(slices.Clone(facts.Provides))) != len(facts.Provides) {
		t.Fatalf("got the APIs %q", facts.Provides)
	}
	for _, g := range facts.Provides {
		if parts := strings.Split(g.String(), "/"); len(parts) != 3 ||
			(GVK{parts[0], parts[1], parts[2]}) != g || len(g.String()) > scan.MaxKeyBytes {
			t.Fatalf("the API %q is ambiguous", g)
		}
	}
	if len(facts.Version) > scan.MaxKeyBytes || len(facts.Properties) > maxFacts || len(facts.Provides) > maxFacts {
		t.Fatal("the facts are not bounded")
	}
}
