package sync

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	stdsync "sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// imageRegistry is a registry over HTTP that notes what it is asked, and can be broken.
type imageRegistry struct {
	t    testing.TB
	host string

	mu     stdsync.Mutex
	log    []string
	all    int                                           // requests of all kinds, also those that open a session
	answer func(http.ResponseWriter, *http.Request) bool // answers a request in place of the registry, if it returns true
}

func newImageRegistry(t testing.TB) *imageRegistry {
	t.Helper()
	r := &imageRegistry{t: t}
	r.host = registry.Start(t, func(images http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if answer := r.note(req); answer == nil || !answer(w, req) {
				images.ServeHTTP(w, req)
			}
		})
	})
	return r
}

func (r *imageRegistry) note(req *http.Request) (answer func(http.ResponseWriter, *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all++
	if _, kind, ok := strings.Cut(req.URL.Path, "/catalog/"); ok {
		kind, _, _ = strings.Cut(kind, "/")
		r.log = append(r.log, req.Method+" "+kind)
	}
	return r.answer
}

// take returns the requests for manifests and blobs since the last call, "<method> manifests" or "<method> blobs" each.
func (r *imageRegistry) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.log = nil }()
	return r.log
}

// polls returns the number of HEAD requests for manifests since take.
func (r *imageRegistry) polls() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, request := range r.log {
		if request == "HEAD manifests" {
			n++
		}
	}
	return n
}

// refuse makes the registry answer matching requests with 503; nil ends that.
func (r *imageRegistry) refuse(match func(*http.Request) bool) {
	r.respond(func(w http.ResponseWriter, req *http.Request) bool {
		if match == nil || !match(req) {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
}

// limit makes the registry answer all requests with 429 and a Retry-After in seconds.
func (r *imageRegistry) limit(seconds string) {
	r.respond(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", seconds)
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
}

// failRepository makes the registry answer requests for one repository with 500.
func (r *imageRegistry) failRepository(repository string) {
	r.respond(func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasPrefix(req.URL.Path, "/v2/"+repository+"/") {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
}

// respond makes answer handle requests before the registry.
func (r *imageRegistry) respond(answer func(http.ResponseWriter, *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// wantPassword makes the registry require the password of the user admin.
func (r *imageRegistry) wantPassword(password string) {
	r.respond(func(w http.ResponseWriter, req *http.Request) bool {
		if user, given, _ := req.BasicAuth(); user == "admin" && given == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
}

func everything(*http.Request) bool { return true }
func heads(r *http.Request) bool    { return r.Method == http.MethodHead }
func blobs(r *http.Request) bool    { return strings.Contains(r.URL.Path, "/blobs/") }

// push pushes an image of catalog files. It returns its reference by tag and its digest.
func (r *imageRegistry) push(tag string, files map[string]string) (ref, digest string) {
	r.t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		must.Succeed(r.t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file, Size: int64(len(files[file])), Mode: 0o644}))
		_, err := io.WriteString(w, files[file])
		must.Succeed(r.t, err)
	}
	must.Succeed(r.t, w.Close())
	img, err := mutate.AppendLayers(empty.Image, static.NewLayer(archive.Bytes(), types.OCIUncompressedLayer))
	must.Succeed(r.t, err)
	img, err = mutate.Config(img, v1.Config{Labels: map[string]string{"operators.operatorframework.io.index.configs.v1": "/configs"}})
	must.Succeed(r.t, err)
	target, err := name.NewTag(r.host + "/catalog:" + tag)
	must.Succeed(r.t, err)
	must.Succeed(r.t, remote.Write(target, img))
	hash, err := img.Digest()
	must.Succeed(r.t, err)
	r.take()
	return target.String(), hash.String()
}

// byDigest returns the reference by digest of a pushed image.
func (r *imageRegistry) byDigest(digest string) string { return r.host + "/catalog@" + digest }

// pkg is a small package of a catalog: one channel, "stable", with one bundle.
type pkg struct {
	name    string
	version string // default 1.0.0
	head    string // default: the bundle; another name makes the package invalid
	noCSV   bool   // makes it sound, but not to be shown

	description string
}

// json returns the package as a catalog file.
func (p pkg) json() string {
	version := p.version
	if version == "" {
		version = "1.0.0"
	}
	bundle := p.name + ".v" + version
	head := p.head
	if head == "" {
		head = bundle
	}
	type object = map[string]any
	properties := []any{object{"type": "olm.package", "value": object{"packageName": p.name, "version": version}}}
	if !p.noCSV {
		properties = append(properties, object{"type": "olm.csv.metadata", "value": object{
			"displayName": "The " + p.name + " Operator", "provider": object{"name": "Example, Inc"}, "description": p.description,
		}})
	}
	var b strings.Builder
	for _, blob := range []object{
		{"schema": "olm.package", "name": p.name, "defaultChannel": "stable"},
		{"schema": "olm.channel", "package": p.name, "name": "stable", "entries": []any{object{"name": head}}},
		{"schema": "olm.bundle", "package": p.name, "name": bundle, "image": "registry.example/" + p.name, "properties": properties},
	} {
		line, err := json.Marshal(blob)
		if err != nil {
			panic(err) // of a test's own literal
		}
		fmt.Fprintln(&b, string(line))
	}
	return b.String()
}

// catalogOf returns the files of an image, one for each package.
func catalogOf(packages ...pkg) map[string]string {
	files := map[string]string{}
	for _, p := range packages {
		files["configs/"+p.name+"/catalog.json"] = p.json()
	}
	return files
}

// brokenCatalog returns the files of an image that is not a valid catalog.
func brokenCatalog() map[string]string {
	return map[string]string{"configs/foo/catalog.json": `{"schema":"olm.package","name":"foo"`}
}
