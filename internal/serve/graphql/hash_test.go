package graphql

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"
)

// hashes are the hashes of a catalog in a reply.
type hashes struct {
	Blobs struct {
		PageInfo struct{ HasNextPage bool }
		Nodes    []struct {
			Schema, Package, Name, Hash string
			Content                     json.RawMessage
		}
	}
	Packages struct {
		Nodes []struct {
			Name, Hash string
			Channels   []struct{ Name, Hash string }
			Bundles    struct {
				Nodes []struct{ Name, Hash string }
			}
		}
	}
	Catalogs []struct {
		InvalidPackages []struct{ Name, Hash string }
	}
}

const hashQuery = `query($c: String!) {
	blobs(filter: {catalog: $c}, first: 100) { pageInfo { hasNextPage } nodes { schema package name hash content } }
	packages(filter: {catalog: $c}, first: 20) { nodes { name hash channels { name hash } bundles(first: 20) { nodes { name hash } } } }
	catalogs(names: [$c]) { invalidPackages { name hash } }
}`

// Every hash can be computed from the blobs as the schema describes.
func TestHashes(t *testing.T) {
	url := startServer(t, config(), openStore(t))
	for _, catalog := range []string{"main", "other"} {
		got := ask[hashes](t, url, hashQuery, "c", catalog)
		if got.Blobs.PageInfo.HasNextPage || len(got.Packages.Nodes) == 0 {
			t.Fatalf("%s: %+v", catalog, got)
		}
		of := map[string]string{}
		sums := map[string][]byte{}
		for _, b := range got.Blobs.Nodes {
			sum := sha256.Sum256(b.Content)
			if want := hex.EncodeToString(sum[:16]); b.Hash != want {
				t.Errorf("%s: %s %q: hash %s, want %s", catalog, b.Schema, b.Name, b.Hash, want)
			}
			pkg := b.Package
			if b.Schema == "olm.package" {
				pkg = b.Name
			}
			of[b.Schema+" "+pkg+" "+b.Name] = b.Hash
			sums[pkg] = append(sums[pkg], sum[:16]...)
		}
		check := func(what, got, want string) {
			t.Helper()
			if got != want || got == "" {
				t.Errorf("%s: %s: hash %q, want %q", catalog, what, got, want)
			}
		}
		packageHash := func(name string) string {
			sum := sha256.Sum256(sums[name])
			return hex.EncodeToString(sum[:16])
		}
		for _, p := range got.Packages.Nodes {
			check(p.Name, p.Hash, packageHash(p.Name))
			for _, c := range p.Channels {
				check(c.Name, c.Hash, of["olm.channel "+p.Name+" "+c.Name])
			}
			for _, b := range p.Bundles.Nodes {
				check(b.Name, b.Hash, of["olm.bundle "+p.Name+" "+b.Name])
			}
		}
		invalid := got.Catalogs[0].InvalidPackages
		for _, p := range invalid {
			check(p.Name, p.Hash, packageHash(p.Name))
		}
		if catalog == "main" && len(invalid) == 0 {
			t.Error("no package is invalid")
		}
	}
}

// The hash of a package changes with each of its blobs, of any schema, but not with those of other packages.
func TestHashChanges(t *testing.T) {
	valid := `{"schema":"olm.package","name":"NAME","defaultChannel":"c"}
{"schema":"olm.channel","package":"NAME","name":"c","entries":[{"name":"NAME.v1"}]}
{"schema":"olm.bundle","package":"NAME","name":"NAME.v1","image":"example.com/a:1",
	"properties":[{"type":"olm.package","value":{"packageName":"NAME","version":"1.0.0"}}]}
`
	named := func(text, name string) string { return strings.ReplaceAll(text, "NAME", name) }
	st := emptyStore(t, t.TempDir())
	commit(t, st, "before", "1", fstest.MapFS{"a.json": {Data: []byte(named(valid, "a"))}, "b.json": {Data: []byte(named(valid, "b"))}})
	more := named(valid, "a") + `{"schema":"example.com.custom","package":"a"}` + "\n"
	commit(t, st, "after", "2", fstest.MapFS{"a.json": {Data: []byte(more)}, "b.json": {Data: []byte(named(valid, "b"))}})
	url := startServer(t, config(), st)
	before, after := ask[hashes](t, url, hashQuery, "c", "before").Packages.Nodes, ask[hashes](t, url, hashQuery, "c", "after").Packages.Nodes
	if len(before) != 2 || len(after) != 2 || before[0].Hash == after[0].Hash || before[1].Hash != after[1].Hash {
		t.Errorf("before %v, after %v", before, after)
	}
}
