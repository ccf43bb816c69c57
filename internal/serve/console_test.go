package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// The console of OpenShift asks for a catalog at an event of its ClusterCatalog and every 10 hours. It forgets what it got 24
// hours after the last status 200; a 304 does not count.
const (
	consoleResync = 10 * time.Hour
	consoleKeeps  = 24 * time.Hour
)

// console is the client in the backend of the console, as it behaves in openshift/console, pkg/olm.
type console struct {
	url      string       // of the catalog
	client   *http.Client // asks for gzip, as Go does by itself
	now      func() time.Time
	packages []string // with a bundle that has olm.csv.metadata
	modified string   // Last-Modified of the last reply with content
	got      time.Time
	zipped   bool // the last content came as gzip
}

func newConsole(url string, now func() time.Time) *console {
	return &console{url: url, client: &http.Client{Transport: &http.Transport{}}, now: now}
}

// shown returns the packages on the page.
func (c *console) shown() []string {
	if c.now().Sub(c.got) >= consoleKeeps {
		c.packages, c.modified = nil, ""
	}
	return c.packages
}

// sync asks for the catalog. After 404 the console drops the catalog and waits for an event; after other errors it retries.
func (c *console) sync(tb testing.TB) (status int) {
	tb.Helper()
	c.shown()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, c.url+"/api/v1/all", nil)
	if err != nil {
		tb.Fatal(err)
	}
	if c.modified != "" {
		req.Header.Set("If-Modified-Since", c.modified)
		req.Header.Set("Cache-Control", "max-age=86400")
	}
	resp, err := c.client.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	switch resp.StatusCode {
	case http.StatusOK:
		c.packages, err = displayable(body)
		if err != nil {
			tb.Error(err)
		}
		c.modified, c.got, c.zipped = resp.Header.Get("Last-Modified"), c.now(), resp.Uncompressed
	case http.StatusNotFound:
		c.packages, c.modified = nil, ""
	}
	return resp.StatusCode
}

// displayable returns the packages with a bundle that has metadata of its ClusterServiceVersion.
func displayable(content []byte) (packages []string, err error) {
	for d := json.NewDecoder(bytes.NewReader(content)); ; {
		var blob struct {
			Schema, Package string
			Properties      []struct{ Type string }
		}
		if err := d.Decode(&blob); errors.Is(err, io.EOF) {
			slices.Sort(packages)
			return slices.Compact(packages), nil
		} else if err != nil {
			return nil, err
		}
		for _, p := range blob.Properties {
			if blob.Schema == fbc.SchemaBundle && p.Type == "olm.csv.metadata" {
				packages = append(packages, blob.Package)
			}
		}
	}
}

// servedAt serves a store with one catalog, unchanged since committedAt, at the time of a clock.
func servedAt(t *testing.T, now func() time.Time, awaited func(string) Awaited) (url string, st *store.Store) {
	t.Helper()
	st = openStore(t)
	cfg := testConfig(st)
	cfg.Now = now
	if awaited != nil {
		cfg.Awaited = awaited
	}
	return startServer(t, New(cfg)) + "/catalogs/v4.20", st
}

func TestConsoleGets200And304And404(t *testing.T) {
	now := committedAt.Add(time.Minute)
	clock := func() time.Time { return now }
	url, st := servedAt(t, clock, nil)
	c := newConsole(url, clock)
	commit(t, st, "v4.20", "1", os.DirFS("testdata/small"))
	for _, want := range []int{http.StatusOK, http.StatusNotModified, http.StatusNotModified} {
		if got := c.sync(t); got != want || len(c.shown()) != 4 {
			t.Errorf("got %d and packages %q, want %d and 4 packages", got, c.shown(), want)
		}
	}
	commit(t, st, "v4.20", "2", os.DirFS("testdata/small/syndesis"))
	if got := c.sync(t); got != http.StatusOK || !slices.Equal(c.shown(), []string{"syndesis"}) {
		t.Errorf("after a change: got %d and packages %q", got, c.shown())
	}
	if err := st.Remove("v4.20"); err != nil {
		t.Fatal(err)
	}
	if got := c.sync(t); got != http.StatusNotFound || c.shown() != nil {
		t.Errorf("after the removal: got %d and packages %q", got, c.shown())
	}
}

// A catalog on its way is never 404, after which the console would not ask again.
func TestConsoleRetriesWhileCatalogIsOnItsWay(t *testing.T) {
	clock := func() time.Time { return committedAt }
	awaited := Awaited{}
	url, st := servedAt(t, clock, func(string) Awaited { return awaited })
	c := newConsole(url, clock)
	for _, awaited = range []Awaited{{Unknown: true}, {Exists: true}, {Exists: true, Digest: digestOf("1")}} {
		if got := c.sync(t); got != http.StatusServiceUnavailable {
			t.Errorf("%+v: got %d, want 503", awaited, got)
		}
	}
	commit(t, st, "v4.20", "1", os.DirFS("testdata/small"))
	if got := c.sync(t); got != http.StatusOK || len(c.shown()) != 4 {
		t.Errorf("got %d and packages %q, want 200 and 4 packages", got, c.shown())
	}
}

