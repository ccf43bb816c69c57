package page

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/channel/channeltest"
)

// newFoo returns a catalog with package foo: channel stable has branches, skips and a range, channel old one version.
func newFoo(tb testing.TB) content {
	tb.Helper()
	stable := channeltest.Parse("1.0.0", "1.0.1 replaces 1.0.0 deprecated broken", "1.1.0 replaces 1.0.0 skips 1.0.1", "1.2.0 replaces 1.1.0",
		"1.3.0 replaces 1.1.0 skips 1.2.0", "2.0.0 replaces 1.3.0 range >=1.2.0 <2.0.0")
	old := channeltest.Parse("0.9.0")
	old.Name = "old"
	c := newContent(tb)
	c.commit(tb, "a", "1", packageFile(tb, nil, stable, old))
	return c
}

// graphRows returns the rows of the table of versions.
func graphRows(d document) []document {
	return d.all("table", "graph")[0].all("tbody", "")[0].all("tr", "")
}

func TestChannelListsVersionsNewestFirst(t *testing.T) {
	page := newFoo(t).open(t, "/catalogs/a/packages/foo/channels/stable")
	var got []string
	for _, row := range graphRows(page) {
		got = append(got, row.text())
	}
	want := []string{
		"2.0.0 head foo.v2.0.0 replaces 1.3.0 skipRange >=1.2.0 <2.0.0 From 2.0.0 To 2.0.0",
		"1.3.0 foo.v1.3.0 replaces 1.1.0 skips 1.2.0 From 1.3.0 To 1.3.0",
		"1.2.0 foo.v1.2.0 replaces 1.1.0 From 1.2.0 To 1.2.0",
		"1.1.0 foo.v1.1.0 replaces 1.0.0 skips 1.0.1 From 1.1.0 To 1.1.0",
		"1.0.1 foo.v1.0.1 replaces 1.0.0 Deprecated broken From 1.0.1 To 1.0.1",
		"1.0.0 foo.v1.0.0 no other version From 1.0.0 To 1.0.0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if title := page.all("h1", "")[0].text(); title != "Channel stable of foo" {
		t.Errorf("title %q", title)
	}
	var over [][]int
	if err := json.Unmarshal([]byte(page.all("script", "")[1].text()), &over); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]int{{1, 2}, {3, 2}, {3}, {5, 4}, {5}, {}}, over); diff != "" {
		t.Errorf("rows that can upgrade to each row (-want +got):\n%s", diff)
	}
	for url, status := range map[string]int{
		"/catalogs/a/packages/foo/channels/none": 404, "/catalogs/a/packages/bar/channels/stable": 404, "/catalogs/b/packages/foo/channels/stable": 404,
	} {
		if got, _ := newFoo(t).get(t, url); got != status {
			t.Errorf("GET %s: status %d, want %d", url, got, status)
		}
	}
}

