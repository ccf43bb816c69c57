package authoring

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"

	channels "github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/diff"
)

func half(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

func TestOutline(t *testing.T) {
	const (
		pkg     = `{"schema":"olm.package","name":"foo","defaultChannel":"a"}`
		channel = `{"schema":"olm.channel","package":"foo","name":"a","entries":[{"name":"foo.v1"}]}`
		bundle  = `{"schema":"olm.bundle","package":"foo","name":"foo.v1","image":"i","properties":` +
			`[{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0"}}]}`
		custom     = `{"schema":"custom","package":"foo"}`
		homeless   = `{"schema":"custom"}`
		deprecates = `{"schema":"olm.deprecations","package":"foo","entries":` +
			`[{"reference":{"schema":"olm.channel","name":"a"},"message":"old"}]}`
		unknown = `{"schema":"olm.deprecations","package":"bar"}`
	)
	dir := writeTree(t, map[string]string{
		"a.json": homeless + custom + channel, // before the package, as files are read in lexical order
		"b.yaml": "schema: olm.package\nname: foo\ndefaultChannel: a\n",
		"c.json": bundle + deprecates + unknown,
	})
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o, err := Outline(t.Context(), s)
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
	for name, hash := range map[string]string{
		"foo": half(raw(custom, channel, pkg, bundle, deprecates)),
		"bar": half(raw(unknown)),
	} {
		if got := o.Packages[name].Hash; got != hash {
			t.Errorf("package %s has hash %s, want %s", name, got, hash)
		}
	}
	if len(o.Packages) != 2 {
		t.Errorf("got %d packages, want 2", len(o.Packages))
	}
	got, err := o.Packages["foo"].Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := diff.NewDetails()
	want.DefaultChannel = "a"
	want.Channels["a"] = diff.NewChannel(half(channel), []channels.Entry{{Name: "foo.v1"}})
	want.Bundles["foo.v1"] = diff.Bundle{Version: "1.0.0", Hash: half(bundle)}
	want.Deprecations[diff.Reference{Kind: "channel", Name: "a"}] = "old"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got, err := o.Packages["bar"].Load(t.Context()); err != nil || got.Invalid == "" {
		t.Errorf("invalid package: got %+v, %v", got, err)
	}
}

func TestOutlineRefusesUnreadableCatalog(t *testing.T) {
	s, err := Open(t.Context(), writeTree(t, map[string]string{"a.json": "{"}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Outline(t.Context(), s); err == nil {
		t.Error("got no error")
	}
}
