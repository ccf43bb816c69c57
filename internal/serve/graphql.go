package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/operator-catalogs/catalogd/internal/bundle"
	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/serve/graphql"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// maxBody is the limit of a request body in bytes. The largest ones are GraphQL queries with variables.
const maxBody = 128 << 10

// queries answers GraphQL queries.
type queries struct {
	*lookup
	*sender
	handler   *graphql.Handler
	slots     limit.Slots
	responses limit.Budget
	bundles   *bundles
}

// ofAll answers a query about all catalogs.
func (s *queries) ofAll(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-cache")
	return s.answer(w, r, s.all(w))
}

// ofCatalog answers a query about one catalog. Caches must revalidate the response even below a version, because it can
// contain fields that do not belong to the version, such as the priority of the catalog.
func (s *queries) ofCatalog(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
	w.Header().Set("Cache-Control", "no-cache")
	return s.answer(w, r, []store.Catalog{c})
}

// answer holds a slot neither while it reads the request body nor while it sends the response, so slow clients hold none. A
// budget bounds the memory of the responses. Only responses to GET without errors can be cached.
func (s *queries) answer(w http.ResponseWriter, r *http.Request, catalogs []store.Catalog) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	catalogs, err = validated(catalogs)
	if err != nil {
		return err
	}
	bundles := &contents{bundles: s.bundles, w: w, r: r, catalogs: catalogs, images: map[bundle.Request]*pulled{}}
	defer bundles.close()
	reply, err := s.run(r, body, catalogs, bundles)
	for err == nil && bundles.fetch(r.Context()) {
		reply, err = s.run(r, body, catalogs, bundles)
	}
	if err != nil {
		return err
	}
	release, err := s.responses.Acquire(int64(cap(reply.Body)))
	if err != nil {
		return err
	}
	defer release()
	h := w.Header()
	maps.Copy(h, reply.Header) // with errors it has a Cache-Control
	h.Add("Vary", "Accept")    // selects the media type
	if r.Method != http.MethodPost && reply.Status == http.StatusOK && h.Get("Cache-Control") != "no-store" {
		return s.sendContent(w, r, time.Time{}, "", reply.Body)
	}
	h.Set("Cache-Control", "no-store")
	h.Del("Content-Location")
	return s.sendReply(w, r, reply.Status, reply.Body)
}

func (s *queries) run(r *http.Request, body []byte, catalogs []store.Catalog, bundles *contents) (*graphql.Reply, error) {
	release, err := s.slots.Acquire()
	if err != nil {
		return nil, err
	}
	defer release()
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return s.handler.Answer(r, catalogs, bundles.open), nil
}

// readBody reads the body of the request into memory.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, &statusError{code: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("the request body exceeds the limit of %d bytes", maxBody)}
	}
	if err != nil {
		return nil, badRequest("the request body is incomplete")
	}
	return body, nil
}
