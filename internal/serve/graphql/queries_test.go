package graphql

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

var update = flag.Bool("update", false, "write the answers of testdata/queries again")

// TestQueries compares the replies to the queries of testdata, over both catalogs, with the files beside them.
func TestQueries(t *testing.T) {
	url := startServer(t, config(), openStore(t))
	files, err := filepath.Glob("testdata/queries/*.graphql")
	if err != nil || len(files) == 0 {
		t.Fatal("no queries", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".graphql"), func(t *testing.T) {
			query, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			data := ask[json.RawMessage](t, url, string(query), "name", "Upgrade")
			var got bytes.Buffer
			if err := json.Indent(&got, data, "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			golden := strings.TrimSuffix(file, ".graphql") + ".json"
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// The heads, which depend only on channels, equal those of the package validation.
func TestHeadsEqualValidation(t *testing.T) {
	st := openStore(t)
	url := startServer(t, config(), st)
	const query = `query($p: String!, $c: String!) { package(name: $p, catalog: $c) { channels { name head { name } } } }`
	for _, catalog := range st.Catalogs() {
		for _, p := range catalog.Snapshot.Packages() {
			want, err := fbc.LoadPackage(p.Name, catalog.Snapshot.Package(p.Name).All())
			if err != nil {
				t.Fatal(err)
			}
			got := ask[struct {
				Package struct {
					Channels []struct {
						Name string
						Head struct{ Name string }
					}
				}
			}](t, url, query, "p", p.Name, "c", catalog.Name)
			if len(got.Package.Channels) != len(want.Channels) {
				t.Fatalf("%s has %d channels, want %d", p.Name, len(got.Package.Channels), len(want.Channels))
			}
			for i, c := range want.Channels {
				if g := got.Package.Channels[i]; g.Name != c.Name || g.Head.Name != c.Head {
					t.Errorf("%s: channel %s has head %s, want %s with %s", p.Name, g.Name, g.Head.Name, c.Name, c.Head)
				}
			}
		}
	}
}