// The console shows the packages of a catalog that does not change, for days, whenever it asked first. With a Last-Modified that
// stays, it would forget them.
func TestConsoleKeepsUnchangedCatalog(t *testing.T) {
	for _, advances := range []bool{true, false} {
		const hour = time.Hour
		for _, age := range []time.Duration{0, hour, 5 * hour, 9*hour - time.Second, 9 * hour, 16 * hour, 100*hour + 1} {
			t.Run(fmt.Sprintf("advances %t, first asked after %s", advances, age), func(t *testing.T) {
				t.Parallel()
				start := committedAt.Add(age)
				now := start
				clock := func() time.Time { return now }
				served := clock
				if !advances {
					served = func() time.Time { return committedAt }
				}
				url, st := servedAt(t, served, nil)
				commit(t, st, "v4.20", "1", os.DirFS("testdata/small"))
				c := newConsole(url, clock)
				emptyAt := []int(nil)
				for hour := range 80 {
					now = start.Add(time.Duration(hour) * time.Hour)
					if time.Duration(hour)*time.Hour%consoleResync == 0 {
						c.sync(t)
					}
					if len(c.shown()) != 4 {
						emptyAt = append(emptyAt, hour)
					}
				}
				if (len(emptyAt) == 0) != advances {
					t.Errorf("the page is empty at the hours %v", emptyAt)
				}
				if !advances && (emptyAt[0] != 24 || emptyAt[1] != 25) {
					t.Errorf("without a cure the page is empty at the hours %v, want the 24th and the 25th first", emptyAt)
				}
			})
		}
	}
}

func TestConsoleGetsGzip(t *testing.T) {
	clock := func() time.Time { return committedAt }
	url, st := servedAt(t, clock, nil)
	commit(t, st, "v4.20", "1", os.DirFS("testdata/small"))
	compress(t, st)
	c := newConsole(url, clock)
	if got := c.sync(t); got != http.StatusOK || !c.zipped || len(c.shown()) != 4 {
		t.Errorf("got %d, as gzip %t, packages %q", got, c.zipped, c.shown())
	}
	if got := c.sync(t); got != http.StatusNotModified {
		t.Errorf("again: got %d, want 304", got)
	}
}

// The console takes an icon from the only blob of /metas with schema and name.
func TestConsoleGetsOnePackage(t *testing.T) {
	url, st := servedAt(t, func() time.Time { return committedAt }, nil)
	commit(t, st, "v4.20", "1", os.DirFS("testdata/small"))
	resp, body := do(t, http.MethodGet, url+"/api/v1/metas?schema=olm.package&name=syndesis", "")
	var pkg struct{ Schema, Name string }
	if err := json.Unmarshal([]byte(body), &pkg); err != nil || resp.StatusCode != http.StatusOK ||
		pkg.Schema != fbc.SchemaPackage || pkg.Name != "syndesis" || strings.Count(body, "\n") != 1 {
		t.Errorf("got %d, error %v: %.200s", resp.StatusCode, err, body)
	}
}

// Last-Modified of current content advances; data and versions keep the time of the digest, and ETags decide.
func TestLastModifiedAdvances(t *testing.T) {
	since := committedAt.Truncate(time.Second)
	now := committedAt
	url, st := servedAt(t, func() time.Time { return now }, nil)
	commit(t, st, "v4.20", "1", os.DirFS("testdata/small"))
	views := []string{"all", "metas?schema=olm.package", "packages/syndesis", "packages/syndesis/icon"}
	var tags []string
	for _, test := range []struct{ after, want time.Duration }{
		{-time.Hour, 0}, // the clock of another replica is ahead
		{0, 0}, {8 * time.Hour, 0}, {9*time.Hour - time.Second, 0}, {9 * time.Hour, 8 * time.Hour}, {16 * time.Hour, 8 * time.Hour},
		{17*time.Hour - time.Second, 8 * time.Hour}, {17 * time.Hour, 16 * time.Hour}, {1000 * time.Hour, 992 * time.Hour},
	} {
		now = since.Add(test.after)
		var seen []string
		for _, view := range views {
			resp, _ := do(t, http.MethodGet, url+"/api/v1/"+view, "")
			if got, want := resp.Header.Get("Last-Modified"), since.Add(test.want).Format(http.TimeFormat); got != want {
				t.Errorf("%s after %s: Last-Modified is %s, want %s", view, test.after, got, want)
			}
			seen = append(seen, resp.Header.Get("ETag"))
			statusWith := func(path string, headers ...string) int {
				again, _ := do(t, http.MethodGet, url+path+view, "", headers...)
				return again.StatusCode
			}
			former := since.Add(test.want - modifiedStep).Format(http.TimeFormat)
			got := []int{
				statusWith("/api/v1/", "If-Modified-Since", resp.Header.Get("Last-Modified")),
				statusWith("/api/v1/", "If-Modified-Since", former),
				statusWith("/api/v1/", "If-Modified-Since", former, "If-None-Match", resp.Header.Get("ETag")),
				statusWith("/digests/"+digestOf("1")+"/api/v1/", "If-Modified-Since", since.Format(http.TimeFormat)),
				statusWith("/api/v1/", "Range", "bytes=1-2", "If-Range", former),
				statusWith("/api/v1/", "Range", "bytes=1-2", "If-Range", resp.Header.Get("Last-Modified")),
			}
			if diff := cmp.Diff([]int{304, 200, 304, 304, 200, 206}, got); diff != "" {
				t.Errorf("%s after %s: statuses of conditional requests (-want +got):\n%s", view, test.after, diff)
			}
		}
		if tags == nil {
			tags = seen
		}
		if diff := cmp.Diff(tags, seen); diff != "" {
			t.Errorf("ETags after %s (-want +got):\n%s", test.after, diff)
		}
		resp, _ := do(t, http.MethodGet, url+"/digests/"+digestOf("1")+"/api/v1/all", "")
		if got := resp.Header.Get("Last-Modified"); got != since.Format(http.TimeFormat) {
			t.Errorf("a version after %s: Last-Modified is %s", test.after, got)
		}
		if body := get(t, url); !strings.Contains(body, `"lastModified":"`+since.Format(time.RFC3339)+`"`) {
			t.Errorf("/catalogs/v4.20 after %s: %s", test.after, body)
		}
	}
}
