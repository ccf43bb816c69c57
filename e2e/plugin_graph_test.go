package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestPluginGraph draws upgrade graphs.
func TestPluginGraph(t *testing.T) {
	w := pluginWorld(t)
	for name, args := range map[string]string{
		"default.txt":      "graph skupper-operator",
		"ascii.txt":        "graph ecr-secret-operator --ascii",
		"all-channels.txt": "graph mercury-operator --all-channels",
		"channel.dot":      "graph skupper-operator --channel stable-1.7 -o dot",
		"channel.mmd":      "graph skupper-operator --channel stable-1.7 -o mermaid -c sample",
		"default.svg":      "graph ecr-secret-operator -o svg",
		"channel.json":     "graph skupper-operator --channel stable-1.6 -o json",
	} {
		t.Run(name, func(t *testing.T) {
			checkGolden(t, "graph/"+name, w.plugin(t, strings.Fields(args)...).must(t))
		})
	}
	narrow := w.pluginWith(t, []string{"COLUMNS=40"}, "", "graph", "ecr-secret-operator").must(t)
	_, narrow, _ = strings.Cut(narrow, "\n") // the title
	for line := range strings.Lines(narrow) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 40 {
			t.Errorf("of 40 columns this line takes %d: %s", n, line)
		}
	}
	w.plugin(t, "graph").fails(t, 2, "specify a package")
	w.plugin(t, "graph", "skupper-operator", "-o", "xml").fails(t, 2, "xml", "svg")
	w.plugin(t, "graph", "skupper-operator", "--all-channels", "-o", "svg").fails(t, 2, "--channel")
	w.plugin(t, "graph", "skuper-operator").fails(t, 3, `did you mean "skupper-operator"`)
	w.plugin(t, "graph", "skupper-operator", "--channel", "stabel").fails(t, 3, `did you mean "stable"`)
	w.plugin(t, "graph", "skupper-operator", "-c", "nope").fails(t, 3, `catalog "nope" not found`)
}

// TestPluginPath prints upgrade paths.
func TestPluginPath(t *testing.T) {
	w := pluginWorld(t)
	for name, args := range map[string]string{
		"all-channels.txt":  "path skupper-operator --from 1.8.3",
		"channel.txt":       "path skupper-operator --from skupper-operator.v1.6.0 --channel stable-1.7",
		"to.txt":            "path skupper-operator --from 1.5.3 --to v1.6.0 -c sample",
		"deprecated.txt":    "path ecr-secret-operator --from 0.3.2",
		"channel.yaml":      "path skupper-operator --from 1.8.3 --channel stable-1.8 -o yaml",
		"all-channels.json": "path skupper-operator --from 1.7.0 --to 1.7.1 -o json",
	} {
		t.Run(name, func(t *testing.T) {
			checkGolden(t, "path/"+name, w.plugin(t, strings.Fields(args)...).must(t))
		})
	}
	w.plugin(t, "path", "--from", "1.0.0").fails(t, 2, "specify a package")
	w.plugin(t, "path", "skupper-operator").fails(t, 2, "--from")
	w.plugin(t, "path", "skuper-operator", "--from", "1.8.0").fails(t, 3, `did you mean "skupper-operator"`)
	w.plugin(t, "path", "skupper-operator", "--from", "1.8.0", "--channel", "stabel").fails(t, 3, `did you mean "stable"`)
	w.plugin(t, "path", "skupper-operator", "--from", "0.0.1").fails(t, 1, "no upgrade path", `"0.0.1" not found in channel "stable"`)
	if done := w.plugin(t, "path", "skupper-operator", "--from",
		"1.9.6").must(t); !strings.Contains(done, "Nothing to do: 1.9.6 is already the head") {
		t.Errorf("it says %s", done)
	}
	w.plugin(t, "path", "skupper-operator", "--from", "1.8.0", "--channel", "stable-1.6").fails(t, 1, `not found in channel "stable-1.6"`,
		"these channels have a path (see --channel): stable-1.8")
}

// TestPluginGraphs compares the plugin's graphs and paths with the files of the sample catalog.
func TestPluginGraphs(t *testing.T) {
	checkGraphs(t, pluginWorld(t), sampleCatalog, 1)
}

