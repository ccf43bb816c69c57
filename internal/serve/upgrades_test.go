package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/channel/channeltest"
)

// channelFS returns a catalog with package foo and a channel. Of a deprecated entry, the bundle is deprecated.
func channelFS(c channel.Channel) fstest.MapFS {
	var b bytes.Buffer
	write := func(blob any) { _ = json.NewEncoder(&b).Encode(blob) } // maps and strings always encode
	type object = map[string]any
	write(object{"schema": "olm.package", "name": c.Package, "defaultChannel": c.Name})
	deprecations := []object{{"reference": object{"schema": "olm.channel", "name": c.Name}, "message": "move on"}}
	var entries []object
	for _, e := range c.Entries {
		entries = append(entries, object{"name": e.Name, "replaces": e.Replaces, "skips": e.Skips, "skipRange": e.SkipRange})
		write(object{"schema": "olm.bundle", "package": c.Package, "name": e.Name, "image": "i", "properties": []object{
			{"type": "olm.package", "value": object{"packageName": c.Package, "version": e.Version}},
		}})
		if e.Deprecation != nil {
			deprecations = append(deprecations, object{
				"reference": object{"schema": "olm.bundle", "name": e.Name}, "message": e.Deprecation.Message,
			})
		}
	}
	write(object{"schema": "olm.channel", "package": c.Package, "name": c.Name, "entries": entries})
	write(object{"schema": "olm.deprecations", "package": c.Package, "entries": deprecations})
	return fstest.MapFS{"c.json": {Data: b.Bytes()}}
}

func channelURL(base string, c channel.Channel) string {
	return base + "/catalogs/c/api/v1/packages/" + c.Package + "/channels/" + url.PathEscape(c.Name)
}

// TestPathsEqualThoseOfTheGraph asks for the path between all bundles of channels, also of some that are invalid.
func TestPathsEqualThoseOfTheGraph(t *testing.T) {
	st := openStore(t)
	base := startServer(t, newHandler(st))
	blocks := map[channel.Block]bool{}
	for i, entries := range [][]string{
		{"1.0.0", "1.1.0 replaces 1.0.0 deprecated leaks", "1.2.0 replaces 1.1.0 skips 1.0.1 range >=1.0.0 <1.2.0"},
		{"2.0.0 replaces 1.0.0", "3.0.0 replaces 2.0.0 skips 2.0.0", "4.0.0 range <2.0.0", "1.5.0"},
		{"1.0.0 replaces 2.0.0", "2.0.0 replaces 1.0.0"},
	} {
		c := channeltest.Parse(entries...)
		c.Name = "fast/" + fmt.Sprint(i)
		commit(t, st, "c", fmt.Sprint(i), channelFS(c))
		graph := channel.New(c)
		details := channel.Details{
			Name: c.Name, Package: channel.Named{Name: c.Package}, Catalog: channel.Named{Name: "c"}, IsDefault: true,
			Deprecation: &channel.Deprecation{Message: "move on"}, Head: channel.Named{Name: graph.Channel.Head}, Entries: graph.Entries(),
		}
		checkJSON(t, channelURL(base, c)+"/graph", channel.UpgradeGraph{Details: &details, Edges: graph.Edges()})
		for _, from := range []string{"1.0.0", "foo.v1.0.1", "1.1.0", "1.2.0", "1.5.0", "2.0.0", "3.0.0", "9.0.0", "nonsense"} {
			for _, to := range []string{"", "1.0.0", "1.1.0", "4.0.0", "foo.v7"} {
				paths, err := graph.Paths(from, to)
				blocked, _ := errors.AsType[*channel.BlockedError](err)
				if blocked != nil {
					blocks[blocked.Block] = true
				}
				query := url.Values{"from": {from}, "to": {to}}.Encode()
				checkJSON(t, channelURL(base, c)+"/path?"+query, details.UpgradePath(paths, blocked))
			}
		}
	}
	if len(blocks) < 5 {
		t.Errorf("the paths met few obstacles: %v", blocks)
	}
}

// checkJSON compares a response with the JSON of a value.
func checkJSON(t *testing.T, url string, want any) {
	t.Helper()
	body, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(body)+"\n", get(t, url)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", url, diff)
	}
}

func TestUpgradeLimits(t *testing.T) {
	st := openStore(t)
	base := startServer(t, newHandler(st))
	channelOf := func(n int, skipRange string) channel.Channel {
		c := channel.Channel{Package: "foo", Name: "stable"}
		for i := range n {
			e := channel.Entry{Name: fmt.Sprint("foo.v", i), Version: fmt.Sprintf("1.%d.0", i), SkipRange: skipRange}
			if i > 0 {
				e.Replaces = fmt.Sprint("foo.v", i-1)
			}
			c.Entries = append(c.Entries, e)
		}
		return c
	}
	deep := strings.Repeat(`[`, 10) + strings.Repeat(`[],`, maxDetailValues) + `[]` + strings.Repeat(`]`, 10)
	for i, test := range []struct {
		name        string
		files       fstest.MapFS
		graph, path int
	}{
		{"edges", channelFS(channelOf(120, ">=1.0.0")), http.StatusUnprocessableEntity, http.StatusOK},
		{"work", channelFS(channelOf(800, ">=1.0.0"+strings.Repeat(" ", 800))), http.StatusUnprocessableEntity, http.StatusUnprocessableEntity},
		{"values", fstest.MapFS{"c.json": {Data: []byte(`{"schema":"olm.channel","package":"foo","name":"stable","x":` + deep + `}`)}},
			http.StatusUnprocessableEntity, http.StatusUnprocessableEntity},
		{"types", fstest.MapFS{"c.json": {Data: []byte(`{"schema":"olm.channel","package":"foo","name":"stable","entries":1}`)}},
			http.StatusUnprocessableEntity, http.StatusUnprocessableEntity},
	} {
		commit(t, st, "c", fmt.Sprint(i), test.files)
		url := channelURL(base, channel.Channel{Package: "foo", Name: "stable"})
		if graph, path := statusOf(t, url+"/graph"), statusOf(t, url+"/path?from=1.3.0"); graph != test.graph || path != test.path {
			t.Errorf("%s: status %d of the graph and %d of the path, want %d and %d", test.name, graph, path, test.graph, test.path)
		}
	}
}
