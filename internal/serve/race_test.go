package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/store"
)

const (
	generations = 100
	kept        = 10 // packages that every generation has; one more is in that generation only
)

func generationDigest(n int) string { return fmt.Sprintf("sha256:%064d", n) }

// generation returns a catalog whose blobs all contain the number of their generation.
func generation(n int) fstest.MapFS {
	version := fmt.Sprintf("1.%d.0", n)
	names := []string{fmt.Sprintf("only-%d", n)}
	for i := range kept {
		names = append(names, fmt.Sprintf("p%d", i))
	}
	return packagesFS(version, names...)
}

// reader is a client that keeps its connection.
type reader struct {
	url    string
	client *http.Client
	zstd   *zstd.Decoder
}

// fetch sends a request and returns the reply's headers and decoded body.
func (r *reader) fetch(ctx context.Context, method, path, body, accept string) (http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Accept-Encoding", accept)
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, data)
	}
	data, err = r.decode(resp.Header.Get("Content-Encoding"), data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return resp.Header, data, nil
}

func (r *reader) decode(encoding string, data []byte) ([]byte, error) {
	switch encoding {
	case "gzip":
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(z)
	case "zstd":
		return r.zstd.DecodeAll(data, nil)
	}
	return data, nil
}

var versionOf = regexp.MustCompile(`"gen":"1\.(\d+)\.0"`)

// ofOneGeneration checks the number of blobs in a body, and that all belong to the generation of digest.
func ofOneGeneration(digest string, body []byte, blobs int) error {
	found := versionOf.FindAllSubmatch(body, -1)
	if len(found) != blobs {
		return fmt.Errorf("%d blobs, want %d", len(found), blobs)
	}
	for _, match := range found {
		n, err := strconv.Atoi(string(match[1]))
		if err != nil || generationDigest(n) != digest {
			return fmt.Errorf("a blob of generation %s in a reply of %s", match[1], digest)
		}
	}
	return nil
}

// content reads a path that serves blobs.
func content(path, accept string, blobs int) func(context.Context, *reader) error {
	return func(ctx context.Context, r *reader) error {
		header, body, err := r.fetch(ctx, http.MethodGet, path, "", accept)
		if err != nil {
			return err
		}
		if err := ofOneGeneration(header.Get(DigestHeader), body, blobs); err != nil {
			return fmt.Errorf("%s as %q: %w", path, accept, err)
		}
		return nil
	}
}

// pages reads pages below the URL of one version.
func pages(ctx context.Context, r *reader) error {
	header, body, err := r.fetch(ctx, http.MethodGet, "/catalogs/c/api/v1/channels", "", "")
	if err != nil {
		return err
	}
	digest := header.Get(DigestHeader)
	if err := ofOneGeneration(digest, body, kept+1); err != nil {
		return err
	}
	for path, blobs := range map[string]int{"all": 3 * (kept + 1), "bundles": kept + 1, "packages/p1": 3} {
		base := strings.TrimSuffix(header.Get("Content-Location"), "channels")
		page, body, err := r.fetch(ctx, http.MethodGet, base+path, "", "zstd")
		if err != nil {
			return err
		}
		if page.Get(DigestHeader) != digest {
			return fmt.Errorf("a page of %s is of %s", digest, page.Get(DigestHeader))
		}
		if err := ofOneGeneration(digest, body, blobs); err != nil {
			return fmt.Errorf("%s of %s: %w", path, digest, err)
		}
	}
	return nil
}

// query sends a GraphQL query for fields from the index, summaries and blobs. All must belong to one generation.
func query(method, path string) func(context.Context, *reader) error {
	const text = `{catalogs{digest} packages{totalCount nodes{name version head{version} blobs(schema:\"olm.bundle\"){nodes{content}}}}}`
	return func(ctx context.Context, r *reader) error {
		header, body, err := http.Header(nil), []byte(nil), error(nil)
		if method == http.MethodPost {
			header, body, err = r.fetch(ctx, method, path, `{"query":"`+text+`"}`, "gzip")
		} else {
			header, body, err = r.fetch(ctx, method, path+"?query="+strings.NewReplacer(`\"`, `%22`, " ", "%20").Replace(text), "", "zstd")
		}
		if err != nil {
			return err
		}
		var reply struct {
			Errors json.RawMessage
			Data   struct {
				Catalogs []struct{ Digest string }
				Packages struct {
					TotalCount int
					Nodes      []struct {
						Name, Version string
						Head          struct{ Version string }
					}
				}
			}
		}
		if err := json.Unmarshal(body, &reply); err != nil || reply.Errors != nil || len(reply.Data.Catalogs) != 1 {
			return fmt.Errorf("%s %s: error %w, %s", method, path, err, body)
		}
		digest := reply.Data.Catalogs[0].Digest
		if named := header.Get(DigestHeader); named != "" && named != digest {
			return fmt.Errorf("GraphQL answers with %s, its header with %s", digest, named)
		}
		if err := ofOneGeneration(digest, body, kept+1); err != nil {
			return fmt.Errorf("GraphQL: %w", err)
		}
		for _, node := range reply.Data.Packages.Nodes {
			n := strings.Split(node.Version, ".")[1]
			generation, err := strconv.Atoi(n)
			if err != nil || generationDigest(generation) != digest ||
				node.Head.Version != node.Version || reply.Data.Packages.TotalCount != kept+1 {
				return fmt.Errorf("GraphQL: package %+v in a reply of %s", node, digest)
			}
		}
		return nil
	}
}

