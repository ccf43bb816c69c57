package serve

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/operator-catalogs/catalogd/internal/diff"
	"github.com/operator-catalogs/catalogd/internal/store"
)

const (
	diffTimeout = 10 * time.Second
	// maxCompared limits the bundles, channels, entries and deprecations of the compared packages, and with them the response.
	maxCompared = 500_000
)

// diffs serves differences between catalogs.
type diffs struct {
	*lookup
	*builder
	timeout time.Duration
}

// ofCatalog serves the differences from another version of catalog c to c.
func (s *diffs) ofCatalog(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
	values, err := parseParams(r, "from", "package")
	if err != nil {
		return err
	}
	if !values.Has("from") {
		return badRequest("the parameter from is required: a version of the catalog")
	}
	from, err := s.catalogAt(c.Name, values.Get("from"))
	if err != nil {
		return err
	}
	return s.compare(w, r, from, c, values["package"])
}

// ofAll serves the differences between two catalogs or their versions.
func (s *diffs) ofAll(w http.ResponseWriter, r *http.Request) error {
	values, err := parseParams(r, "from", "to", "package")
	if err != nil {
		return err
	}
	var catalogs [2]store.Catalog
	for i, param := range []string{"from", "to"} {
		name, version, isPinned := strings.Cut(values.Get(param), "@")
		switch {
		case name == "":
			err = badRequest("the parameter %s is required: a catalog, or a version of it as CATALOG@VERSION", param)
		case isPinned:
			catalogs[i], err = s.catalogAt(name, version)
		default:
			catalogs[i], err = s.catalog(name)
		}
		if err != nil {
			return err
		}
	}
	return s.compare(w, r, catalogs[0], catalogs[1], values["package"])
}

// compare sends the differences between two catalogs. If packages is not empty, it compares only these.
func (s *diffs) compare(w http.ResponseWriter, r *http.Request, from, to store.Catalog, packages []string) error {
	for _, c := range []store.Catalog{from, to} {
		if _, err := validated([]store.Catalog{c}); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("Cache-Control", "no-cache") // the next release may change texts
	return s.sendBuilt(w, r, "", func() ([]byte, error) {
		ctx, cancel := context.WithTimeoutCause(r.Context(), s.timeout,
			unavailable(5, "the comparison timed out after %v; compare some packages with the parameter package, or retry later", s.timeout))
		defer cancel()
		left := maxCompared
		a, err := outline(from, &left)
		if err != nil {
			return nil, err
		}
		b, err := outline(to, &left)
		if err != nil {
			return nil, err
		}
		found, err := diff.Compare(ctx, a, b, packages, 1) // one at a time, to limit memory
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, err
		}
		return marshalLine(found)
	})
}

// outline returns the packages of a validated catalog. Loading a package reduces left, so packages must not be loaded concurrently.
func outline(c store.Catalog, left *int) (diff.Catalog, error) {
	o := diff.Catalog{
		Name: c.Name + "@" + c.Snapshot.Version(), Digest: c.Snapshot.Info().Digest, Packages: map[string]diff.Package{},
	}
	invalid, err := c.Snapshot.InvalidPackages()
	if err != nil {
		return o, fmt.Errorf("reading the invalid packages of catalog %q: %w", c.Name, err)
	}
	for _, p := range invalid {
		load := func(context.Context) (*diff.Details, error) { return &diff.Details{Invalid: p.Reason}, nil }
		o.Packages[p.Name] = diff.Package{Hash: p.Hash, Load: load}
	}
	for _, p := range c.Snapshot.Packages() {
		o.Packages[p.Name] = diff.Package{Hash: p.Hash, Load: func(ctx context.Context) (*diff.Details, error) {
			d, err := readDetails(ctx, c, p.Name)
			if err != nil {
				return nil, err
			}
			*left -= len(d.Channels) + len(d.Bundles) + len(d.Deprecations)
			for _, ch := range d.Channels {
				*left -= len(ch.Entries)
			}
			if *left < 0 {
				return nil, unprocessable("comparing: the packages that differ exceed the limit of %d bundles, channels, entries and deprecations; "+
					"compare some packages with the parameter package", maxCompared)
			}
			return d, nil
		}}
	}
	return o, nil
}
