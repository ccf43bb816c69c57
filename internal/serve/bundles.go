package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
	"weak"

	"k8s.io/utils/lru"

	"github.com/operator-catalogs/catalogd/internal/auth/principal"
	"github.com/operator-catalogs/catalogd/internal/bundle"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// FaultsHeader lists the manifests of a bundle that could not be read completely. Responses with objects or permissions have it if
// there are any.
const FaultsHeader = "Catalogd-Faults"

// BundleImages gets bundles from their images; *pull.Puller implements it.
type BundleImages interface {
	Cached(request bundle.Request) (*bundle.Archive, error)
	Fetch(ctx context.Context, request bundle.Request, user string) (*bundle.Archive, error)
}

// bundles serves the content of bundles. What is in an image needs a right of its own, because a request can make catalogd
// pull the image with the credentials of the catalog.
type bundles struct {
	*builder
	images BundleImages // nil: no images are pulled
	gate   *gate
	known  *lru.Cache // blobKey -> bundle.Blob, of bundles without objects
}

// blobKey names a blob of a snapshot.
type blobKey struct {
	snapshot  weak.Pointer[store.Snapshot]
	pkg, name string
}

// maxKnownBlobs limits the memory of known blobs to some MB.
const maxKnownBlobs = 1000

// of returns a view that passes the content of the bundle that the path names to send.
func (s *bundles) of(params []string, send func(http.ResponseWriter, *http.Request, *bundle.Archive, string) error) view {
	return func(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
		if _, err := parseParams(r, params...); err != nil {
			return err
		}
		archive, tag, err := s.open(w, r, c)
		if err != nil {
			return err
		}
		defer archive.Close()
		release, err := s.memory.Acquire(archive.InMemory())
		if err != nil {
			return err
		}
		defer release()
		// A tag can name other content at any time, and permissions can be explained in other words by the next release.
		w.Header().Set("Cache-Control", "no-cache")
		return send(w, r, archive, tag)
	}
}

// open returns the content of a bundle and its tag, which is the digest of the image.
func (s *bundles) open(w http.ResponseWriter, r *http.Request, c store.Catalog) (*bundle.Archive, string, error) {
	blob, tag, err := s.find(r, c)
	if err != nil {
		return nil, "", err
	}
	if blob.HasContent() {
		release, err := s.queries.Acquire()
		if err != nil {
			return nil, "", err
		}
		defer release()
		archive, err := blob.Archive()
		return archive, tag, bundleError(err)
	}
	archive, err := s.image(w, r, c, blob)
	if err != nil {
		return nil, "", err
	}
	return archive, archive.Content.Digest, nil
}

// find returns the bundle that the path names, and a tag of its blob if that has the objects.
func (s *bundles) find(r *http.Request, c store.Catalog) (bundle.Blob, string, error) {
	key := blobKey{weak.Make(c.Snapshot), r.PathValue("package"), r.PathValue("bundle")}
	if known, ok := s.known.Get(key); ok {
		return known.(bundle.Blob), "", nil
	}
	blob, tag, err := s.read(r, c)
	if err == nil && !blob.HasContent() {
		s.known.Add(key, blob)
	}
	return blob, tag, err
}

func (s *bundles) read(r *http.Request, c store.Catalog) (bundle.Blob, string, error) {
	release, err := s.queries.Acquire()
	if err != nil {
		return bundle.Blob{}, "", err
	}
	defer release()
	query := store.Query{Schema: fbc.SchemaBundle, Package: r.PathValue("package"), Name: r.PathValue("bundle")}
	for text, err := range c.Snapshot.Select(query).Verified(r.Context()) {
		if err != nil {
			return bundle.Blob{}, "", err
		}
		blob, err := bundle.ReadBlob(text)
		if err != nil {
			return bundle.Blob{}, "", unprocessable("bundle %q of package %q cannot be read: %v", query.Name, query.Package, err)
		}
		return blob, hashTag(text), nil
	}
	if c.Snapshot.Package(query.Package).Len() == 0 {
		return bundle.Blob{}, "", noPackage(c, query.Package)
	}
	return bundle.Blob{}, "", notFound("bundle %q not found in package %q of catalog %q", query.Name, query.Package, c.Name)
}

func unprocessable(format string, args ...any) error {
	return &statusError{code: http.StatusUnprocessableEntity, text: fmt.Sprintf(format, args...)}
}

// request returns the request for a bundle image, and the name of the user who may send it.
func (s *bundles) request(w http.ResponseWriter, r *http.Request, c store.Catalog, blob bundle.Blob) (bundle.Request, string, error) {
	request := bundle.Request{Catalog: c.Name, Owner: c.Owner, Package: blob.Package, Image: blob.Image}
	switch {
	case blob.Image == "":
		return request, "", notFound("bundle %q has neither an image nor objects in the catalog", blob.Name)
	case s.images == nil:
		return request, "", &statusError{code: http.StatusForbidden, text: "the content of this bundle is in its image, and pulling bundle " +
			"images is disabled; an admin can enable it with --bundle-content"}
	}
	user, err := s.gate.allowBundles(w, r, c.Name)
	return request, user, err
}

// image returns the content of a bundle image. HEAD pulls none.
func (s *bundles) image(w http.ResponseWriter, r *http.Request, c store.Catalog, blob bundle.Blob) (*bundle.Archive, error) {
	request, user, err := s.request(w, r, c, blob)
	if err != nil {
		return nil, err
	}
	if r.Method == http.MethodHead {
		archive, err := s.images.Cached(request)
		return archive, bundleError(err)
	}
	archive, err := s.images.Fetch(r.Context(), request, user)
	return archive, bundleError(err)
}

