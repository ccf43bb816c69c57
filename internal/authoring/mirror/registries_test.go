package mirror

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// peer is a registry whose blobs belong to repositories, as those of distribution. It mounts blobs, and counts.
type peer struct {
	host    string
	handler http.Handler

	mu          sync.Mutex
	owned       map[string]bool // "repository@digest"
	noReferrers bool            // lacks the API for referrers
	uploads     int             // of blobs
	mounts      int
	blobs       int // read
	puts        int // of manifests
	cut         int // blobs whose connection ends early
	refuse      func(r *http.Request) int
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	p := &peer{owned: map[string]bool{}}
	p.host = registry.Start(t, func(h http.Handler) http.Handler {
		p.handler = h
		return p
	})
	return p
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	refuse := p.refuse
	p.mu.Unlock()
	if refuse != nil {
		if status := refuse(r); status != 0 {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(status)
			return
		}
	}
	if !p.answer(w, r) {
		p.handler.ServeHTTP(w, r)
	}
}

// answer answers what the registry of the library does not do.
func (p *peer) answer(w http.ResponseWriter, r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/v2/")
	repo, rest, isBlob := strings.Cut(path, "/blobs/")
	query := r.URL.Query()
	switch {
	case strings.Contains(path, "/referrers/") && p.noReferrers:
		http.NotFound(w, r)
		return true
	case !isBlob:
		if r.Method == http.MethodPut {
			p.puts++
		}
	case r.Method == http.MethodHead && !p.owned[repo+"@"+rest]:
		http.NotFound(w, r)
		return true
	case r.Method == http.MethodGet:
		p.blobs++
		if p.cut > 0 {
			p.cut--
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("short"))
			return true
		}
	case r.Method == http.MethodPost && p.owned[query.Get("from")+"@"+query.Get("mount")]:
		p.mounts++
		p.owned[repo+"@"+query.Get("mount")] = true
		w.WriteHeader(http.StatusCreated)
		return true
	case r.Method == http.MethodPatch:
		p.uploads++
	case r.Method == http.MethodPut:
		p.owned[repo+"@"+query.Get("digest")] = true
	}
	return false
}

// set changes the peer.
func (p *peer) set(change func(p *peer)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// counts returns the counters, and resets them.
func (p *peer) counts() (uploads, mounts, blobs, puts int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	uploads, mounts, blobs, puts = p.uploads, p.mounts, p.blobs, p.puts
	p.uploads, p.mounts, p.blobs, p.puts = 0, 0, 0, 0
	return uploads, mounts, blobs, puts
}

// options retry quickly.
func options() Options {
	return Options{Jobs: 4, Backoff: wait.Backoff{Duration: time.Millisecond, Factor: 1, Steps: 6}}
}

func pushIndex(t *testing.T, ref string, index v1.ImageIndex) v1.Hash {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	must.Succeed(t, err)
	must.Succeed(t, remote.WriteIndex(parsed, index))
	digest, err := index.Digest()
	must.Succeed(t, err)
	return digest
}

func randomIndex(t *testing.T, images int64) v1.ImageIndex {
	t.Helper()
	index, err := random.Index(2000, 3, images)
	must.Succeed(t, err)
	return index
}

func pushImage(t *testing.T, ref string, image v1.Image) v1.Hash {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	must.Succeed(t, err)
	must.Succeed(t, remote.Write(parsed, image))
	digest, err := image.Digest()
	must.Succeed(t, err)
	return digest
}

// layered returns an image with layers of these texts.
func layered(t *testing.T, texts ...string) v1.Image {
	t.Helper()
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	for _, text := range texts {
		var err error
		image, err = mutate.AppendLayers(image, static.NewLayer([]byte(text), types.OCILayer))
		must.Succeed(t, err)
	}
	return image
}

// referrer returns an artifact about a manifest.
func referrer(t *testing.T, of v1.Hash, text string) v1.Image {
	t.Helper()
	subject := v1.Descriptor{MediaType: types.OCIImageIndex, Digest: of, Size: 1}
	image, ok := mutate.Subject(mutate.ConfigMediaType(layered(t, text), "application/vnd.example.sbom"), subject).(v1.Image)
	if !ok {
		t.Fatal("no image")
	}
	return image
}

// images parses references, and fails the test if one is invalid.
func images(t *testing.T, refs ...string) []*Image {
	t.Helper()
	var of []Reference
	for _, ref := range refs {
		of = append(of, Reference{Image: ref, Package: "p", Bundle: "b"})
	}
	found, err := ParseReferences(of)
	must.Succeed(t, err)
	return found
}

func destination(t *testing.T, p *peer) Destination {
	t.Helper()
	to, err := ParseDestination(p.host + "/mirror/x")
	must.Succeed(t, err)
	return to
}

// copyTo plans and copies images to a registry.
func copyTo(t *testing.T, to *peer, refs ...string) Result {
	t.Helper()
	at := destination(t, to)
	c, err := ToRegistry(&at, options())
	must.Succeed(t, err)
	defer c.Close()
	return run(t, c, images(t, refs...))
}

func run(t *testing.T, c *Copier, images []*Image) Result {
	t.Helper()
	must.Succeed(t, c.Plan(t.Context(), images))
	result, err := c.Copy(t.Context(), images)
	must.Succeed(t, err)
	return result
}

// at returns the reference of an image in the mirror.
func at(t *testing.T, to *peer, ref, identifier string) name.Reference {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	must.Succeed(t, err)
	repo, err := destination(t, to).Repository(parsed.Context())
	must.Succeed(t, err)
	if strings.HasPrefix(identifier, "sha256:") {
		return repo.Digest(identifier)
	}
	return repo.Tag(identifier)
}
