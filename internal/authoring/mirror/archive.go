package mirror

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The archive is an OCI image layout in a tar. index.json lists the images, with their places in these annotations.
const (
	layoutFile = "oci-layout"
	layoutText = `{"imageLayoutVersion":"1.0.0"}`
	indexFile  = "index.json"

	refName              = "org.opencontainers.image.ref.name"
	annotationPrefix     = "mirror.operator-catalogs.io/"
	annotationKind       = annotationPrefix + "kind"       // image, attached or catalog
	annotationRepository = annotationPrefix + "repository" // at the source
	annotationTag        = annotationPrefix + "tag"
	annotationCatalog    = annotationPrefix + "catalog" // name of the catalog
	annotationBundle     = annotationPrefix + "bundle"  // "true" for the image of a bundle
)

const (
	maxIndex   = 256 << 20 // bytes of index.json
	maxEntries = 5_000_000 // of the tar
)

// extent is the place of a blob in the tar.
type extent struct{ at, size int64 }

// entryName returns the name of a blob in the tar.
func entryName(digest v1.Hash) string { return path.Join("blobs", digest.Algorithm, digest.Hex) }

// entryDigest returns the digest of an entry of the tar that is a blob.
func entryDigest(entry string) (v1.Hash, bool) {
	rest, ok := strings.CutPrefix(entry, "blobs/")
	digest, err := v1.NewHash(strings.Replace(rest, "/", ":", 1))
	return digest, ok && err == nil && entryName(digest) == entry
}

// readEntries calls each with the entries of a tar and their places. It accepts only those of an image layout.
func readEntries(file io.ReadSeeker, each func(entry string, at extent) error) error {
	archive := tar.NewReader(file)
	for count := 0; ; count++ {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the tar: %w", err)
		}
		if count == maxEntries {
			return fmt.Errorf("the archive has more than %d entries", maxEntries)
		}
		_, isBlob := entryDigest(header.Name)
		switch {
		case header.Typeflag == tar.TypeDir:
			continue
		case header.Typeflag != tar.TypeReg, !isBlob && header.Name != layoutFile && header.Name != indexFile:
			return fmt.Errorf("entry %q of the archive does not belong to an OCI image layout", header.Name)
		}
		at, err := file.Seek(0, io.SeekCurrent) // archive/tar reads no further than the header
		if err != nil {
			return err
		}
		if err := each(header.Name, extent{at, header.Size}); err != nil {
			return err
		}
	}
}

// Archive is an archive that ArchiveWriter wrote. It is an origin.
type Archive struct {
	file    io.ReaderAt
	close   func() error
	blobs   map[v1.Hash]extent
	types   map[v1.Hash]types.MediaType // of manifests
	images  []item
	catalog *item
}

// OpenArchive opens an archive and reads its index. Content is verified when it is read.
func OpenArchive(file string) (*Archive, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	var a *Archive
	if err == nil {
		a, err = readArchive(f, info.Size())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading archive %s: %w", file, err), f.Close())
	}
	a.close = f.Close
	return a, nil
}

// Close closes the file.
func (a *Archive) Close() error { return a.close() }

// Catalog returns the name and the tag of the catalog.
func (a *Archive) Catalog() (catalog, tag string) { return a.catalog.catalog, a.catalog.tag }

