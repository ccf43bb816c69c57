package subset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// Catalog is a catalog that a filter is applied to.
type Catalog interface {
	Len() int
	Blob(i int) Blob
	JSON(i int) ([]byte, error) // compact; called for some blobs, but for no bundle
}

// Blob has the keys of a blob.
type Blob struct {
	Schema, Package, Name string
	Version               string // of a bundle, from its olm.package property
}

// Selection is the result of a filter on a catalog.
type Selection struct {
	Report

	catalog Catalog
	dropped []bool
	edits   map[int]Edit
}

// Report describes the result of a filter on a catalog.
type Report struct {
	LeftOut    Counts      `json:"leftOut"`
	Unmatched  []Unmatched `json:"unmatched,omitempty"`  // in the order of the rules
	Unreadable []Problem   `json:"unreadable,omitempty"` // packages that stay whole, as they cannot be read. They are invalid
}

// Counts are numbers of blobs: of packages, channels and bundles, and of all schemas.
type Counts struct {
	Packages int `json:"packages"`
	Channels int `json:"channels"`
	Bundles  int `json:"bundles"`
	Blobs    int `json:"blobs"`
}

// Unmatched is a part of a rule that matches nothing in the catalog: a package, a channel of it, or versions of one of these.
type Unmatched struct {
	Package  string `json:"package"`
	Channel  string `json:"channel,omitempty"`
	Versions string `json:"versions,omitempty"`
}

func (u Unmatched) String() string {
	out := fmt.Sprintf("package %q", u.Package)
	if u.Channel != "" {
		out = fmt.Sprintf("channel %q of %s", u.Channel, out)
	}
	if u.Versions != "" {
		out = fmt.Sprintf("versions %s of %s", u.Versions, out)
	}
	return out
}

// Problem is the reason why a package cannot be filtered.
type Problem struct {
	Package string `json:"package"`
	Reason  string `json:"reason"`
}

// Error is a filter that cannot be applied to a catalog. The same filter and catalog always cause the same error.
type Error struct {
	Package string   // empty: the whole filter
	Kept    []string // the channels of which one must become the default channel; empty: this is not about the default channel
	Reason  string

	Unmatched []Unmatched // if the filter leaves nothing
}

func (e *Error) Error() string {
	if e.Package == "" {
		return e.Reason
	}
	return fmt.Sprintf("package %q: %s", e.Package, e.Reason)
}

// Select applies the filter to a catalog. An error is an *Error, unless the catalog caused it.
func (f Filter) Select(c Catalog) (*Selection, error) {
	if err := f.Validate(); err != nil {
		return nil, &Error{Reason: "invalid filter: " + err.Error()}
	}
	s := &Selection{catalog: c, dropped: make([]bool, c.Len()), edits: map[int]Edit{}}
	plans := f.plans()
	packages, kept := map[string]bool{}, false
	for i := range s.dropped {
		b := c.Blob(i)
		name, _ := fbc.PackageOf(b.Schema, b.Package, b.Name)
		p := plans[name]
		switch {
		case name == "":
			s.dropped[i] = len(f.Include) > 0
			continue
		case p != nil:
			p.blobs = append(p.blobs, i)
			s.dropped[i] = p.whole == nothing
		default:
			s.dropped[i] = len(f.Include) > 0
		}
		packages[name] = true
		kept = kept || p == nil && !s.dropped[i]
	}
	if err := s.run(f, plans); err != nil {
		return nil, err
	}
	for _, p := range plans {
		kept = kept || slices.ContainsFunc(p.blobs, s.Keeps)
	}
	s.count()
	if !kept && (len(packages) > 0 || len(f.Include) > 0) {
		return nil, s.empty(f)
	}
	return s, nil
}

// run executes the plans of packages in the order of the rules.
func (s *Selection) run(f Filter, plans map[string]*plan) error {
	var names []string
	for _, r := range f.Include {
		names = append(names, r.Package)
	}
	for _, r := range f.Exclude {
		names = append(names, r.Package)
	}
	done := map[string]bool{}
	for _, name := range names {
		if done[name] {
			continue
		}
		done[name] = true
		p := plans[name]
		if len(p.blobs) == 0 {
			s.Unmatched = append(s.Unmatched, Unmatched{Package: name})
			continue
		}
		if err := p.run(s); err != nil {
			return err
		}
	}
	return nil
}

