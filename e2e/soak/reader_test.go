package soak

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
)

const (
	digestHeader = "Catalogd-Digest"
	graphQL      = "/api/v1/graphql"
)

// reader sends one request after another and compares every reply with the ledger. Not safe for concurrent use.
type reader struct {
	daemon *daemon
	ledger *ledger
	rng    *rand.Rand
	client *http.Client
	tally  *tally
}

// tally counts the results of readers.
type tally struct{ verified, bytes, notModified, notYet, notValidated, down, cut, gone atomic.Int64 }

func (t *tally) String() string {
	return fmt.Sprintf("%d replies right (%d MiB), %d of them not modified; %d not served yet, %d not validated yet, %d of versions "+
		"that are gone, %d while it was down, %d cut short by a kill",
		t.verified.Load(), t.bytes.Load()>>20, t.notModified.Load(), t.notYet.Load(), t.notValidated.Load(), t.gone.Load(), t.down.Load(),
		t.cut.Load())
}

func newReader(d *daemon, l *ledger, part string, t *tally) *reader {
	return &reader{daemon: d, ledger: l, rng: random(part), tally: t,
		client: &http.Client{Timeout: patience, Transport: &http.Transport{DisableCompression: true}}}
}

// run sends requests until ctx ends. Its error is the first wrong reply.
func (r *reader) run(ctx context.Context) error {
	defer r.client.CloseIdleConnections()
	questions := []func(context.Context, *entry) error{
		r.askAll, r.askEncoded, r.askMetas, r.askMetas, r.askAgain, r.askResumed, r.askVersion, r.askCatalogs, r.askGraphQL,
	}
	for ctx.Err() == nil {
		e := r.ledger.catalogs[r.ledger.names[r.rng.IntN(len(r.ledger.names))]]
		if err := questions[r.rng.IntN(len(questions))](ctx, e); err != nil {
			return err
		}
		pause(ctx, between(r.rng, 0, 10*time.Millisecond)) // leaves CPU time to others
	}
	return nil
}

// reply is a reply that is complete according to HTTP.
type reply struct {
	path   string
	status int
	header http.Header
	body   []byte // decoded
	at     int    // entry.served at the time of the request
}

// ask returns nil without an error if the process was killed meanwhile.
func (r *reader) ask(ctx context.Context, e *entry, path string, header map[string]string) (*reply, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.daemon.content+path, nil)
	if err != nil {
		return nil, err
	}
	for name, value := range header {
		request.Header.Set(name, value)
	}
	life, at := r.daemon.life.Load(), -1
	if e != nil {
		at = e.served()
	}
	got := &reply{path: path, at: at}
	err = got.read(r.client, request)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, nil
	case life%2 == 0 || r.daemon.life.Load() != life:
		if got.status == 0 {
			r.tally.down.Add(1)
		} else {
			r.tally.cut.Add(1)
		}
		return nil, nil
	default:
		return nil, fmt.Errorf("GET %s failed while catalogd was running: %w", path, err)
	}
	if err := got.decode(); err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	r.tally.bytes.Add(int64(len(got.body)))
	return got, nil
}

func (got *reply) read(client *http.Client, request *http.Request) error {
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	got.status, got.header = response.StatusCode, response.Header
	got.body, err = io.ReadAll(response.Body)
	return err
}

func (got *reply) decode() error {
	var decoded io.Reader
	switch encoding := got.header.Get("Content-Encoding"); encoding {
	case "":
		return nil
	case "gzip":
		z, err := gzip.NewReader(bytes.NewReader(got.body))
		if err != nil {
			return err
		}
		decoded = z
	case "zstd":
		z, err := zstd.NewReader(bytes.NewReader(got.body), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return err
		}
		defer z.Close()
		decoded = z
	default:
		return fmt.Errorf("it comes in the encoding %q", encoding)
	}
	var err error
	got.body, err = io.ReadAll(decoded)
	return err
}