func readArchive(file io.ReaderAt, size int64) (*Archive, error) {
	a := &Archive{file: file, blobs: map[v1.Hash]extent{}, types: map[v1.Hash]types.MediaType{}}
	files := map[string]extent{}
	err := readEntries(io.NewSectionReader(file, 0, size), func(entry string, at extent) error {
		digest, isBlob := entryDigest(entry)
		_, again := files[entry]
		if isBlob {
			_, again = a.blobs[digest]
			a.blobs[digest] = at
		} else {
			files[entry] = at
		}
		if again {
			return fmt.Errorf("entry %q occurs twice", entry)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	at, ok := files[indexFile]
	_, isLayout := files[layoutFile]
	switch {
	case !ok || !isLayout:
		return nil, fmt.Errorf("it has no %s or %s: it is not an archive of kubectl catalog mirror, or not complete", layoutFile, indexFile)
	case at.size > maxIndex:
		return nil, fmt.Errorf("%s exceeds the limit of %d MiB", indexFile, maxIndex>>20)
	}
	var index v1.IndexManifest
	if err := json.NewDecoder(io.NewSectionReader(file, at.at, at.size)).Decode(&index); err != nil {
		return nil, fmt.Errorf("reading %s: %w", indexFile, err)
	}
	for _, d := range index.Manifests {
		if err := a.add(d); err != nil {
			return nil, fmt.Errorf("reading %s: manifest %s: %w", indexFile, d.Digest, err)
		}
	}
	if a.catalog == nil {
		return nil, fmt.Errorf("%s names no catalog: it is not an archive of kubectl catalog mirror", indexFile)
	}
	return a, nil
}

var tagForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// add adds a manifest of the index.
func (a *Archive) add(d v1.Descriptor) error {
	it := item{
		kind: kind(d.Annotations[annotationKind]), tag: d.Annotations[annotationTag], digest: d.Digest,
		catalog: d.Annotations[annotationCatalog], bundle: d.Annotations[annotationBundle] == "true",
	}
	a.types[d.Digest] = d.MediaType
	switch at, ok := a.blobs[d.Digest]; {
	case !ok:
		return errors.New("it is not in the archive")
	case at.size != d.Size:
		return fmt.Errorf("size mismatch: expected %d bytes, found %d", d.Size, at.size)
	case it.tag != "" && !tagForm.MatchString(it.tag):
		return fmt.Errorf("%q is not a tag", it.tag)
	}
	switch it.kind {
	case kindCatalog:
		if !repositoryPath.MatchString(it.catalog) || it.tag == "" || a.catalog != nil {
			return fmt.Errorf("%q is not the name of a catalog, or there are several, or it has no tag", it.catalog)
		}
		a.catalog = &it
	case kindImage, kindAttached:
		repo, err := name.NewRepository(d.Annotations[annotationRepository], name.StrictValidation)
		if err != nil || it.catalog != "" || !repositoryPath.MatchString(repo.RepositoryStr()) {
			return fmt.Errorf("%q is not the repository of an image", d.Annotations[annotationRepository])
		}
		it.repo = repo
		a.images = append(a.images, it)
	default:
		return fmt.Errorf("unknown kind %q", it.kind)
	}
	return nil
}

// Images returns the images and what is attached to them.
func (a *Archive) Images() (images []*Image) {
	for _, it := range a.images {
		images = append(images, &Image{Ref: it.String(), item: it})
	}
	return images
}

func (a *Archive) resolve(_ context.Context, tag name.Tag) (v1.Hash, error) {
	return v1.Hash{}, fmt.Errorf("the archive has no digest of %s", tag)
}

func (a *Archive) attached(context.Context, item) ([]item, error) { return nil, nil } // they are among the images

func (a *Archive) manifest(_ context.Context, it item) (*node, error) {
	at, ok := a.blobs[it.digest]
	switch {
	case !ok:
		return nil, fmt.Errorf("manifest %s is not in the archive", it.digest)
	case at.size > maxManifest:
		return nil, fmt.Errorf("manifest %s exceeds the limit of %d MiB", it.digest, maxManifest>>20)
	}
	raw := make([]byte, at.size)
	body, err := a.open(it.digest, at)
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(body, raw); err != nil && at.size > 0 {
		return nil, fmt.Errorf("reading manifest %s: %w", it.digest, err)
	}
	if _, err := body.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading manifest %s: %w", it.digest, err)
	}
	mediaType := a.types[it.digest]
	if mediaType == "" { // of a child
		var content struct {
			MediaType types.MediaType
			Manifests json.RawMessage
		}
		if err := json.Unmarshal(raw, &content); err != nil {
			return nil, fmt.Errorf("manifest %s: %w", it.digest, err)
		}
		mediaType = content.MediaType
		switch {
		case mediaType == "" && content.Manifests != nil:
			mediaType = types.OCIImageIndex
		case mediaType == "":
			mediaType = types.OCIManifestSchema1
		}
	}
	return &node{v1.Descriptor{MediaType: mediaType, Digest: it.digest, Size: at.size}, raw}, nil
}

func (a *Archive) blob(_ context.Context, _ item, d v1.Descriptor) (io.ReadCloser, error) {
	at, ok := a.blobs[d.Digest]
	switch {
	case !ok:
		return nil, fmt.Errorf("blob %s is not in the archive", d.Digest)
	case at.size != d.Size:
		return nil, fmt.Errorf("blob %s: size mismatch: expected %d bytes, found %d", d.Digest, d.Size, at.size)
	}
	return a.open(d.Digest, at)
}

func (a *Archive) open(digest v1.Hash, at extent) (io.ReadCloser, error) {
	sum, err := v1.Hasher(digest.Algorithm)
	if err != nil {
		return nil, err
	}
	return &verified{io.NewSectionReader(a.file, at.at, at.size), sum, digest}, nil
}

// verified is a reader that verifies a digest at the end.
type verified struct {
	io.Reader
	sum    hash.Hash
	digest v1.Hash
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.Reader.Read(p)
	v.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && hex.EncodeToString(v.sum.Sum(nil)) != v.digest.Hex {
		return n, fmt.Errorf("digest mismatch: the archive content does not have the digest %s; copy the archive again", v.digest)
	}
	return n, err
}

func (v *verified) Close() error { return nil }

// descriptor returns the entry of an item in index.json.
func descriptor(it item, n *node) v1.Descriptor {
	d := v1.Descriptor{MediaType: n.MediaType, Digest: n.Digest, Size: int64(len(n.raw)), Annotations: map[string]string{
		annotationKind: string(it.kind), refName: it.String(),
	}}
	if it.kind == kindCatalog {
		d.Annotations[annotationCatalog] = it.catalog
	} else {
		d.Annotations[annotationRepository] = it.repo.String()
	}
	if it.tag != "" {
		d.Annotations[annotationTag] = it.tag
	}
	if it.bundle {
		d.Annotations[annotationBundle] = "true"
	}
	return d
}

func indexOf(manifests []v1.Descriptor) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	err := encoder.Encode(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: manifests})
	return b.Bytes(), err
}
