package draw

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/channel/channeltest"
	"github.com/operator-catalogs/catalogd/internal/textwidth"
)

var update = flag.Bool("update", false, "update the golden files")

// graphs are the channels of the golden files.
var graphs = map[string]channel.Channel{
	"linear": inCatalog("sample", "1.0.0", "1.1.0 replaces 1.0.0 deprecated gone", "1.2.0 replaces 1.1.0"),
	"skips": channeltest.Parse("1.0.0 replaces 0.9.0", "1.0.1 replaces 1.0.0", "1.1.0 replaces 1.0.0 skips 1.0.1", "1.1.1 replaces 1.1.0",
		"1.1.2 replaces 1.1.0 skips 1.1.1",
		"1.2.0 replaces 1.1.0 skips 1.1.1,1.1.2,1.1.5"),
	"ranges": channeltest.Parse("1.0.0", "1.1.0 replaces 1.0.0 range >=1.0.0 <1.1.0", "1.2.0 replaces 1.1.0 range >=1.0.0 <1.2.0",
		"2.0.0 replaces 1.2.0 range >=1.1.0 <2.0.0"),
	"islands": channeltest.Parse("1.0.0", "2.0.0 range <2.0.0", "3.0.0 replaces 2.9.0 range >=2.0.0 <3.0.0", "nightly",
		"3.1.0 replaces 3.0.0 skips nightly,2.0.0"),
	"hostile": {Package: `<b>&"\`, Name: "s\x1b[31mtable\n", Entries: []channel.Entry{
		{Name: "a\"];\n</title><script>alert(1)</script>", Version: "1.0.0", Deprecation: &channel.Deprecation{Message: "]]> \u202e --> </style>"}},
		{Name: "漢字`\\", Replaces: "a\"];\n</title><script>alert(1)</script>", Skips: []string{"x\x00\xff"}, SkipRange: `<"1" |#quot;|`},
	}},
	"empty": {Package: "foo", Name: "stable"},
}

func inCatalog(name string, versions ...string) channel.Channel {
	c := channeltest.Parse(versions...)
	c.Catalog = name
	return c
}

// renderers are the formats, by the extension of their golden files.
var renderers = map[string]func(*channel.Graph, io.Writer) error{
	"txt":       func(g *channel.Graph, w io.Writer) error { return Text(w, g, TextOptions{}) },
	"ascii.txt": func(g *channel.Graph, w io.Writer) error { return Text(w, g, TextOptions{Width: 40, ASCII: true}) },
	"svg":       func(g *channel.Graph, w io.Writer) error { return SVG(w, g) },
	"dot":       func(g *channel.Graph, w io.Writer) error { return DOT(w, g) },
	"mmd":       func(g *channel.Graph, w io.Writer) error { return Mermaid(w, g) },
}

func TestRenderers(t *testing.T) {
	for name, c := range graphs {
		for kind, render := range renderers {
			t.Run(name+"."+kind, func(t *testing.T) {
				var got bytes.Buffer
				if err := render(channel.New(c), &got); err != nil {
					t.Fatal(err)
				}
				golden := filepath.Join("testdata", name+"."+kind)
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
					t.Errorf("%s differs (-want +got); run with -update:\n%s", golden, diff)
				}
			})
		}
	}
}

// checkRendered checks the drawings of any channel, valid or not.
func checkRendered(t *testing.T, g *channel.Graph) {
	t.Helper()
	for kind, render := range renderers {
		var got bytes.Buffer
		if err := render(g, &got); err != nil {
			t.Fatal(err)
		}
		for _, r := range got.String() {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%s has the character %U", kind, r)
			}
		}
		switch kind {
		case "svg":
			checkSVG(t, got.Bytes())
		case "dot":
			checkLines(t, got.String(), dotLine)
		case "mmd":
			checkLines(t, got.String(), mermaidLine)
		case "ascii.txt":
			for line := range strings.Lines(got.String()) {
				if w := textwidth.Of(strings.TrimSuffix(line, "\n")); w > 40 {
					t.Fatalf("a line takes %d columns: %q", w, line)
				}
			}
		}
	}
}

// checkSVG checks that a drawing is XML with known elements and attributes only: content of a catalog occurs only as text.
func checkSVG(t *testing.T, picture []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(picture))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("the picture is no XML: %v\n%s", err, picture)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if !strings.Contains(" svg title style rect text path g circle ", " "+e.Name.Local+" ") {
			t.Fatalf("the picture has an element %s", e.Name.Local)
		}
		for _, a := range e.Attr {
			if !svgValue.MatchString(a.Value) && a.Name.Local != "xmlns" {
				t.Fatalf("the picture has an attribute %s=%q", a.Name.Local, a.Value)
			}
		}
	}
}

const quoted = `"(\\.|[^"\\])*"`

var (
	svgValue = regexp.MustCompile(`^[A-Za-z0-9 .%-]*$`)
	dotLine  = regexp.MustCompile(
		fmt.Sprintf(`^(digraph %[1]s \{|}|  (rankdir=BT|node \[[^<]*\]|edge \[[^<]*\]|%[1]s( -> %[1]s)? \[label=%[1]s[a-z0-9=,:", ]*\]);)$`,
			quoted))
	mermaidLine = regexp.MustCompile("^(flowchart BT|  style b0 stroke-width:3px|  b[0-9]+\\[\"[^\"<>`\\\\]*\"\\]|  " +
		"o[0-9]+\\(\\[\"[^\"<>`\\\\]*\"\\]\\)|  [bo][0-9]+ -\\.?->\\|\"[^\"<>`\\\\]*\"\\| b[0-9]+)$")
)