// current requests the served content of a catalog. It returns the version of the reply, or nil if there is none to
// compare with.
func (r *reader) current(ctx context.Context, e *entry, path string, header map[string]string) (*reply, *version, error) {
	got, err := r.ask(ctx, e, "/catalogs/"+e.name+path, header)
	if got == nil {
		return nil, nil, err
	}
	switch {
	case (got.status == http.StatusNotFound || got.status == http.StatusServiceUnavailable) && got.at < 0:
		r.tally.notYet.Add(1)
		return nil, nil, nil
	case got.status == http.StatusServiceUnavailable && got.header.Get("Retry-After") != "" && strings.HasPrefix(path, graphQL):
		r.tally.notValidated.Add(1) // unknown validity of packages; /all and metas do not depend on it
		return nil, nil, nil
	case got.status != http.StatusOK && got.status != http.StatusPartialContent && got.status != http.StatusNotModified:
		return nil, nil, fmt.Errorf("GET %s: status %d: %.300s", got.path, got.status, got.body)
	}
	v, err := e.saw(got.header.Get(digestHeader), got.at)
	if err != nil {
		return nil, nil, fmt.Errorf("GET %s: %w", got.path, err)
	}
	return got, v, nil
}

// verify compares the body of a reply with the published one.
func (r *reader) verify(e *entry, got *reply, want sum) error {
	have := sha256.Sum256(got.body)
	if have != want {
		return fmt.Errorf("GET %s: status %d, %d bytes that are not those of %s: %.100q", got.path, got.status, len(got.body),
			got.header.Get(digestHeader), got.body)
	}
	r.tally.verified.Add(1)
	return e.sameTag(got.path+" "+got.header.Get("Content-Encoding"), got.header.Get("ETag"), have)
}

func (r *reader) askAll(ctx context.Context, e *entry) error {
	got, v, err := r.current(ctx, e, "/api/v1/all", nil)
	if got == nil {
		return err
	}
	return r.verify(e, got, v.all)
}

func (r *reader) askEncoded(ctx context.Context, e *entry) error {
	encoding := []string{"gzip", "zstd"}[r.rng.IntN(2)]
	got, v, err := r.current(ctx, e, "/api/v1/all", map[string]string{"Accept-Encoding": encoding})
	if got == nil {
		return err
	}
	return r.verify(e, got, v.all)
}

// askMetas requests one package of a catalog: its blobs, or only itself.
func (r *reader) askMetas(ctx context.Context, e *entry) error {
	pkg := r.pickPackage(e)
	if pkg == "" {
		return nil
	}
	path := "/api/v1/metas?package=" + pkg
	itself := r.rng.IntN(2) == 0
	if itself {
		path = "/api/v1/metas?schema=olm.package&name=" + pkg
	}
	var header map[string]string
	if r.rng.IntN(2) == 0 {
		header = map[string]string{"Accept-Encoding": "zstd, gzip"}
	}
	got, v, err := r.current(ctx, e, path, header)
	if got == nil {
		return err
	}
	if itself {
		return r.verify(e, got, v.packages[pkg].blob)
	}
	return r.verify(e, got, v.packages[pkg].metas)
}

// pickPackage returns one of a catalog's packages, whose names are the same in every version; "" before the first.
func (r *reader) pickPackage(e *entry) string {
	v := e.last()
	if v == nil {
		return ""
	}
	return fmt.Sprintf("operator-%c", 'a'+r.rng.IntN(len(v.packages)))
}

// askAgain sends a conditional request for /all.
func (r *reader) askAgain(ctx context.Context, e *entry) error {
	first, v, err := r.current(ctx, e, "/api/v1/all", nil)
	if first == nil {
		return err
	}
	got, now, err := r.current(ctx, e, "/api/v1/all", map[string]string{"If-None-Match": first.header.Get("ETag")})
	switch {
	case got == nil:
		return err
	case got.status != http.StatusNotModified:
		return r.verify(e, got, now.all)
	case now != v:
		return fmt.Errorf("GET %s: 304 for the ETag of %s, though it serves %s", got.path, v.digest, now.digest)
	}
	r.tally.notModified.Add(1)
	return r.verify(e, first, v.all)
}

