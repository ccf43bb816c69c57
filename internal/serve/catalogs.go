package serve

import (
	"cmp"
	_ "embed"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// catalogList is the response of GET /catalogs.
type catalogList struct {
	Catalogs  []catalogEntry `json:"catalogs"`  // sorted by name
	NotServed []notServed    `json:"notServed"` // existing catalogs that this replica does not serve, sorted by name
}

// Source describes a catalog by its object. The catalog need not be served.
type Source struct {
	Name, Image                         string
	DisplayName, Publisher, Description string
	Priority                            int32
	Conditions                          []Condition
}

// Condition is a condition in the status of a catalog.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// notServed is the JSON of a catalog that is not served.
type notServed struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	names
}

// names is the JSON of the fields that served and other catalogs have.
type names struct {
	DisplayName string      `json:"displayName,omitempty"`
	Publisher   string      `json:"publisher,omitempty"`
	Description string      `json:"description,omitempty"`
	Priority    int32       `json:"priority"`
	Conditions  []Condition `json:"conditions"` // sorted by type
}

func namesOf(s Source) names {
	conditions := slices.SortedFunc(slices.Values(s.Conditions), func(a, b Condition) int { return cmp.Compare(a.Type, b.Type) })
	return names{s.DisplayName, s.Publisher, s.Description, s.Priority, append([]Condition{}, conditions...)}
}

// catalogEntry is a served catalog in JSON. Times are UTC in whole seconds (RFC 3339).
type catalogEntry struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	names
	Digest          string    `json:"digest"`
	Packages        int       `json:"packages"`
	Channels        int       `json:"channels"`
	Bundles         int       `json:"bundles"`
	Blobs           int       `json:"blobs"`
	Bytes           int64     `json:"bytes"`
	InvalidPackages int       `json:"invalidPackages"`   // the status of the CatalogSource names them
	Subset          *leftOut  `json:"subset,omitempty"`  // nil: the whole catalog
	LastModified    time.Time `json:"lastModified"`      // when this digest was first served
	LastPoll        time.Time `json:"lastPoll,omitzero"` // by this process
	NextPoll        time.Time `json:"nextPoll,omitzero"`
	URL             string    `json:"url"` // the content is below it, at /api/v1
}

// leftOut has the numbers of blobs that spec.include and spec.exclude leave out.
type leftOut struct {
	LeftOut struct {
		Packages int `json:"packages"`
		Channels int `json:"channels"`
		Bundles  int `json:"bundles"`
	} `json:"leftOut"`
}

func subsetOf(s *store.Subset) *leftOut {
	if s == nil {
		return nil
	}
	out := &leftOut{}
	out.LeftOut.Packages, out.LeftOut.Channels, out.LeftOut.Bundles = s.LeftOut.Packages, s.LeftOut.Channels, s.LeftOut.Bundles
	return out
}

// catalogs serves what clients need to know about the catalogs before they read them.
type catalogs struct {
	*lookup
	*sender
	polls   Polls
	sources func() []Source
}

// byName returns the sources of all catalogs by name.
func (s *catalogs) byName() map[string]Source {
	all := map[string]Source{}
	for _, source := range s.sources() {
		all[source.Name] = source
	}
	return all
}

func (s *catalogs) list(w http.ResponseWriter, r *http.Request) error {
	list, sources := catalogList{Catalogs: []catalogEntry{}, NotServed: []notServed{}}, s.byName()
	for _, c := range s.all(w) {
		list.Catalogs = append(list.Catalogs, s.entry(c, sources[c.Name]))
		delete(sources, c.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		list.NotServed = append(list.NotServed, notServed{name, sources[name].Image, namesOf(sources[name])})
	}
	return s.sendJSON(w, r, list)
}

func (s *catalogs) get(w http.ResponseWriter, r *http.Request) error {
	c, err := s.catalog(r.PathValue("catalog"))
	if err != nil {
		return err
	}
	return s.sendEntry(w, r, s.entry(c, s.byName()[c.Name]))
}

func (s *catalogs) getVersion(w http.ResponseWriter, r *http.Request) error {
	c, err := s.catalogAt(r.PathValue("catalog"), r.PathValue("digest"))
	if err != nil {
		return err
	}
	entry := s.entry(c, s.byName()[c.Name])
	entry.URL = s.baseURL + versionPath(c)
	return s.sendEntry(w, r, entry)
}

func (s *catalogs) sendEntry(w http.ResponseWriter, r *http.Request, entry catalogEntry) error {
	w.Header().Set(DigestHeader, entry.Digest)
	return s.sendJSON(w, r, entry)
}

func (s *catalogs) entry(c store.Catalog, source Source) catalogEntry {
	info := c.Snapshot.Info()
	last, next := s.polls(c.Name)
	return catalogEntry{
		Name: c.Name, Image: c.Image, names: namesOf(source), Digest: info.Digest,
		Packages: info.Packages, Channels: info.Channels, Bundles: info.Bundles, Blobs: info.Blobs, Bytes: info.Bytes,
		InvalidPackages: c.Snapshot.InvalidPackageCount(),
		Subset:          subsetOf(info.Subset),
		LastModified:    c.Since,
		LastPoll:        wholeSeconds(last),
		NextPoll:        wholeSeconds(next),
		URL:             s.baseURL + "/catalogs/" + c.Name,
	}
}

func wholeSeconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// openAPI documents the service. Tests compare it with the routes and their responses.
//
//go:embed openapi.json
var openAPI []byte

// about serves what clients need to know about the server.
type about struct {
	*sender
	version     string
	apiVersions []string
}

// versionInfo identifies the server, as /version of an API server does.
type versionInfo struct {
	GitVersion  string   `json:"gitVersion"`
	GoVersion   string   `json:"goVersion"`
	Platform    string   `json:"platform"`
	APIVersions []string `json:"apiVersions"`
}

func (s *about) serveVersion(w http.ResponseWriter, r *http.Request) error {
	return s.sendJSON(w, r, versionInfo{
		GitVersion: cmp.Or(s.version, "unknown"), GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		APIVersions: append([]string{}, s.apiVersions...),
	})
}

func (s *about) openAPI(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("Cache-Control", "no-cache")
	return s.sendContent(w, r, time.Time{}, "", openAPI)
}