// follow reads the feed until the last generation. Each event must be correct relative to the previous one.
func follow(ctx context.Context, r *reader) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/catalogs/c/api/v1/watch", nil)
	if err != nil {
		return err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	feed, previous := newEvents(resp.Body), 0
	for previous != generations {
		got, err := feed.next()
		if err != nil {
			return fmt.Errorf("the feed after generation %d: %w", previous, err)
		}
		if got.kind == ":" {
			continue
		}
		var data digestData
		if err := json.Unmarshal([]byte(got.data), &data); err != nil {
			return err
		}
		n, err := strconv.Atoi(strings.TrimLeft(strings.TrimPrefix(data.Digest, "sha256:"), "0"))
		if err != nil || n <= previous {
			return fmt.Errorf("after generation %d comes %s: %w", previous, data.Digest, err)
		}
		if previous > 0 && (data.Previous != generationDigest(previous) || len(data.Changed) != kept ||
			fmt.Sprint(data.Added) != fmt.Sprintf("[only-%d]", n) || fmt.Sprint(data.Removed) != fmt.Sprintf("[only-%d]", previous)) {
			return fmt.Errorf("generation %d after %d: %+v", n, previous, data)
		}
		previous = n
	}
	return nil
}

// TestReadersWhileReplaced replaces a catalog 100 times while 200 clients read all of its paths. Each response must belong to one digest,
// that of its header.
func TestReadersWhileReplaced(t *testing.T) {
	const clients = 200
	st := openStore(t)
	commitSource(t, st, "c", store.Source{Image: "quay.io/example/c:v1", Digest: generationDigest(1)}, generation(1))
	compress(t, st)
	cfg := testConfig(st)
	cfg.Limits = limit.New(clients) // this limit, and that of time, are not tested here
	s := newServer(cfg)
	s.queries.handler.Limits.Time = time.Hour
	url := startServer(t, s)
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()

	const all = 3 * (kept + 1)
	kinds := []func(context.Context, *reader) error{
		content("/catalogs/c/api/v1/all", "identity", all),
		content("/catalogs/c/api/v1/all", "zstd", all),
		content("/catalogs/c/api/v1/all", "gzip", all),
		content("/catalogs/c/api/v1/metas?schema=olm.bundle", "gzip", kept+1),
		content("/catalogs/c/api/v1/metas?schema=olm.package", "identity", kept+1),
		content("/catalogs/c/api/v1/packages/p3", "zstd", 3),
		query(http.MethodPost, "/catalogs/c/api/v1/graphql"),
		query(http.MethodGet, "/api/v1/graphql"),
		pages,
		follow,
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	written := make(chan struct{}) // closed after the last generation
	errs := make([]error, clients)
	var readers, started sync.WaitGroup
	started.Add(clients)
	for i := range clients {
		r := &reader{url: url, client: &http.Client{Transport: transport}, zstd: decoder}
		readers.Go(func() {
			started.Done()
			err := readOn(ctx, st, written, r, kinds[i%len(kinds)])
			if err != nil && ctx.Err() == nil {
				errs[i] = err
				cancel() // one failure is enough; what follows from that is none
			}
		})
	}
	started.Wait()
	for n := 2; n <= generations && ctx.Err() == nil; n++ {
		commitSource(t, st, "c", store.Source{Image: "quay.io/example/c:v1", Digest: generationDigest(n)}, generation(n))
	}
	close(written)
	readers.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// readOn reads after each change until the last generation is committed, and then once more.
func readOn(ctx context.Context, st *store.Store, written <-chan struct{}, r *reader, read func(context.Context, *reader) error) error {
	for {
		changed := st.Changed()
		if err := read(ctx, r); err != nil {
			return err
		}
		select {
		case <-written:
			return read(ctx, r)
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