// askResumed requests the second half of /all, as if it were missing.
func (r *reader) askResumed(ctx context.Context, e *entry) error {
	first, v, err := r.current(ctx, e, "/api/v1/all", nil)
	if first == nil {
		return err
	}
	if err := r.verify(e, first, v.all); err != nil {
		return err
	}
	have := len(first.body) / 2
	got, now, err := r.current(ctx, e, "/api/v1/all", map[string]string{
		"Range": fmt.Sprintf("bytes=%d-", have), "If-Range": first.header.Get("ETag"),
	})
	if got == nil {
		return err
	}
	if got.status == http.StatusPartialContent {
		got.body = append(first.body[:have:have], got.body...)
	}
	return r.verify(e, got, now.all)
}

// askVersion requests an earlier version, which may have been deleted.
func (r *reader) askVersion(ctx context.Context, e *entry) error {
	e.mu.Lock()
	digest := ""
	if n := len(e.published); n > 0 {
		digest = e.published[max(0, n-1-r.rng.IntN(5))]
	}
	e.mu.Unlock()
	got, err := r.ask(ctx, e, "/catalogs/"+e.name+"/digests/"+digest+"/api/v1/all", nil)
	if got == nil {
		return err
	}
	switch {
	case got.status == http.StatusNotFound, got.status == http.StatusServiceUnavailable && got.at < 0:
		r.tally.gone.Add(1)
		return nil
	case got.status == http.StatusOK:
		return r.verify(e, got, e.version(digest).all)
	}
	return fmt.Errorf("GET %s: status %d: %.300s", got.path, got.status, got.body)
}

// askGraphQL requests the head of a package's channel.
func (r *reader) askGraphQL(ctx context.Context, e *entry) error {
	pkg := r.pickPackage(e)
	if pkg == "" {
		return nil
	}
	query := fmt.Sprintf(`{package(name:%q){channels{head{version}}}}`, pkg)
	got, v, err := r.current(ctx, e, graphQL+"?query="+url.QueryEscape(query), nil)
	if got == nil {
		return err
	}
	want := fmt.Sprintf(`{"data":{"package":{"channels":[{"head":{"version":%q}}]}}}`, v.packages[pkg].release)
	if string(bytes.TrimSpace(got.body)) != want {
		return fmt.Errorf("GET %s: %s of %s, want %s", got.path, got.body, v.digest, want)
	}
	r.tally.verified.Add(1)
	return nil
}

// askCatalogs requests the list of catalogs, which must include all that were served before.
func (r *reader) askCatalogs(ctx context.Context, _ *entry) error {
	floors := map[string]int{}
	for name, e := range r.ledger.catalogs {
		floors[name] = e.served()
	}
	got, err := r.ask(ctx, nil, "/catalogs", nil)
	if got == nil {
		return err
	}
	var list struct {
		Catalogs []struct {
			Name, Digest string
			Packages     int
			Blobs        int
			Bytes        int64
		}
	}
	if got.status != http.StatusOK {
		return fmt.Errorf("GET /catalogs: status %d: %.300s", got.status, got.body)
	}
	if err := json.Unmarshal(got.body, &list); err != nil {
		return fmt.Errorf("GET /catalogs: %w: %.300s", err, got.body)
	}
	for _, c := range list.Catalogs {
		e := r.ledger.catalogs[c.Name]
		if e == nil {
			return fmt.Errorf("GET /catalogs: there is a catalog %q", c.Name)
		}
		v, err := e.saw(c.Digest, floors[c.Name])
		if err != nil {
			return fmt.Errorf("GET /catalogs: %w", err)
		}
		if c.Packages != len(v.packages) || c.Blobs != v.blobs || c.Bytes != v.size {
			return fmt.Errorf("GET /catalogs: %+v; want %d packages, %d blobs, %d bytes", c, len(v.packages), v.blobs, v.size)
		}
		delete(floors, c.Name)
	}
	for name, floor := range floors {
		if floor >= 0 {
			return fmt.Errorf("GET /catalogs: %s is missing, which was served before", name)
		}
	}
	r.tally.verified.Add(1)
	return nil
}
