package fbc

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// walk calls every function that walks JSON, for a text that may be damaged.
func walk(t *testing.T, text []byte) {
	t.Helper()
	text = slices.Clip(text) // so that reads beyond the end panic
	for key, value := range scan.Members(text) {
		if len(key) < 2 || len(value) == 0 || value[0] == '"' && len(value) < 2 {
			t.Fatalf("%q: got the key %q, the value %q", text, key, value)
		}
	}
	for value := range scan.Elements(text) {
		if len(value) == 0 {
			t.Fatalf("%q: got an empty value", text)
		}
		propertyOf(value)
	}
	if b, err := scan.ParseBlob(text); err == nil {
		FactsOf(b)
		_, _ = CSV(text, "")
	}
	_ = checkValues(text) // CSV would do it if the text were not small
	scan.CountValues(text)
	for range manifests(text) {
	}
}

// brokenTexts are truncated or have a flipped bit, where a walk could loop or read beyond the end.
var brokenTexts = []string{
	`{"schema":"olm.bundle","properties":[z"type":"olm.gvk","value":{}}]}`, `{"schema":"olm.bundle","z":1,5}`,
	`{"schema":"olm.bundle","z":1.5,`,
	``, `{`, `[`, `{"`, `["`, `{"a`, `{"a"`, `{"a":`, `{"a":"`, `{"a":"\`, `{"a":}`, `{:1}`, `{"a"1}`, `{"a":]}`, `[}`, `[}]`, `[,`, `[,]`,
	`[1,}`, `["\"]`,
	`{\\":1}`, `{"type":"`, `[{"type":"]`, `{"name":"`,
}

// Walks of damaged text must end, without a panic.
func TestWalksEnd(t *testing.T) {
	for _, text := range brokenTexts {
		walk(t, []byte(text))
	}
	valid := []byte(bundleBlob("foo", "v1", "1.0.0", `{"type":"olm.gvk","value":{"group":"g","version":"v1","kind":"K"}}`, csvObject(`{"a":[1.5,null,"\""]}`)))
	for i := range valid {
		walk(t, valid[:i])
		for bit := range 8 {
			damaged := bytes.Clone(valid)
			damaged[i] ^= 1 << bit
			walk(t, damaged)
		}
	}
}

func TestCSVOfDamagedBundle(t *testing.T) {
	valid := strings.TrimSuffix(
		bundleBlob("foo", "v1", "1.0.0",
			`{"type":"olm.csv.metadata","value":{"description":"`+strings.Repeat("a", maxValues)+`"}}`), "}") + `,"z":1.5}`
	if _, err := CSV([]byte(valid), ""); err != nil {
		t.Fatal(err)
	}
	for old, damaged := range map[string]string{`[{"type"`: `[z"type"`, `1.5}`: `1,5}`, `"name":`: `"name"z`, `]`: `}`} {
		if _, err := CSV(slices.Clip([]byte(strings.Replace(valid, old, damaged, 1))), ""); err == nil ||
			!strings.Contains(err.Error(), "invalid character") {
			t.Errorf("%s: got error %v", damaged, err)
		}
	}
}

// FuzzWalk checks that walks of any bytes end, without a panic.
func FuzzWalk(f *testing.F) {
	for _, text := range append(brokenTexts, bundleBlob("foo", "v1", "1.0.0", csvMetadata)) {
		f.Add([]byte(text))
	}
	f.Fuzz(walk)
}