func TestChannelShowsPath(t *testing.T) {
	c := newFoo(t)
	for name, test := range map[string]struct {
		query  string
		result []string // parts of the result
		marks  []string // of the rows
	}{
		"to the head": {
			"from=1.0.0", []string{"OLM takes 3 steps", "1.0.0 →to 1.1.0 1.1.0 replaces 1.0.0", "1.3.0 →to 2.0.0"},
			[]string{"2.0.0 step 3", "1.3.0 step 2", "1.1.0 step 1", "1.0.0 start"},
		},
		"to a version": {"from=1.0.0&to=1.1.0", []string{"OLM takes 1 step"}, []string{"1.1.0 step 1", "1.0.0 start"}},
		"by names":     {"from=foo.v1.1.0&to=foo.v1.3.0", []string{"OLM takes 1 step"}, []string{"1.3.0 step 1", "1.1.0 start"}},
		"from a version that is skipped": {
			"from=1.2.0", []string{"OLM takes 1 step", `the skipRange of 2.0.0, ">=1.2.0 <2.0.0", covers 1.2.0`, "Other paths: 1."},
			[]string{"2.0.0 step 1", "1.2.0 start"},
		},
		"from outside of the channel": {"from=1.2.5", []string{"OLM takes 1 step", "1.2.5 →to 2.0.0"}, []string{"2.0.0 step 1"}},
		"to a version that OLM passes": {
			"from=1.0.0&to=1.2.0", []string{"OLM v0", "The shortest path takes 2 steps"}, []string{"1.2.0 step 2", "1.1.0 step 1", "1.0.0 start"},
		},
		"nothing to do": {"from=2.0.0", []string{"Nothing to do: 2.0.0 is already the head"}, nil},
		"newer":         {"from=v3.0.0", []string{"No upgrade path: The installed version is newer than the head of this channel, 2.0.0.", "Details: \"v3.0.0\" not found"}, nil},
		"older":         {"from=foo.v0.1.0", []string{"The installed version is older than all versions of this channel. The oldest is 1.0.0."}, nil},
		"downward":      {"from=2.0.0&to=1.0.0", []string{"No upgrade path: 2.0.0 is newer than 1.0.0", "No other channel has a path from this version"}, nil},
		"unknown":       {"from=7.0.0", []string{`Details: "7.0.0" not found in channel "stable"`}, nil},
		"unknown to":    {"from=1.0.0&to=9", []string{`has no entry with name or version "9"`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			page := c.open(t, "/catalogs/a/packages/foo/channels/stable?"+test.query)
			result := page.all("section", "")[0].text()
			for _, part := range test.result {
				if !strings.Contains(result, part) {
					t.Errorf("the result lacks %q:\n%s", part, result)
				}
			}
			var marks []string
			for _, row := range graphRows(page) {
				for _, mark := range row.all("span", "on") {
					marks = append(marks, row.all("a", "")[0].text()+" "+mark.text())
				}
			}
			if diff := cmp.Diff(test.marks, marks); diff != "" {
				t.Errorf("marked rows (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChannelLinksChooseBothEnds(t *testing.T) {
	page := newFoo(t).open(t, "/catalogs/a/packages/foo/channels/stable?from=1.0.0&to=1.3.0")
	ends := graphRows(page)[3].all("td", "ends")[0].all("a", "")
	if from, to := ends[0].attribute("href"), ends[1].attribute("href"); from != "?from=1.1.0&to=1.3.0#path" || to != "?from=1.0.0&to=1.1.0#path" {
		t.Errorf("the links are %q and %q", from, to)
	}
	if input := page.all("form", "inline-form")[0].all("input", "")[0]; input.attribute("value") != "1.0.0" {
		t.Errorf("the field from has %q", input.attribute("value"))
	}
	var selected []string
	for _, option := range page.all("select", "")[0].all("option", "") {
		for _, a := range option.Attr {
			if a.Key == "selected" {
				selected = append(selected, option.attribute("value"))
			}
		}
	}
	if diff := cmp.Diff([]string{"1.3.0"}, selected); diff != "" {
		t.Errorf("selected targets (-want +got):\n%s", diff)
	}
	pinned := page.all("link", "")[4].attribute("href")
	if want := "/digests/" + digestOf("1") + "/packages/foo/channels/stable?from=1.0.0&to=1.3.0"; !strings.HasSuffix(pinned, want) {
		t.Errorf("the pinned URL %q does not end with %q", pinned, want)
	}
	newFoo(t).open(t, "/catalogs/a"+pinned[strings.Index(pinned, "/digests"):])
}

// TestGutterIsConnected checks that each line at the bottom of a row continues at the top of the next row, and the reverse.
func TestGutterIsConnected(t *testing.T) {
	page := newFoo(t).open(t, "/catalogs/a/packages/foo/channels/stable?from=1.0.0")
	below := map[string]bool{}
	for i, row := range graphRows(page) {
		tops, bottoms := map[string]bool{}, map[string]bool{}
		for _, line := range row.all("line", "") {
			if y := line.attribute("y1"); y == "0%" {
				tops[line.attribute("x1")] = true
			}
			if y := line.attribute("y2"); y == "100%" {
				bottoms[line.attribute("x2")] = true
			}
		}
		if diff := cmp.Diff(below, tops); diff != "" {
			t.Errorf("row %d: lines from above (-bottom of the row above +top):\n%s", i, diff)
		}
		if len(row.all("circle", "")) == 0 {
			t.Errorf("row %d has no node", i)
		}
		below = bottoms
	}
	if len(below) > 0 {
		t.Errorf("lines leave the last row at %v", below)
	}
}

// manyVersions returns a channel in which each version replaces the one before, and has a skipRange if ranges is true.
func manyVersions(n int, ranges bool) channel.Channel {
	c := channel.Channel{Package: "foo", Name: "stable"}
	for i := range n {
		e := channel.Entry{Name: "some-operator.v1." + strconv.Itoa(i) + ".0", Version: fmt.Sprintf("1.%d.0", i)}
		if i > 0 {
			e.Replaces = c.Entries[i-1].Name
		}
		if ranges {
			e.SkipRange = ">=1.0.0 <" + e.Version
		}
		c.Entries = append(c.Entries, e)
	}
	return c
}

func TestLargeChannelsStaySmall(t *testing.T) {
	for _, test := range []struct {
		n              int
		ranges         bool
		highlight, fit bool
	}{{1000, false, true, true}, {1000, true, false, true}, {2000, true, false, false}} {
		c := newContent(t)
		c.commit(t, "a", "1", packageFile(t, nil, manyVersions(test.n, test.ranges)))
		status, body := c.get(t, "/catalogs/a/packages/foo/channels/stable?from=1.0.0")
		var compressed bytes.Buffer
		w := gzip.NewWriter(&compressed)
		if _, err := w.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if status != http.StatusOK || compressed.Len() > 150_000 {
			t.Errorf("%+v: status %d, %d bytes compressed, want at most 150,000", test, status, compressed.Len())
		}
		if got := strings.Contains(body, "graph.js"); got != test.highlight {
			t.Errorf("%+v: neighbors are marked: %t", test, got)
		}
		if got := strings.Contains(body, "OLM takes"); got != test.fit {
			t.Errorf("%+v: the path is shown: %t", test, got)
		}
	}
}

// hostile is a text that becomes markup where it is not escaped.
const hostile = `"'><script>alert(1)</script><img src=x onerror=alert(1)></td></table><style>*{display:none}</style>{{.}}javascript:alert(1)`

// checkInert checks that a page has only the markup of its templates.
func checkInert(t *testing.T, page document) {
	t.Helper()
	for n := range page.Descendants() {
		e := document{n}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
				t.Errorf("<%s> has the attribute %s=%q", n.Data, a.Key, a.Val)
			}
		}
		switch n.Data {
		case "script":
			if e.attribute("src") == "" && e.attribute("type") != "application/json" {
				t.Errorf("inline script: %s", e.text())
			}
		case "style", "iframe", "object", "base":
			t.Errorf("element <%s>", n.Data)
		case "a", "link", "img":
			for _, u := range []string{e.attribute("href"), e.attribute("src")} {
				if u != "" && !strings.HasPrefix(u, "../") && !strings.HasPrefix(u, "./") && !strings.HasPrefix(u, "?") && !strings.HasPrefix(u, "#") {
					t.Errorf("<%s> leads to %q", n.Data, u)
				}
			}
		}
	}
}

func TestHostileChannelIsText(t *testing.T) {
	stable := channeltest.Parse("1.0.0", "1.1.0 replaces 1.0.0 range >=1.0.0 <1.1.0")
	stable.Name = hostile
	stable.Entries[0].Name = hostile
	stable.Entries[0].Deprecation = &channel.Deprecation{Message: hostile + "\u202e"}
	stable.Entries[1].Replaces = hostile
	stable.Entries[1].Skips = []string{hostile + "2"}
	view := channelPage{At: place{"../", hostile, hostile, hostile}, Channel: hostile, From: hostile, To: hostile}
	view.Package.DisplayName, view.Catalog.Name, view.Deprecation = hostile, hostile, &deprecation{hostile}
	view.Others = []choice{{hostile, view.At.ChannelURL(hostile), false}}
	view.addGraph(channel.New(stable))
	page := renderView(t, "channel.html", view)
	checkInert(t, page)
	if text := page.all("tbody", "")[0].text(); strings.Count(text, "<script>alert(1)</script>") < 3 {
		t.Errorf("the rows lack the hostile texts:\n%s", text)
	}
}

func TestChannelMarksDowngrades(t *testing.T) {
	c := newContent(t)
	c.commit(t, "a", "1", packageFile(t, nil, channeltest.Parse("1.9.5", "1.5.3 replaces 1.9.5", "1.6.0 replaces 1.5.3")))
	var got []string
	for _, row := range graphRows(c.open(t, "/catalogs/a/packages/foo/channels/stable")) {
		got = append(got, row.text())
	}
	want := []string{
		"1.6.0 head foo.v1.6.0 replaces 1.5.3 From 1.6.0 To 1.6.0",
		"1.5.3 foo.v1.5.3 replaces 1.9.5, which is a downgrade From 1.5.3 To 1.5.3",
		"1.9.5 foo.v1.9.5 no other version From 1.9.5 To 1.9.5",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestBlockedPathNamesOpenChannels(t *testing.T) {
	stable, other, old := channeltest.Parse("1.0.0"), channeltest.Parse("0.9.0", "1.1.0 replaces 0.9.0"), channeltest.Parse("0.1.0")
	other.Name, old.Name = "other", "old"
	c := newContent(t)
	c.commit(t, "a", "1", packageFile(t, nil, stable, other, old))
	const want = "Channels with a path from this version: other"
	text := c.open(t, "/catalogs/a/packages/foo/channels/stable?from=0.9.0").text()
	if !strings.Contains(text, want) || strings.Contains(text, want+" old") {
		t.Errorf("the page lacks %q:\n%s", want, text)
	}
}
