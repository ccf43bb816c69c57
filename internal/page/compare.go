package page

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Limits of the comparison of catalogs.
const (
	shownPackages = 200
	shownChanges  = 30 // channels, versions or deprecations of a package
)

// comparison is the data of compare.html.
type comparison struct {
	Root     string
	From, To side
	Catalogs []string // options of the form; empty if the reader may not list catalogs
	Problem  string   // why there is no comparison
	Compared bool
	Total    int
	Filters  []choice // by change, with counts
	Packages []packageChange
	More     int // packages that are not shown
	SwapURL  string
}

// side is a catalog or a version of it.
type side struct {
	Catalog, Version string
	Digest           string // of its image
}

func (s side) String() string {
	if s.Version == "" {
		return s.Catalog
	}
	return s.Catalog + "@" + s.Version
}

// packageChange is a package that differs.
type packageChange struct {
	Name    string
	URL     string
	Change  string // Added, Removed or Changed
	Invalid bool   // invalid in the new catalog
	Details []string
}

// difference is the response of the diff endpoints.
type difference struct {
	From     struct{ Digest string }
	To       struct{ Digest string }
	Packages []packageDifference
}

// packageDifference is a package in a difference. Changes are "added", "removed" or "changed".
type packageDifference struct {
	Name           string
	Change         string
	Unsound        bool // failed validation in the new catalog
	Note           string
	DefaultChannel *fromTo
	Channels       []struct {
		Name, Change string
		Head         fromTo
		Entries      []struct{ Name, Change string }
	}
	Bundles      []struct{ Name, Version, Change string }
	Deprecations []struct{ Kind, Name, Change, Message string }
}

// fromTo is a value on both sides; empty where it is absent.
type fromTo struct{ From, To string }

// Title implements titled.
func (c comparison) Title() string {
	if !c.Compared {
		return "Compare catalogs"
	}
	if c.From.Catalog == c.To.Catalog {
		return "Compare versions of " + shorten(80, c.To.Catalog)
	}
	return fmt.Sprintf("Compare %s with %s", shorten(80, c.From.Catalog), shorten(80, c.To.Catalog))
}

