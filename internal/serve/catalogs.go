package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// catalogList is the reply of GET /catalogs.
type catalogList struct {
	Catalogs []catalogEntry `json:"catalogs"` // sorted by name
}

// catalogEntry describes one catalog served here. Times are RFC 3339, whole seconds, UTC.
type catalogEntry struct {
	Name            string    `json:"name"`
	Image           string    `json:"image"`
	Digest          string    `json:"digest"`
	Packages        int       `json:"packages"`
	Channels        int       `json:"channels"`
	Bundles         int       `json:"bundles"`
	Blobs           int       `json:"blobs"`
	Bytes           int64     `json:"bytes"`
	InvalidPackages int       `json:"invalidPackages"`   // how many fail validation; the CatalogSource's status names them
	LastModified    time.Time `json:"lastModified"`      // when this digest was first served
	LastPoll        time.Time `json:"lastPoll,omitzero"` // by this process
	NextPoll        time.Time `json:"nextPoll,omitzero"`
	URL             string    `json:"url"` // the content is below it, at /api/v1
}

// MissingHeader names the catalogs that other replicas serve and this one does not have yet, of an answer that is about all catalogs.
const MissingHeader = "Catalogd-Missing"

// all returns the catalogs that are served here, and says in the reply's header which are not here yet.
func (s *server) all(w http.ResponseWriter) []store.Catalog {
	missing := s.Expected()
	catalogs := s.Catalogs.Catalogs()
	for _, c := range catalogs {
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == c.Name })
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		w.Header().Set(MissingHeader, strings.Join(missing, ", "))
	}
	return catalogs
}

func (s *server) listCatalogs(w http.ResponseWriter, r *http.Request) error {
	list := catalogList{Catalogs: []catalogEntry{}}
	for _, c := range s.all(w) {
		list.Catalogs = append(list.Catalogs, s.describe(c))
	}
	return s.sendJSON(w, r, list)
}

// describeCatalog answers at the URL that statuses and the list give for a catalog.
func (s *server) describeCatalog(w http.ResponseWriter, r *http.Request) error {
	c, err := s.catalog(r.PathValue("catalog"))
	if err != nil {
		return err
	}
	return s.sendEntry(w, r, s.describe(c))
}

// describeVersion answers at the URL that the feed and Content-Location give for a version of a catalog.
func (s *server) describeVersion(w http.ResponseWriter, r *http.Request) error {
	c, err := s.catalogAt(r.PathValue("catalog"), r.PathValue("digest"))
	if err != nil {
		return err
	}
	entry := s.describe(c)
	entry.URL = s.BaseURL + fixedPath(c)
	return s.sendEntry(w, r, entry)
}

func (s *server) sendEntry(w http.ResponseWriter, r *http.Request, entry catalogEntry) error {
	w.Header().Set(DigestHeader, entry.Digest)
	return s.sendJSON(w, r, entry)
}

func (s *server) describe(c store.Catalog) catalogEntry {
	info := c.Snapshot.Info()
	last, next := s.Polls(c.Name)
	return catalogEntry{
		Name: c.Name, Image: c.Image, Digest: info.Digest,
		Packages: info.Packages, Channels: info.Channels, Bundles: info.Bundles, Blobs: info.Blobs, Bytes: info.Bytes,
		InvalidPackages: c.Snapshot.InvalidPackageCount(),
		LastModified:    c.Since,
		LastPoll:        wholeSeconds(last),
		NextPoll:        wholeSeconds(next),
		URL:             s.BaseURL + "/catalogs/" + c.Name,
	}
}

// sendJSON answers with what changes at every poll, or every upgrade, so nobody is to keep it.
func (s *server) sendJSON(w http.ResponseWriter, r *http.Request, reply any) error {
	body, err := json.Marshal(reply)
	if err != nil {
		return fmt.Errorf("encoding a description: %w", err)
	}
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("Cache-Control", "no-store")
	return s.sendBytes(w, r, http.StatusOK, append(body, '\n'))
}

func wholeSeconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