// TestPluginGraphsOfCommunityCatalog does the same with a catalog of real size. It checks the graphs of all
// packages but, as each path is a process, only the paths of every tenth.
func TestPluginGraphsOfCommunityCatalog(t *testing.T) {
	dir := os.Getenv("COMMUNITY_CATALOG")
	if dir == "" {
		t.Skip("COMMUNITY_CATALOG does not name the directory of a catalog")
	}
	w := newWorld(t, shared)
	ref, _ := w.registry.push(t, "community", catalogImage(t, dir))
	w.createCatalog(t, "community", ref, nil)
	if out, err := w.Kubectl(t.Context(), "wait", "--for=condition=Ready", "--timeout=5m", "catalogsource/community"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	checkGraphs(t, w, dir, 10)
}

// TestPluginEqualsService compares graphs, paths and differences of the plugin with those of the content service.
func TestPluginEqualsService(t *testing.T) {
	w := pluginWorld(t)
	small := filepath.Join("..", "internal", "serve", "testdata", "small")
	ref, digest := w.registry.push(t, "small", catalogImage(t, small))
	w.createCatalog(t, "small", ref, nil)
	w.waitReady(t, "small", digest)
	const skupper = "/catalogs/sample/api/v1/packages/skupper-operator/channels/"
	for args, path := range map[string]string{
		"graph skupper-operator -c sample --channel stable-1.6":                        skupper + "stable-1.6/graph",
		"graph ecr-secret-operator -c small":                                           "/catalogs/small/api/v1/packages/ecr-secret-operator/channels/alpha/graph",
		"path skupper-operator -c sample --channel stable --from 1.8.3":                skupper + "stable/path?from=1.8.3",
		"path skupper-operator -c sample --channel stable-1.7 --from 1.6.0 --to 1.7.1": skupper + "stable-1.7/path?from=1.6.0&to=1.7.1",
		"path skupper-operator -c sample --channel stable --from 1.9.6":                skupper + "stable/path?from=1.9.6",
		"diff small sample":                        "/api/v1/diff?from=small&to=sample",
		"diff sample small":                        "/api/v1/diff?from=sample&to=small",
		"diff ./" + small + " ./" + sampleCatalog:  "/api/v1/diff?from=small&to=sample",
		"diff small sample -p ecr-secret-operator": "/api/v1/diff?from=small&to=sample&package=ecr-secret-operator",
	} {
		plugin := comparableJSON(t, []byte(w.plugin(t, append(strings.Fields(args), "-o", "json")...).must(t)))
		if diff := cmp.Diff(plugin, comparableJSON(t, get(t, "http://"+w.content+path).body)); diff != "" {
			t.Errorf("%s (-%s +service):\n%s", path, args, diff)
		}
	}
}

// comparableJSON decodes an object without what only the plugin prints and without the names of compared catalogs. The plugin prints
// entries in the order of the catalog.
func comparableJSON(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var object map[string]any
	must.Succeed(t, json.Unmarshal(text, &object))
	for _, field := range []string{"apiVersion", "kind", "metadata", "from", "to"} {
		delete(object, field)
	}
	if len(object) == 0 {
		t.Fatalf("nothing to compare in %s", text)
	}
	if entries, ok := object["entries"].([]any); ok {
		slices.SortFunc(entries, func(a, b any) int {
			return strings.Compare(a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string))
		})
		for _, entry := range entries { // without those that are null or empty
			maps.DeleteFunc(entry.(map[string]any), func(_ string, value any) bool { list, ok := value.([]any); return value == nil || ok && len(list) == 0 })
		}
	}
	return object
}

// walkedChannel is an upgrade graph, read from the files.
type walkedChannel struct {
	Package string
	Name    string
	Entries []struct {
		Name      string
		Replaces  string
		Skips     []string
		SkipRange string
	}
	edges map[string]bool // "FROM TO KIND"
}

// checkGraphs compares the graphs of all channels, and the paths from the oldest entry of a channel to its head in
// every nth package.
func checkGraphs(t *testing.T, w *world, dir string, nth int) {
	blobs, err := readCatalog(dir)
	must.Succeed(t, err)
	channels := walkChannels(t, blobs)
	edges, paths := 0, 0
	for n, pkg := range slices.Sorted(maps.Keys(channels)) {
		var list struct {
			Items []struct {
				Name  string
				Head  struct{ Name string }
				Edges []struct {
					From, To string
					Reasons  []struct{ Kind string }
				}
			}
		}
		must.Succeed(t, json.Unmarshal([]byte(w.plugin(t, "graph", pkg, "--all-channels", "-o", "json").must(t)), &list))
		if len(list.Items) != len(channels[pkg]) {
			t.Errorf("%s has %d graphs, want %d", pkg, len(list.Items), len(channels[pkg]))
		}
		for _, graph := range list.Items {
			got := map[string]bool{}
			for _, e := range graph.Edges {
				for _, r := range e.Reasons {
					got[e.From+" "+e.To+" "+r.Kind] = true
				}
			}
			c := channels[pkg][graph.Name]
			if diff := cmp.Diff(c.edges, got); diff != "" {
				t.Errorf("%s/%s (-want +got):\n%s", pkg, graph.Name, diff)
			}
			edges += len(got)
			if n%nth == 0 {
				paths += checkPathsTo(t, w, c, graph.Head.Name)
			}
		}
	}
	t.Logf("%d edges and %d paths agree", edges, paths)
	if edges < 50 || paths < 10 {
		t.Errorf("the catalog has %d edges and %d paths only", edges, paths)
	}
}