// bundleError returns the response for an error of a pull.Puller.
func bundleError(err error) error {
	failed, ok := errors.AsType[*bundle.Error](err)
	if !ok {
		return err
	}
	switch failed.Reason {
	case bundle.Forbidden:
		return &statusError{code: http.StatusForbidden, text: failed.Error()}
	case bundle.Invalid:
		return unprocessable("%s", failed.Error())
	case bundle.Registry:
		return &statusError{code: http.StatusBadGateway, text: failed.Error()}
	case bundle.Busy:
		return tooManyRequests(&limit.ExceededError{Message: failed.Error()})
	}
	return unavailable(2, "%s", failed.Error())
}

// sendIndex sends the index of the files.
func (s *bundles) sendIndex(w http.ResponseWriter, r *http.Request, archive *bundle.Archive, tag string) error {
	w.Header().Set("Content-Type", typeJSON)
	if archive.Content.Image != "" && !archive.Content.Pinned {
		tag += "-tag" // the same image by its digest has another index
	}
	return s.sendContent(w, r, time.Time{}, tag, archive.JSON())
}

// sendFile sends a file as a download: it may have anything.
func (s *bundles) sendFile(w http.ResponseWriter, r *http.Request, archive *bundle.Archive, tag string) error {
	name := r.PathValue("path")
	data, err := archive.File(name)
	if errors.Is(err, fs.ErrNotExist) {
		return notFound("file %q not found in bundle %q; the index of its files is at .../content", name, r.PathValue("bundle"))
	}
	if err != nil {
		return bundleError(err)
	}
	contentType := typeBytes
	switch path.Ext(name) {
	case ".json":
		contentType = typeJSON
	case ".yaml", ".yml":
		contentType = "application/yaml"
	}
	s.download(w, r, path.Base(name), contentType, tag, data)
	return nil
}

// sendTar sends all files.
func (s *bundles) sendTar(w http.ResponseWriter, r *http.Request, archive *bundle.Archive, tag string) error {
	data, err := archive.Tar()
	if err != nil {
		return bundleError(err)
	}
	s.download(w, r, r.PathValue("bundle")+".tar", "application/x-tar", tag, data)
	return nil
}

func (s *bundles) download(w http.ResponseWriter, r *http.Request, name, contentType, tag string, data *io.SectionReader) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	serveContent(w, r, time.Time{}, tag, identity, data.Size(), ownSection{data})
}

// sendObjects sends the objects of the manifests as JSON lines.
func (s *bundles) sendObjects(w http.ResponseWriter, r *http.Request, archive *bundle.Archive, tag string) error {
	query := r.URL.Query()
	w.Header()["Content-Type"] = linesHeader
	return s.sendBuilt(w, r, archive, tag, func() ([]byte, error) {
		objects, err := archive.Objects(query.Get("kind"), query.Get("name"))
		if err != nil || len(objects) == 0 {
			return nil, bundleError(err)
		}
		return append(bytes.Join(objects, []byte("\n")), '\n'), nil
	})
}

// sendPermissions sends the permissions that the bundle asks for.
func (s *bundles) sendPermissions(w http.ResponseWriter, r *http.Request, archive *bundle.Archive, tag string) error {
	w.Header().Set("Content-Type", typeJSON)
	return s.sendBuilt(w, r, archive, tag+"-"+permissionsVersion, func() ([]byte, error) {
		permissions, err := archive.Permissions()
		if err != nil {
			return nil, bundleError(err)
		}
		body, err := json.Marshal(permissions)
		return append(body, '\n'), err
	})
}

// permissionsVersion is part of the tags of permissions. It changes when catalogd explains the same objects in another way.
const permissionsVersion = "1"

// sendBuilt sends a response that build computes from the objects of a bundle.
func (s *bundles) sendBuilt(
	w http.ResponseWriter, r *http.Request, archive *bundle.Archive, tag string, build func() ([]byte, error),
) error {
	if faults := archive.Content.Faults(); len(faults) > 0 {
		w.Header().Set(FaultsHeader, faultsHeader(faults))
	}
	return s.builder.sendBuilt(w, r, tag, build)
}

// faultsHeader returns the names of some manifests, percent-encoded and separated by commas.
func faultsHeader(names []string) string {
	const most = 20
	var out []string
	for _, name := range names[:min(len(names), most)] {
		out = append(out, (&url.URL{Path: name}).EscapedPath())
	}
	if len(names) > most {
		out = append(out, "...")
	}
	return strings.Join(out, ", ")
}

// allowBundles returns the name of the user of a request if the user may read bundle images of a catalog.
func (g *gate) allowBundles(w http.ResponseWriter, r *http.Request, catalog string) (user string, err error) {
	if g.access == nil {
		return "anyone", nil
	}
	reply, ok := w.(*replyWriter)
	if !ok || reply.user == nil {
		return "", errors.New("the request has no authenticated user") // 500
	}
	question := principal.Question{User: reply.user, Verb: "get", Path: "/bundle-content/" + catalog}
	decision, err := g.access.Authorize(r.Context(), question)
	switch {
	case err != nil:
		return "", g.unanswered(r, err)
	case !decision.Allowed:
		return "", forbidden(question, decision, "catalogd-bundle-reader")
	}
	return reply.user.GetName(), nil
}
