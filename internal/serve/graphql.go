package serve

import (
	"bytes"
	"cmp"
	"maps"
	"net/http"
	"time"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// graphqlOfAll answers a query over all catalogs, as they are when it comes.
func (s *server) graphqlOfAll(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-cache")
	return s.answerQuery(w, r, s.all(w))
}

// graphqlOfCatalog answers no-cache below a version, too: the answer may name what does not belong to the version, such as the catalog's
// priority and image.
func (s *server) graphqlOfCatalog(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
	w.Header().Set("Cache-Control", "no-cache")
	return s.answerQuery(w, r, []store.Catalog{c})
}

// answerQuery answers a GraphQL query. The request's body is read before it takes a slot, and the reply is sent after it gave it back, so
// a slow client holds none; what it holds of memory has a budget. A reply to GET can be kept as the URL says, and is tagged by its bytes; one to POST cannot, nor one with errors,
// which may be gone the next time.
func (s *server) answerQuery(w http.ResponseWriter, r *http.Request, catalogs []store.Catalog) error {
	if err := readBody(w, r); err != nil {
		return err
	}
	catalogs, err := validated(catalogs)
	if err != nil {
		return err
	}
	reply, err := s.runQuery(r, catalogs)
	if err != nil {
		return err
	}
	release, err := s.answers.take(int64(reply.body.Cap()))
	if err != nil {
		return err
	}
	defer release()
	h := w.Header()
	maps.Copy(h, reply.header) // Cache-Control is among them if there are errors
	h.Add("Vary", "Accept")    // it chooses between the media types of GraphQL
	if r.Method != http.MethodPost && reply.code == http.StatusOK && h.Get("Cache-Control") != "no-store" {
		return s.serveBytes(w, r, time.Time{}, "", reply.body.Bytes())
	}
	h.Set("Cache-Control", "no-store")
	h.Del("Content-Location")
	return s.sendBytes(w, r, reply.code, reply.body.Bytes())
}

func (s *server) runQuery(r *http.Request, catalogs []store.Catalog) (*bufferedReply, error) {
	release, err := s.queries.take("queries")
	if err != nil {
		return nil, err
	}
	defer release()
	reply := &bufferedReply{header: http.Header{}}
	s.graphql.ServeCatalogs(reply, r, catalogs)
	return reply, nil
}

// bufferedReply is an http.ResponseWriter that keeps the reply in memory.
type bufferedReply struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (b *bufferedReply) Header() http.Header { return b.header }

func (b *bufferedReply) WriteHeader(code int) { b.code = cmp.Or(b.code, code) }

func (b *bufferedReply) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	return b.body.Write(p)
}