// walkChannels reads the channels of all packages, by package and name.
func walkChannels(t *testing.T, blobs []blob) map[string]map[string]walkedChannel {
	t.Helper()
	versions := map[string]semver.Version{} // by package and bundle
	for _, b := range blobs {
		if b.Schema == "olm.bundle" {
			versions[b.Package+" "+b.Name] = semver.MustParse(bundleVersion(t, b))
		}
	}
	channels := map[string]map[string]walkedChannel{}
	for _, b := range blobs {
		if b.Schema != "olm.channel" {
			continue
		}
		c := walkedChannel{edges: map[string]bool{}}
		must.Succeed(t, json.Unmarshal(b.raw, &c))
		for _, e := range c.Entries {
			if e.Replaces != "" {
				c.edges[e.Replaces+" "+e.Name+" replaces"] = true
			}
			for _, skipped := range e.Skips {
				c.edges[skipped+" "+e.Name+" skips"] = true
			}
			if e.SkipRange == "" {
				continue
			}
			covers, err := semver.ParseRange(e.SkipRange)
			must.Succeed(t, err)
			for _, from := range c.Entries {
				if from.Name != e.Name && covers(versions[b.Package+" "+from.Name]) {
					c.edges[from.Name+" "+e.Name+" skipRange"] = true
				}
			}
		}
		if channels[b.Package] == nil {
			channels[b.Package] = map[string]walkedChannel{}
		}
		channels[b.Package][b.Name] = c
	}
	return channels
}

func bundleVersion(t *testing.T, b blob) string {
	t.Helper()
	var bundle struct {
		Properties []struct {
			Type  string
			Value json.RawMessage
		}
	}
	must.Succeed(t, json.Unmarshal(b.raw, &bundle))
	for _, p := range bundle.Properties {
		if p.Type == "olm.package" {
			var value struct{ Version string }
			must.Succeed(t, json.Unmarshal(p.Value, &value))
			return value.Version
		}
	}
	t.Fatalf("%s has no version", b.Name)
	return ""
}

// checkPathsTo requires a path from the entry farthest from the head, and none from an entry without one, if there
// is any. It returns the number of checks.
func checkPathsTo(t *testing.T, w *world, c walkedChannel, head string) (asked int) {
	t.Helper()
	distance := map[string]int{head: 0}
	for ring := []string{head}; len(ring) > 0; {
		var next []string
		for edge := range c.edges {
			ends := strings.Split(edge, " ")
			if _, seen := distance[ends[0]]; !seen && slices.Contains(ring, ends[1]) {
				distance[ends[0]] = distance[ends[1]] + 1
				next = append(next, ends[0])
			}
		}
		ring = next
	}
	farthest, lost := head, ""
	for _, e := range c.Entries {
		if d, ok := distance[e.Name]; !ok {
			lost = e.Name
		} else if d > distance[farthest] {
			farthest = e.Name
		}
	}
	if lost != "" {
		asked++
		w.plugin(t, "path", c.Package, "--channel", c.Name, "--from", lost).fails(t, 1, "no upgrade path")
	}
	if farthest == head {
		return asked
	}
	var path struct {
		Shortest []struct {
			From, To struct{ Name string }
			Reasons  []struct{ Kind string }
		}
	}
	must.Succeed(t,
		json.Unmarshal([]byte(w.plugin(t, "path", c.Package, "--channel", c.Name, "--from", farthest, "-o", "json").must(t)), &path))
	at := farthest
	for _, s := range path.Shortest {
		for _, r := range s.Reasons {
			if s.From.Name != at || !c.edges[at+" "+s.To.Name+" "+r.Kind] {
				t.Errorf("%s/%s: %s leads to %s by %s, which is no edge from %s", c.Package, c.Name, s.From.Name, s.To.Name, r.Kind, at)
			}
		}
		at = s.To.Name
	}
	if at != head || len(path.Shortest) != distance[farthest] {
		t.Errorf("%s/%s: %d steps from %s end at %s, want %d to %s", c.Package, c.Name, len(path.Shortest), farthest, at, distance[farthest],
			head)
	}
	return asked + 1
}
