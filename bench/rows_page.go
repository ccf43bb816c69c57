package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/chromedp/chromedp"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

// The budgets of the list of packages.
const (
	leastVisits   = 10
	mostLargest   = 2.0 // by the largest paint of the bare text
	mostCold      = 180_000
	mostWarm      = 25_000
	mostIcons     = 1_100_000
	pageNotes     = "Chromium, 1280 x 800, nothing cached; processor time x%d, latency %d ms, %.1f Mb/s"
	gzipSuffix    = ".html.gz" // of a file that serveBare serves as compressed HTML
	graphqlOfIcon = `query($o: Int) { packages(first: 100, offset: $o) { totalCount nodes { iconHash catalog { name } } } }`
)

// pageList measures the list of packages in Chromium, beside its text alone.
func pageList(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      "the web page's list of packages in Chromium: First Contentful Paint on a slow machine",
		Figure:    Series{What: "/ui/", Unit: "ms"},
		Yardstick: Series{What: "its text as bare HTML, by net/http, compressed", Unit: "ms"},
	}
	row.atMost(1.5)
	browser, err := startChromium(ctx)
	if err != nil {
		return row, err
	}
	defer browser.stop()
	r, err := e.reading(ctx)
	if err != nil {
		return row, err
	}
	list := "http://" + r.content + "/ui/"
	text, err := fetch(ctx, list)
	if err != nil {
		return row, err
	}
	server, bare, err := e.startBareText(ctx, text)
	if err != nil {
		return row, err
	}
	defer server.Kill()
	var ours, bares []paints
	visit := func(address string, to *[]paints) meter {
		return func(context.Context) (float64, error) {
			p, err := browser.visit(address, true)
			*to = append(*to, p)
			return p.First, err
		}
	}
	if err := e.alternate(ctx, &row, max(e.runs, leastVisits), visit(list, &ours), visit(bare, &bares)); err != nil {
		return row, err
	}
	row.checkPaints(ours, bares)
	row.note(pageNotes, slowCPU, slowLatency, slowBytes*8/1e6)
	if err := row.checkWarm(browser, list); err != nil {
		return row, err
	}
	return row, row.checkIcons(ctx, r)
}

// checkPaints checks the largest paint and the bytes of visits.
func (r *Row) checkPaints(ours, bares []paints) {
	series := func(of []paints, unit string, value func(paints) float64) Series {
		values := make([]float64, len(of))
		for i, p := range of {
			values[i] = value(p)
		}
		return newSeries("", unit, values...)
	}
	largest := func(p paints) float64 { return p.Largest }
	ourLargest, bareLargest := series(ours, "ms", largest), series(bares, "ms", largest)
	ratio := ourLargest.Median / bareLargest.Median
	r.check(ratio <= mostLargest, "Largest Contentful Paint %s beside %s, %.2fx (limit %gx)", ourLargest, bareLargest, ratio, mostLargest)
	cold := series(ours, "kB", func(p paints) float64 { return p.bytes / 1e3 })
	bareBytes := series(bares, "kB", func(p paints) float64 { return p.bytes / 1e3 })
	r.check(cold.Median*1e3 <= mostCold, "received before scrolling: %s (limit %d kB)", cold.format(cold.Median), mostCold/1000)
	r.note("the bare text: %s received", bareBytes.format(bareBytes.Median))
}

// checkWarm checks the bytes of a page that is loaded again.
func (r *Row) checkWarm(browser *chromium, address string) error {
	t, err := browser.tab(false)
	if err != nil {
		return err
	}
	defer t.close()
	if _, err := t.load(chromedp.Navigate(address)); err != nil {
		return err
	}
	again, err := t.load(chromedp.Reload())
	r.check(again.bytes <= mostWarm, "received by a reload: %.1f kB (limit %d kB)", again.bytes/1e3, mostWarm/1000)
	return err
}

