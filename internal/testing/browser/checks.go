package browser

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/accessibility"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
)

// axe returns the source of axe-core: AXE is the directory that hack/axe/install.sh prints.
func axe(t testing.TB) string {
	t.Helper()
	source, err := readAxe()
	if err != nil {
		Lacks(t, fmt.Sprintf("reading axe-core: %v; set AXE to the directory that hack/axe/install.sh prints", err))
	}
	return source
}

var readAxe = sync.OnceValues(func() (string, error) {
	source, err := os.ReadFile(filepath.Join(os.Getenv("AXE"), "axe.min.js"))
	return string(source), err
})

// Axe returns the violations of WCAG 2.2, levels A and AA, that axe-core finds on the page.
func (t *Tab) Axe() []string {
	t.t.Helper()
	if t.off { // axe-core needs timers; the page has been read without scripts
		t.disableScripts(false)
		defer t.disableScripts(true)
	}
	world := t.isolated()
	loaded, err := eval[bool](t, world, "typeof axe !== 'undefined'")
	if err == nil && !loaded {
		_, err = eval[bool](t, world, axe(t.t)+";true")
	}
	var violations []string
	if err == nil {
		violations, err = eval[[]string](t, world, runAxe)
	}
	if err != nil {
		t.t.Fatalf("running axe-core: %v", err)
	}
	return violations
}

const runAxe = `axe.run(document, {
	runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations'], preload: false,
}).then(r => r.violations.flatMap(v => v.nodes.map(n =>
	v.id + ' (' + v.impact + '): ' + n.html.slice(0, 200) + ': ' + n.failureSummary.replace(/\s+/g, ' '))))`

// Sideways returns the elements that make the page scroll sideways.
func (t *Tab) Sideways() []string {
	t.t.Helper()
	elements, err := eval[[]string](t, t.isolated(), sideways)
	if err != nil {
		t.t.Fatal(err)
	}
	return elements
}

const sideways = `(() => {
	const page = document.scrollingElement, width = page.clientWidth
	if (page.scrollWidth <= width) return []
	const clipped = e => e && e !== page && e !== document.body &&
		(getComputedStyle(e).overflowX !== 'visible' || clipped(e.parentElement))
	const end = e => Math.max(e.getBoundingClientRect().right, e.getBoundingClientRect().left + e.scrollWidth) + scrollX
	const wide = new Set([...document.body.querySelectorAll('*')].filter(e =>
		e.getBoundingClientRect().width > 0 && end(e) > width + 1 && !clipped(e)))
	const deepest = [...wide].filter(e => ![...e.children].some(c => wide.has(c)))
	return ['the page is ' + page.scrollWidth + ' wide, the viewport ' + width].concat(deepest.slice(0, 4).map(e =>
		e.tagName.toLowerCase() + (e.id && '#' + e.id) + [...e.classList].map(c => '.' + c).join('') + ' ends at ' +
		Math.round(end(e)) + ': ' + e.textContent.trim().slice(0, 60)))
})()`

// Outline returns the accessibility tree as text, as screen readers present it: a line for each node with its role, its name in
// quotes and its properties, indented by its depth. Nodes without a meaning are left out.
func (t *Tab) Outline() string {
	t.t.Helper()
	nodes := call(t, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes
	byID := map[accessibility.NodeID]*accessibility.Node{}
	for _, n := range nodes {
		byID[n.NodeID] = n
	}
	var b strings.Builder
	if len(nodes) > 0 {
		outline(&b, byID, nodes[0], 0, "")
	}
	return b.String()
}

// SettledOutline returns Outline when it equals want, or the last one that differs: Chromium updates the tree after the page has loaded.
func (t *Tab) SettledOutline(want string) (got string) {
	t.t.Helper()
	_ = eventually.Within(t.t.Context(), patience, func() error {
		if got = t.Outline(); got != want {
			return errors.New("the outline differs")
		}
		return nil
	})
	return got
}

// unnamed are roles without a meaning of their own.
var unnamed = map[string]bool{"generic": true, "none": true, "InlineTextBox": true, "LineBreak": true}

// outline writes a node below a parent with a name. Text that only repeats the name is left out.
func outline(b *strings.Builder, byID map[accessibility.NodeID]*accessibility.Node, n *accessibility.Node, depth int, parent string) {
	role, name := text(n.Role), text(n.Name)
	switch {
	case role == "StaticText" && strings.Contains(parent, strings.TrimSpace(name)):
		return
	case n.Ignored || unnamed[role]:
		depth, name = depth-1, parent
	default:
		fmt.Fprintf(b, "%s%s", strings.Repeat("  ", depth), role)
		if name != "" {
			fmt.Fprintf(b, " %q", name)
		}
		if value := text(n.Value); value != "" {
			fmt.Fprintf(b, " = %q", value)
			name = value
		}
		for _, p := range n.Properties {
			if value := text(p.Value); told[p.Name] && value != "false" {
				fmt.Fprintf(b, " %s=%s", p.Name, value)
			}
		}
		b.WriteByte('\n')
	}
	for _, id := range n.ChildIDs {
		if child := byID[id]; child != nil && role != "StaticText" {
			outline(b, byID, child, depth+1, name)
		}
	}
}

// told are the properties that a screen reader tells.
var told = map[accessibility.PropertyName]bool{
	"level": true, "checked": true, "expanded": true, "selected": true, "pressed": true, "disabled": true, "live": true, "required": true,
	"invalid": true,
}

func text(v *accessibility.Value) string {
	if v == nil || len(v.Value) == 0 {
		return ""
	}
	var value any
	if err := json.Unmarshal(v.Value, &value); err != nil {
		return string(v.Value)
	}
	return fmt.Sprint(value)
}