func loadComparison(r *request) (any, error) {
	c := comparison{Root: r.root, From: sideOf(r.values, "from"), To: sideOf(r.values, "to")}
	if list, err := r.api.catalogs(); err == nil {
		for _, catalog := range list.Catalogs {
			c.Catalogs = append(c.Catalogs, catalog.Name)
		}
	}
	for _, name := range []string{c.From.Catalog, c.To.Catalog} {
		if name != "" && len(c.Catalogs) > 0 && !slices.Contains(c.Catalogs, name) {
			c.Catalogs = append(c.Catalogs, name)
		}
	}
	switch {
	case c.From.Catalog == "" || c.To.Catalog == "":
		return c, nil
	case c.From == c.To:
		c.Problem = "Both sides are the same. Choose another catalog, or enter an earlier version."
		return c, nil
	}
	found, err := r.api.diff(c.From, c.To)
	if refused, ok := errors.AsType[*apiError](err); ok && slices.Contains(
		[]int{http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity}, refused.Status) {
		c.Problem = refused.Text
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	c.Compared = true
	c.From.Digest, c.To.Digest = found.From.Digest, found.To.Digest
	c.SwapURL = stateURL(url.Values{"from": {c.To.String()}, "to": {c.From.String()}})
	c.addPackages(r.values, found.Packages)
	return c, nil
}

// sideOf parses a parameter: CATALOG or CATALOG@VERSION. The form sends the version as another parameter.
func sideOf(values url.Values, name string) side {
	catalog, version, _ := strings.Cut(strings.TrimSpace(values.Get(name)), "@")
	return side{Catalog: catalog, Version: cmp.Or(version, strings.TrimSpace(values.Get(name+"-version")))}
}

// diff reads the difference of two catalogs. For versions of one catalog, it uses the endpoint of that catalog, so that readers of
// only this catalog can compare them.
func (a api) diff(from, to side) (found difference, err error) {
	if from.Catalog == to.Catalog && from.Version != "" {
		err = a.get(viewPath(to.Catalog, to.Version, "diff"), url.Values{"from": {from.Version}}, &found)
	} else {
		err = a.get(viewPath("", "", "diff"), url.Values{"from": {from.String()}, "to": {to.String()}}, &found)
	}
	return found, err
}

// addPackages adds the packages that differ and the numbers of packages by change.
func (c *comparison) addPackages(values url.Values, all []packageDifference) {
	counts := map[string]int{}
	for _, p := range all {
		counts[p.Change]++
	}
	c.Total = len(all)
	only := values.Get("change")
	for _, f := range []struct{ param, label string }{{"", "all"}, {"added", "added"}, {"changed", "changed"}, {"removed", "removed"}} {
		n := counts[f.param]
		if f.param == "" {
			n = len(all)
		}
		to := stateURL(with(values, "change", nonEmpty(f.param)))
		c.Filters = append(c.Filters, choice{fmt.Sprintf("%d %s", n, f.label), to, f.param == only})
	}
	for _, p := range all {
		switch {
		case only != "" && p.Change != only:
		case len(c.Packages) == shownPackages:
			c.More++
		default:
			c.Packages = append(c.Packages, c.packageChange(p))
		}
	}
}

// packageChange returns a package with its changes as text.
func (c *comparison) packageChange(p packageDifference) packageChange {
	at := c.To
	if p.Change == "removed" {
		at = c.From
	}
	out := packageChange{Name: p.Name, Change: capital(p.Change), Invalid: p.Unsound, URL: packageURL(c.Root, at.Catalog, at.Version, p.Name)}
	if p.Note != "" {
		out.Details = append(out.Details, p.Note)
	}
	if p.DefaultChannel != nil && p.Change == "changed" {
		out.Details = append(out.Details, "default channel: "+p.DefaultChannel.String())
	}
	out.Details = append(out.Details, channelChanges(p)...)
	out.Details = append(out.Details, bundleChanges(p)...)
	for i, d := range p.Deprecations {
		if i == shownChanges {
			out.Details = append(out.Details, fmt.Sprintf("and %s more", counted(len(p.Deprecations)-i, "deprecation")))
			break
		}
		out.Details = append(out.Details, strings.TrimSpace(fmt.Sprintf("deprecation of %s %s", d.Kind, d.Name))+": "+d.Change)
	}
	return out
}

// String returns both values as text.
func (f fromTo) String() string {
	return cmp.Or(f.From, "none") + " → " + cmp.Or(f.To, "none")
}

func channelChanges(p packageDifference) []string {
	var out []string
	for i, ch := range p.Channels {
		if i == shownChanges {
			return append(out, fmt.Sprintf("and %s more", counted(len(p.Channels)-i, "channel")))
		}
		text := fmt.Sprintf("channel %s: %s", ch.Name, ch.Change)
		switch {
		case ch.Change == "added":
			text += ", head " + cmp.Or(ch.Head.To, "unknown")
		case ch.Change == "changed" && ch.Head.From != ch.Head.To:
			text += ", head " + ch.Head.String()
		}
		if len(ch.Entries) > 0 {
			text += fmt.Sprintf(", entries changed: %d", len(ch.Entries))
		}
		out = append(out, text)
	}
	return out
}

// bundleChanges returns a line each for the added, the removed and the changed versions.
func bundleChanges(p packageDifference) []string {
	var out []string
	for _, change := range []string{"added", "removed", "changed"} {
		var versions []string
		for _, b := range p.Bundles {
			if b.Change == change {
				versions = append(versions, cmp.Or(b.Version, b.Name))
			}
		}
		more := len(versions) - shownChanges
		if len(versions) == 0 {
			continue
		}
		text := counted(len(versions), "version") + " " + change + ": " + strings.Join(versions[:min(shownChanges, len(versions))], ", ")
		if more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		out = append(out, text)
	}
	return out
}

// capital returns a word with its first letter in upper case.
func capital(word string) string {
	if word == "" {
		return ""
	}
	return strings.ToUpper(word[:1]) + word[1:]
}
