package authoring

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func half(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

func TestOutline(t *testing.T) {
	const (
		pkg        = `{"schema":"olm.package","name":"foo","defaultChannel":"a"}`
		channel    = `{"schema":"olm.channel","package":"foo","name":"a","entries":[{"name":"foo.v1"}]}`
		bundle     = `{"schema":"olm.bundle","package":"foo","name":"foo.v1","properties":[{"type":"olm.package","value":{"version":"1.0.0"}}]}`
		custom     = `{"schema":"custom","package":"foo"}`
		homeless   = `{"schema":"custom"}`
		deprecates = `{"schema":"olm.deprecations","package":"bar"}`
	)
	dir := writeTree(t, map[string]string{
		"a.json": homeless + custom + channel, // before the package, as files are read in lexical order
		"b.yaml": "schema: olm.package\nname: foo\ndefaultChannel: a\n",
		"c.json": bundle + deprecates,
	})
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o, err := NewOutline(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	raw := func(texts ...string) (joined string) {
		for _, text := range texts {
			b, err := hex.DecodeString(half(text))
			if err != nil {
				t.Fatal(err)
			}
			joined += string(b)
		}
		return joined
	}
	want := map[string]OutlinePackage{
		"foo": {
			Hash:           half(raw(custom, channel, pkg, bundle)),
			DefaultChannel: "a",
			Channels:       map[string]string{"a": half(channel)},
			Bundles:        map[string]OutlineBundle{"foo.v1": {Version: "1.0.0", Hash: half(bundle)}},
		},
		"bar": {Hash: half(raw(deprecates))},
	}
	if diff := cmp.Diff(want, o.Packages, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, test := range []struct{ schema, pkg, name, want string }{
		{"olm.package", "foo", "foo", pkg},
		{"olm.channel", "foo", "a", channel},
		{"olm.deprecations", "bar", "", deprecates},
		{"olm.bundle", "foo", "nosuch", ""},
	} {
		if got, err := o.Blob(test.schema, test.pkg, test.name); err != nil || string(got) != test.want {
			t.Errorf("%+v: got %s, %v", test, got, err)
		}
	}
}

func TestOutlineOfWhatCannotBeRead(t *testing.T) {
	s, err := Open(t.Context(), writeTree(t, map[string]string{"a.json": "{"}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := NewOutline(t.Context(), s); err == nil {
		t.Error("got no error")
	}
}