// checkIcons checks the bytes of all icons, as a browser that scrolls through all pages receives them.
func (r *Row) checkIcons(ctx context.Context, w *readerWorld) error {
	icons, packages, err := w.icons(ctx)
	if err != nil {
		return err
	}
	sum, missing := int64(0), 0
	for _, path := range icons {
		response, err := ask(ctx, http.MethodGet, "http://"+w.content+path, map[string]string{"Accept-Encoding": "gzip"})
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		switch {
		case err != nil:
			return err
		case response.StatusCode == http.StatusOK:
			sum += n
		default:
			missing++
		}
	}
	r.check(sum <= mostIcons, "all icons: %.2f MB (limit %.1f MB)", float64(sum)/1e6, mostIcons/1e6)
	r.note("%d packages have %d different icons, of which %d are no image and replaced by a letter", packages, len(icons), missing)
	return nil
}

// icons returns the paths of all icons, each once, and the number of packages.
func (r *readerWorld) icons(ctx context.Context) (paths []string, packages int, err error) {
	for offset, total := 0, 1; offset < total; {
		var reply struct {
			Data struct {
				Packages struct {
					TotalCount int
					Nodes      []struct {
						IconHash string
						Catalog  struct{ Name string }
					}
				}
			}
		}
		query := url.Values{"query": {graphqlOfIcon}, "variables": {fmt.Sprintf(`{"o":%d}`, offset)}}
		text, err := fetch(ctx, "http://"+r.content+"/api/v1/graphql?"+query.Encode())
		if err == nil {
			err = json.Unmarshal([]byte(text), &reply)
		}
		if err != nil || len(reply.Data.Packages.Nodes) == 0 {
			return nil, 0, fmt.Errorf("listing the icons: %w, %.200s", err, text)
		}
		for _, n := range reply.Data.Packages.Nodes {
			if n.IconHash != "" {
				paths = append(paths, "/ui/catalogs/"+n.Catalog.Name+"/icons/"+n.IconHash)
			}
		}
		offset, total = offset+len(reply.Data.Packages.Nodes), reply.Data.Packages.TotalCount
		packages = total
	}
	slices.Sort(paths)
	return slices.Compact(paths), packages, nil
}

// startBareText serves the text of a page without styles, scripts and images.
func (e *env) startBareText(ctx context.Context, page string) (server *process.Child, address string, err error) {
	text, err := bareText(page)
	if err != nil {
		return nil, "", err
	}
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	_, _ = zip.Write(text) // a buffer accepts everything
	_ = zip.Close()
	file := filepath.Join(e.dir, "bare"+gzipSuffix)
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		return nil, "", err
	}
	addresses, err := process.FreeAddresses(1)
	if err != nil {
		return nil, "", err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	if server, err = process.Start("net/http", filepath.Join(e.dir, "bare-text.log"), program, bareCommand, addresses[0], file); err != nil {
		return nil, "", err
	}
	if err := waitListening(ctx, server, addresses[0]); err != nil {
		server.Kill()
		return nil, "", err
	}
	return server, "http://" + addresses[0] + "/", nil
}

// bareText returns the text of an HTML page in paragraphs, with its links.
func bareText(page string) ([]byte, error) {
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return nil, fmt.Errorf("reading the page: %w", err)
	}
	var b bytes.Buffer
	b.WriteString("<!doctype html><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>bare</title>\n")
	var write func(n *html.Node)
	write = func(n *html.Node) {
		text := html.EscapeString(strings.TrimSpace(n.Data))
		switch {
		case n.Type == html.ElementNode && (n.DataAtom == atom.Head || n.DataAtom == atom.Script):
			return
		case n.Type == html.ElementNode && n.DataAtom == atom.A:
			fmt.Fprintf(&b, "<p><a href=\"%s\">%s</a>\n", html.EscapeString(hrefOf(n)), html.EscapeString(strings.TrimSpace(textOf(n))))
			return
		case n.Type == html.TextNode && text != "":
			fmt.Fprintf(&b, "<p>%s\n", text)
		}
		for child := range n.ChildNodes() {
			write(child)
		}
	}
	write(root)
	return b.Bytes(), nil
}

func hrefOf(link *html.Node) string {
	for _, attribute := range link.Attr {
		if attribute.Key == "href" {
			return attribute.Val
		}
	}
	return ""
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}