func (s *Selection) count() {
	for i, dropped := range s.dropped {
		if !dropped {
			continue
		}
		s.LeftOut.Blobs++
		switch s.catalog.Blob(i).Schema {
		case fbc.SchemaPackage:
			s.LeftOut.Packages++
		case fbc.SchemaChannel:
			s.LeftOut.Channels++
		case fbc.SchemaBundle:
			s.LeftOut.Bundles++
		}
	}
}

func (s *Selection) empty(f Filter) error {
	reason := "the filter leaves no package of the catalog"
	if len(s.Unmatched) > 0 {
		reason += "; not found: " + List(s.Unmatched)
	} else if len(f.Exclude) > 0 {
		reason += ": its exclude rules remove all of them"
	}
	return &Error{Reason: reason, Unmatched: s.Unmatched}
}

// List joins parts of rules for a message, the first few of them.
func List(unmatched []Unmatched) string {
	const most = 5
	var names []string
	for _, u := range unmatched[:min(most, len(unmatched))] {
		names = append(names, u.String())
	}
	text := strings.Join(names, ", ")
	if more := len(unmatched) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Keeps reports whether a blob stays.
func (s *Selection) Keeps(i int) bool { return !s.dropped[i] }

// Edit returns the change of a blob that stays; false: it has none.
func (s *Selection) Edit(i int) (Edit, bool) {
	e, ok := s.edits[i]
	return e, ok
}

// Apply returns a blob as it stays: unchanged, or a changed copy. The blob is compact JSON.
func (s *Selection) Apply(i int, compact []byte) ([]byte, error) {
	e, ok := s.edits[i]
	if !ok {
		return compact, nil
	}
	edited, err := e.Apply(compact)
	if err != nil {
		b := s.catalog.Blob(i)
		name, _ := fbc.PackageOf(b.Schema, b.Package, b.Name)
		return nil, &Error{Package: name, Reason: fmt.Sprintf("%s %q cannot be filtered: %s; select the whole package, or leave it out",
			b.Schema, b.Name, err)}
	}
	return edited, nil
}

// Apply returns the blobs of a catalog that the filter leaves.
func (f Filter) Apply(blobs []scan.Blob) ([]scan.Blob, Report, error) {
	s, err := f.Select(inMemory(blobs))
	if err != nil {
		return nil, Report{}, err
	}
	var kept []scan.Blob
	for i, b := range blobs {
		if !s.Keeps(i) {
			continue
		}
		if _, edited := s.Edit(i); edited {
			text, err := s.Apply(i, b.JSON)
			if err == nil {
				b, err = scan.ParseBlob(text)
			}
			if err != nil {
				return nil, Report{}, err
			}
		}
		kept = append(kept, b)
	}
	return kept, s.Report, nil
}

// inMemory is a catalog in memory.
type inMemory []scan.Blob

func (c inMemory) Len() int                   { return len(c) }
func (c inMemory) JSON(i int) ([]byte, error) { return c[i].JSON, nil }

func (c inMemory) Blob(i int) Blob { return BlobOf(c[i]) }

// BlobOf returns the keys of a blob.
func BlobOf(b scan.Blob) Blob {
	return Blob{Schema: b.Schema, Package: b.Package, Name: b.Name, Version: fbc.FactsOf(b).Version}
}

// plans returns a plan for each package that the filter names.
func (f Filter) plans() map[string]*plan {
	plans := map[string]*plan{}
	of := func(name string) *plan {
		if plans[name] == nil {
			plans[name] = &plan{name: name, without: map[string]bool{}}
		}
		return plans[name]
	}
	for _, r := range f.Include {
		p := of(r.Package)
		p.include = append(p.include, r)
		p.defaultChannel = cmp.Or(p.defaultChannel, r.DefaultChannel)
	}
	for _, r := range f.Exclude {
		p := of(r.Package)
		p.defaultChannel = cmp.Or(p.defaultChannel, r.DefaultChannel)
		p.excluded = p.excluded || len(r.Channels) == 0
		for _, name := range r.Channels {
			p.without[name] = true
		}
	}
	for _, p := range plans {
		switch {
		case p.excluded || len(f.Include) > 0 && len(p.include) == 0:
			p.whole = nothing
		case len(p.without) == 0 && p.defaultChannel == "" && slices.ContainsFunc(p.include, Include.IsWhole):
			p.whole = everything
		}
	}
	return plans
}

// IsWhole reports whether a rule selects all of a package.
func (r Include) IsWhole() bool {
	return len(r.Channels) == 0 && r.MinVersion == "" && r.MaxVersion == "" && !r.OnlyHeads
}
