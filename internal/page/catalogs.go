package page

import (
	"cmp"
	"net/url"
	"slices"
)

// The health of a catalog. The values are also CSS classes.
const (
	good    = "good"
	pending = "wait"
	bad     = "bad"
)

// ready returns the condition Ready, which summarizes the others. It is the zero value if it is unknown.
func (c catalog) ready() condition {
	for _, condition := range c.Conditions {
		if condition.Type == "Ready" {
			return condition
		}
	}
	return condition{}
}

// IsServed reports whether the catalog has content.
func (c catalog) IsServed() bool { return c.Digest != "" }

// Health returns the health of a catalog by its condition Ready. Without conditions, a served catalog is healthy.
func (c catalog) Health() string {
	ready := c.ready()
	switch {
	case ready.Status == "True", ready.Status == "" && c.IsServed():
		return good
	case ready.Reason == "Unpacking", ready.Status != "False":
		return pending
	}
	return bad
}

// Valid returns the number of valid packages.
func (c catalog) Valid() int { return max(0, c.Packages-c.InvalidPackages) }

// Mark returns the class of the catalog's mark: its health, or a warning for invalid packages.
func (c catalog) Mark() string {
	if c.Health() == good && c.InvalidPackages > 0 {
		return pending
	}
	return c.Health()
}

// State returns the state of a catalog in words.
func (c catalog) State() string {
	ready := c.ready()
	switch {
	case ready.Status == "True" && ready.Reason == "Suspended":
		return "Served, not polled (suspended)"
	case c.Health() == good && c.InvalidPackages > 0:
		return "Served without " + counted(c.InvalidPackages, "invalid package")
	case c.Health() == good:
		return "Ready"
	case ready.Reason == "UserSpecifiedUnavailable":
		return "Unavailable, as set in the CatalogSource"
	case ready.Reason == "Suspended":
		return "Suspended, never unpacked"
	case ready.Reason == "Unpacking" && c.IsServed():
		return "Served, unpacking a new version"
	case ready.Reason == "Unpacking":
		return "Unpacking"
	case c.IsServed():
		return "Update failed, serving the previous content"
	case ready.Status == "":
		return "Not reconciled yet"
	}
	return "Not served"
}

// Message returns the message of the condition Ready; "" if the catalog is healthy.
func (c catalog) Message() string {
	if c.Health() == good {
		return ""
	}
	return c.ready().Message
}

// Label returns the display name of a catalog, or its name.
func (c catalog) Label() string { return cmp.Or(c.DisplayName, c.Name) }

// catalogsPage is the data of catalogs.html.
type catalogsPage struct {
	Catalogs []catalog // served ones first, each part sorted by name
}

// Title implements titled.
func (p catalogsPage) Title() string { return counted(len(p.Catalogs), "catalog") }

func loadCatalogs(r *request) (any, error) {
	list, err := r.api.catalogs()
	return catalogsPage{slices.Concat(list.Catalogs, list.NotServed)}, err
}

// catalogPage is the data of catalog.html.
type catalogPage struct {
	catalog
	Invalid []missingPackage // sorted by name
	More    int              // invalid packages beyond those in Invalid
	Schemas []struct {
		Name  string
		Blobs int
	}
}

// maxInvalid limits the invalid packages on a page.
const maxInvalid = 500

// Title implements titled.
func (p catalogPage) Title() string { return "Catalog " + p.Label() }

func loadCatalog(r *request) (any, error) {
	name := r.PathValue("catalog")
	p := catalogPage{}
	err := r.api.get("/catalogs/"+url.PathEscape(name), nil, &p.catalog)
	if err != nil {
		if p.catalog, err = r.api.notServed(name, err); err != nil {
			return nil, err
		}
		return p, nil
	}
	var reply struct {
		Catalogs []struct {
			InvalidPackages []struct{ Name, Reason string }
			Schemas         []struct {
				Name  string
				Blobs int
			}
		}
	}
	if _, err := r.api.query(name, "", `{ catalogs { invalidPackages { name reason } schemas { name blobs } } }`, nil, &reply); err != nil {
		return nil, err
	}
	for _, c := range reply.Catalogs {
		p.Schemas = c.Schemas
		for _, invalid := range c.InvalidPackages[:min(maxInvalid, len(c.InvalidPackages))] {
			p.Invalid = append(p.Invalid, missingPackage{name, cmp.Or(invalid.Name, "(blobs without a package)"), invalid.Reason})
		}
		p.More = len(c.InvalidPackages) - len(p.Invalid)
	}
	return p, nil
}

// notServed returns a catalog that exists but is not served. If there is none, it returns err.
func (a api) notServed(name string, err error) (catalog, error) {
	if isForbidden(err) {
		return catalog{}, err
	}
	list, listErr := a.catalogs()
	if listErr != nil {
		return catalog{}, err
	}
	for _, c := range list.NotServed {
		if c.Name == name {
			return c, nil
		}
	}
	return catalog{}, err
}
