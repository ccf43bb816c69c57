package graphql

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// damage overwrites the lines of catalog "main" that do not belong to package spare, in all files with lines of its snapshot.
func damage(tb testing.TB, dir string, spare string) {
	tb.Helper()
	damaged := 0
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".jsonl") && filepath.Base(path) != "packages" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := os.OpenFile(path, os.O_WRONLY, 0) // the store has it open: what it reads changes
		if err != nil {
			return err
		}
		offset := int64(0)
		for line := range bytes.Lines(data) {
			if spare == "" || !bytes.Contains(line, []byte(`"`+spare)) {
				damaged++
				if _, err := file.WriteAt(bytes.Repeat([]byte("!"), len(line)-1), offset); err != nil {
					return err
				}
			}
			offset += int64(len(line))
		}
		return file.Close()
	})
	if err != nil || damaged == 0 {
		tb.Fatalf("damaged %d lines: %v", damaged, err)
	}
}

// A query for one package reads no bytes of others.
func TestOnePackageIsRead(t *testing.T) {
	dir := t.TempDir()
	st := emptyStore(t, dir)
	commit(t, st, "main", "1", os.DirFS("testdata/main"))
	var log bytes.Buffer
	cfg := config()
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	url := startServer(t, cfg, st)
	query := func(name string) string {
		return fmt.Sprintf(`{
			package(name: %q) {
				displayName provider deprecation { message } defaultChannel { name } channel(name: "v5") { upgrades { kind } } head { image }
				channels { name deprecation { message } head { image csvMetadata { displayName } } entries { version bundle { image } } }
				bundles { totalCount nodes { name channels { name } properties { value } } }
				blobs { nodes { content } }
			}
			bundles(filter: {package: %[1]q, channel: "v5", versionRange: ">1.0.0"}) { nodes { image package { displayName } } }
			channels(filter: {package: %[1]q}) { nodes { entries { name } } }
			packages(filter: {name: %[1]q}) { nodes { displayName channels { head { image } } } }
			deprecations(filter: {package: %[1]q}) { nodes { entries { message } } }
		}`, name)
	}
	want := ask[json.RawMessage](t, url, query("grafana-operator"))
	damage(t, dir, "grafana-operator")
	if got := ask[json.RawMessage](t, url, query("grafana-operator")); !bytes.Equal(got, want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if log.Len() > 0 {
		t.Errorf("logged: %s", log.String())
	}

	got := post(t, url, query("etcd")) // the damage is there
	if len(got.Errors) < 2 || got.Errors[0].Extensions.Code != "INTERNAL_SERVER_ERROR" || strings.Contains(got.body, "invalid character") {
		t.Errorf("got %s", got.body)
	}
	if n := strings.Count(log.String(), "answering a GraphQL query"); n != 1 {
		t.Errorf("logged %d causes, want 1: %s", n, log.String())
	}
}

// A search skips a catalog with unreadable summaries and returns an error too.
func TestSearchWithoutADamagedCatalog(t *testing.T) {
	dir := t.TempDir()
	st := emptyStore(t, dir)
	commit(t, st, "main", "1", os.DirFS("testdata/main"))
	damage(t, dir, "")
	commit(t, st, "other", "2", os.DirFS("testdata/other"))
	var log bytes.Buffer
	cfg := config()
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	url := startServer(t, cfg, st)
	got := post(t, url, `{ packages(search: "etcd") { totalCount nodes { catalog { name } } } }`)
	got.wantError(t, "INTERNAL_SERVER_ERROR", "reading catalog main failed; its packages are missing")
	if want := `{"packages":{"totalCount":1,"nodes":[{"catalog":{"name":"other"}}]}}`; string(got.Data) != want {
		t.Errorf("got %s, want %s", got.Data, want)
	}
	if n := strings.Count(log.String(),
		"reading the summaries of catalog main: the stored validation results of the packages are damaged"); n != 1 {
		t.Errorf("logged %d causes, want 1: %s", n, log.String())
	}
	got = post(t, url, `{ packages(search: "etcd", filter: {catalog: "main"}) { totalCount } }`)
	if got.wantError(t, "INTERNAL_SERVER_ERROR", "see its log"); string(got.Data) != "null" {
		t.Errorf("got %s, of the damaged catalog alone", got.Data)
	}
}

// Fields from the index need no blob.
func TestIndexFieldsReadNoBlobs(t *testing.T) {
	dir := t.TempDir()
	st := emptyStore(t, dir)
	commit(t, st, "main", "1", os.DirFS("testdata/main"))
	url := startServer(t, config(), st)
	const query = `{
		packages { totalCount nodes { name catalog { counts { bundles } schemas { blobs } } channels { name package { name } } } }
		channels { totalCount nodes { name } }
		bundles(filter: {versionRange: ">3.0.0", property: "olm.gvk", provides: {kind: "Grafana"}}) { totalCount nodes { name version size package { name } } }
		blobs(first: 2) { nodes { schema size } }
		package(name: "grafana-operator") { channel(name: "v5") { name } bundles { totalCount } }
	}`
	want := ask[json.RawMessage](t, url, query)
	damage(t, dir, "")
	if got := ask[json.RawMessage](t, url, query); !bytes.Equal(got, want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// A request reads each blob once, whatever paths lead to it: the limit of read bytes can be exactly the size.
func TestBlobsAreReadOnce(t *testing.T) {
	st := openStore(t)
	type sized struct {
		Blobs struct {
			Nodes []struct {
				Schema, Name string
				Size         int64
			}
		}
	}
	sizes := map[string]int64{}
	for _, b := range ask[sized](t, startServer(t, config(), st), `{ blobs { nodes { schema name size } } }`).Blobs.Nodes {
		sizes[b.Schema+" "+b.Name] = b.Size + 1 // and its newline
	}
	channels := sizes["olm.channel v5"] + sizes["olm.channel v4"] + sizes["olm.channel candidate"]
	heads := sizes["olm.bundle grafana-operator.v5.2.0"] + sizes["olm.bundle grafana-operator.v4.9.0"]
	bundles := heads + sizes["olm.bundle grafana-operator.v5.0.0"] + sizes["olm.bundle grafana-operator.v5.1.0"]
	for query, most := range map[string]int64{
		`{ channels(filter: {package: "grafana-operator"}) { nodes { head { image } } } ` +
			`}`: channels + heads,
		`{ channels(filter: {package: "grafana-operator"}) { nodes { head { version } upgrades { from } } } }`: channels,
		`{ channels(filter: {name: "v5"}) { nodes { entries { bundle { image channels { head { image } } } } } } ` +
			`}`: channels + bundles,
		`{ bundles(filter: {package: "grafana-operator"}) { nodes { image csvMetadata { displayName } channels { name } } } ` +
			`}`: channels + bundles,
		`{ a: bundles(filter: {channel: "v5"}) { nodes { image } } b: bundles(filter: {channel: "candidate"}) { nodes { image } } ` +
			`}`: channels - sizes["olm.channel v4"] + bundles - sizes["olm.bundle grafana-operator.v4.9.0"],
	} {
		cfg := config()
		cfg.Limits.Read = most
		got := post(t, startServer(t, cfg, st), query)
		if len(got.Errors) > 0 {
			t.Errorf("%s: %s", query, got.body)
		}
		cfg.Limits.Read--
		post(t, startServer(t, cfg, st), query).wantError(t, "LIMIT_EXCEEDED", "bytes of the catalogs")
	}
}

// Concurrent requests get the same replies as single ones.
func TestParallelRequests(t *testing.T) {
	url := startServer(t, config(), openStore(t))
	files, err := filepath.Glob("testdata/queries/*.graphql")
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	for _, file := range files {
		query, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := post(t, url, string(query), "name", "Upgrade").body
		for range 8 {
			wg.Go(func() {
				if got := post(t, url, string(query), "name", "Upgrade").body; got != want {
					t.Errorf("%s: got %s\nwant %s", file, got, want)
				}
			})
		}
	}
	wg.Wait()
}