func checkLines(t *testing.T, text string, line *regexp.Regexp) {
	t.Helper()
	for l := range strings.Lines(text) {
		if l = strings.TrimSuffix(l, "\n"); !line.MatchString(l) {
			t.Fatalf("a line is not of the language: %q", l)
		}
	}
}

func TestRenderersEscape(t *testing.T) {
	for name, c := range graphs {
		t.Run(name, func(t *testing.T) { checkRendered(t, channel.New(c)) })
	}
}

// TestTextPaint checks that colors do not change the layout.
func TestTextPaint(t *testing.T) {
	g := channel.New(graphs["skips"])
	var plain, painted strings.Builder
	paint := func(r Role, text string) string { return "{" + string(r) + "}" + text + "{}" }
	if err := Text(&plain, g, TextOptions{Width: 44}); err != nil {
		t.Fatal(err)
	}
	if err := Text(&painted, g, TextOptions{Width: 44, Paint: paint}); err != nil {
		t.Fatal(err)
	}
	if got := regexp.MustCompile(`\{[a-z]*\}`).ReplaceAllString(painted.String(), ""); got != plain.String() {
		t.Errorf("painted, the text is\n%s, want\n%s", got, plain.String())
	}
	if !strings.Contains(painted.String(), "{head}head{}") {
		t.Errorf("nothing is painted as head:\n%s", painted.String())
	}
}

// TestMermaidIsBounded checks that a diagram stays within Mermaid's limit of edges and shows what it omits.
func TestMermaidIsBounded(t *testing.T) {
	var ranges, skips []string
	for i := range 60 {
		ranges = append(ranges, fmt.Sprintf("1.%d.0 replaces 1.%d.0 range <1.%d.0", i, i-1, i))
		var below []string
		for j := range i {
			below = append(below, fmt.Sprintf("1.%d.0", j))
		}
		skips = append(skips, fmt.Sprintf("1.%d.0 replaces 1.%d.0 skips %s", i, i-1, strings.Join(below, ",")))
	}
	for text, c := range map[string]channel.Channel{
		"1.59.0 (head), from #lt;1.59.0":                       channeltest.Parse(ranges...),
		"1.59.0 (head), skips 1.0.0, 1.1.0, 1.2.0 and 56 more": channeltest.Parse(skips...),
	} {
		var b strings.Builder
		if err := Mermaid(&b, channel.New(c)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(b.String(), "->"); got != 60 || !strings.Contains(b.String(), text) {
			t.Errorf("got %d edges, want the 60 of replaces, and %q", got, text)
		}
	}
}

// FuzzDraw draws any channel, with one entry per line of a text.
func FuzzDraw(f *testing.F) {
	f.Add("1.0.0\n1.1.0 replaces 1.0.0 skips 1.0.1 range <1.1.0\n1.0.1 deprecated yes", "foo")
	f.Add("1.0.0 replaces 1.1.0\n1.1.0 replaces 1.0.0\n<\"&]]>\nx skips <\"&]]>", `<"&]]>`)
	f.Add("\x1b\u202e\xff漢 range 漢\n9 replaces 1.3.0", "\x1b\u202e\n\xff漢")
	f.Fuzz(func(t *testing.T, entries, name string) {
		c := channeltest.Parse(strings.Split(entries, "\n")...)
		c.Package, c.Name = name, name
		checkRendered(t, channel.New(c))
	})
}

// TestDrawRandomGraphs draws larger channels, most of them invalid.
func TestDrawRandomGraphs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) // the same graphs each time
	for range 150 {
		version := func() string { return fmt.Sprintf("1.%d.0", random.IntN(24)) }
		var entries []string
		for i := range random.IntN(30) {
			entry := fmt.Sprintf("1.%d.0", i)
			if random.IntN(5) > 0 {
				entry += " replaces " + version()
			}
			for range random.IntN(4) {
				entry += " skips " + version()
			}
			if random.IntN(4) == 0 {
				entry += fmt.Sprintf(" range >=%s <%s", version(), version())
			}
			entries = append(entries, entry)
		}
		checkRendered(t, channel.New(channeltest.Parse(entries...)))
	}
}

// The lanes that pass rows do not take memory that is quadratic in the number of entries.
func TestLanesAreBounded(t *testing.T) {
	const n = 4000
	c := channel.Channel{Package: "foo", Name: "stable"}
	for i := range n {
		e := channel.Entry{Name: fmt.Sprintf("foo.v1.%d.0", i), Version: fmt.Sprintf("1.%d.0", i)}
		if i >= n/2 {
			e.Replaces = fmt.Sprintf("foo.v1.%d.0", n-1-i)
		}
		c.Entries = append(c.Entries, e)
	}
	rows, lanes := Lanes(channel.New(c))
	through := 0
	for _, row := range rows {
		through += len(row.Through)
	}
	if lanes != n/2 || through > 1_000_000 {
		t.Errorf("%d lanes pass %d rows", lanes, through)
	}
}
