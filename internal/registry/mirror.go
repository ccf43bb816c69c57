package registry

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
	"go.podman.io/image/v5/types"
)

// dockerHub is the usual name of name.DefaultRegistry in files and fields.
const dockerHub = "docker.io"

// source is one location of an image.
type source struct {
	ref      name.Reference // the image's name at this location; keeps a digest
	insecure bool           // allows plain HTTP and unverified certificates
}

// conf is a parsed containers-registries.conf(5). It is immutable; nil is an empty one.
type conf struct {
	path       string
	registries []sysregistriesv2.Registry // with canonical prefixes
}

// readConf reads only the file at path ("": none): neither a directory beside it nor files named by the
// environment. Only its [[registry]] tables count. An error names the file and the fault.
func readConf(path string) (*conf, error) {
	if path == "" {
		return nil, nil
	}
	// TryUpdatingCache reads the file each time and returns a new, immutable value.
	parsed, err := sysregistriesv2.TryUpdatingCache(&types.SystemContext{
		SystemRegistriesConfPath:    path,
		SystemRegistriesConfDirPath: filepath.Join(path+".d", "none"), // "" would mean the directory of the system
	})
	if err != nil {
		return nil, fmt.Errorf("reading --registries-conf: %w", err)
	}
	registries := slices.Clone(parsed.Registries)
	for i := range registries {
		registries[i].Prefix = canonical(registries[i].Prefix)
	}
	return &conf{path, registries}, nil
}

// sources returns the locations of ref in the order to try: the catalog's mirrors, those of the file, then ref's
// own location as the file rewrites it. It contains no duplicates. An error is an *Error of kind Blocked or
// Configuration.
func (c *conf) sources(ref name.Reference, mirrors []Mirror) ([]source, error) {
	image := canonical(ref.Name())
	table := c.find(image)
	if table != nil && table.Blocked {
		return nil, failure(Blocked, ref, nil, fmt.Sprintf("image %s is blocked in %s, by prefix %q", ref.Name(), c.path, table.Prefix))
	}
	sources, err := c.mirrored(ref, mirrors)
	if err != nil {
		return nil, err
	}
	if table == nil {
		return unique(append(sources, source{ref: ref})), nil
	}
	found, err := rewrite(ref, *table)
	if err != nil {
		return nil, err
	}
	return unique(append(sources, found...)), nil
}

// mirrored returns the locations of ref at the catalog's mirrors. A mirror does not bypass what the file blocks.
func (c *conf) mirrored(ref name.Reference, mirrors []Mirror) ([]source, error) {
	image := canonical(ref.Name())
	var sources []source
	for _, mirror := range mirrors {
		table := mirror.table(image)
		if startOf(image, table.Prefix) == "" {
			continue
		}
		found, err := rewrite(ref, table)
		if err != nil {
			return nil, err
		}
		for _, place := range found[:len(found)-1] { // the last is ref itself
			if table := c.find(canonical(place.ref.Name())); table != nil && table.Blocked {
				return nil, failure(Blocked, place.ref, nil, fmt.Sprintf("mirror %s of image %s is blocked in %s, by prefix %q",
					place.ref.Name(), ref.Name(), c.path, table.Prefix))
			}
			sources = append(sources, place)
		}
	}
	return sources, nil
}

// find returns the table for image: the one with the longest prefix; of equal ones, whose hosts the file spells
// differently, the one that blocks; nil if there is none.
func (c *conf) find(image string) *sysregistriesv2.Registry {
	if c == nil {
		return nil
	}
	var found *sysregistriesv2.Registry
	for i := range c.registries {
		table := &c.registries[i]
		if startOf(image, table.Prefix) == "" {
			continue
		}
		if found == nil || len(table.Prefix) > len(found.Prefix) || len(table.Prefix) == len(found.Prefix) && table.Blocked {
			found = table
		}
	}
	return found
}

// startOf returns the part of image that matches prefix, or "": "quay.io" and "quay.io/ns" match
// quay.io/ns/repo, "quay.i" does not; "*.io" matches the whole host without its port.
//
// It is stricter than the library, which documents that "quay.io" is not intended to match quay.io:5000/ns.
func startOf(image, prefix string) string {
	if strings.HasPrefix(prefix, "*.") {
		host, _, _ := strings.Cut(image, "/")
		host, _, _ = strings.Cut(host, ":")
		if strings.HasSuffix(host, prefix[1:]) {
			return host
		}
		return ""
	}
	rest, ok := strings.CutPrefix(image, prefix)
	isEnd := rest == "" || rest[0] == '/' || rest[0] == '@' || rest[0] == ':' && strings.Contains(prefix, "/")
	if !ok || !isEnd {
		return ""
	}
	return prefix
}

// table returns m as a table for the images of m.Source, or of image's registry.
func (m Mirror) table(image string) sysregistriesv2.Registry {
	source, _, _ := strings.Cut(image, "/")
	if m.Source != "" {
		source = canonical(strings.TrimRight(m.Source, "/"))
	}
	return sysregistriesv2.Registry{
		Prefix:   source,
		Endpoint: sysregistriesv2.Endpoint{Location: source},
		Mirrors: []sysregistriesv2.Endpoint{{
			Location: asWritten(strings.TrimRight(m.Location, "/")), Insecure: m.Insecure, PullFromMirror: m.PullFrom,
		}},
	}
}

// rewrite returns the names of ref at the locations of a matching table: its mirrors, as far as they serve such
// a reference, then its location.
func rewrite(ref name.Reference, table sysregistriesv2.Registry) ([]source, error) {
	sources, err := locations(ref, table)
	if err != nil {
		return nil, &Error{
			Kind: Configuration, cause: err,
			text: fmt.Sprintf("the mirror or location for prefix %q makes an invalid reference of image %s: %v", table.Prefix, ref.Name(), err),
		}
	}
	return sources, nil
}

func locations(ref name.Reference, table sysregistriesv2.Registry) (sources []source, err error) {
	image := canonical(ref.Name())
	table.Prefix = startOf(image, table.Prefix) // the library would expand "*." at its first match
	table.Location = cmp.Or(table.Location, table.Prefix)
	named, err := reference.ParseNamed(image)
	if err != nil {
		return nil, err
	}
	places, err := table.PullSourcesFromReference(named)
	if err != nil {
		return nil, err
	}
	for _, place := range places {
		found, err := newSource(ref, place)
		if err != nil {
			return nil, err
		}
		sources = append(sources, found)
	}
	return sources, nil
}

// newSource returns the location of ref under another name. It must keep a digest and have a tag otherwise.
func newSource(ref name.Reference, place sysregistriesv2.PullSource) (source, error) {
	if reference.IsNameOnly(place.Reference) {
		return source{}, fmt.Errorf("%s has neither tag nor digest", place.Reference)
	}
	there, err := name.ParseReference(place.Reference.String())
	if err != nil {
		return source{}, err
	}
	if asked, ok := ref.(name.Digest); ok && there.Identifier() != asked.DigestStr() {
		return source{}, fmt.Errorf("%s has another digest", place.Reference)
	}
	return source{there, place.Endpoint.Insecure}, nil
}

// unique returns sources without duplicates.
func unique(sources []source) []source {
	var once []source
	for _, s := range sources {
		if !slices.ContainsFunc(once, func(o source) bool { return o.ref.Name() == s.ref.Name() && o.insecure == s.insecure }) {
			once = append(once, s)
		}
	}
	return once
}

// canonical returns image with the canonical name of its registry.
func canonical(image string) string {
	host, _, _ := strings.Cut(image, "/")
	return asWritten(canonicalHost(host) + image[len(host):])
}

// asWritten returns image with Docker Hub's usual name, which the library and the files use.
func asWritten(image string) string {
	if rest, ok := strings.CutPrefix(image, name.DefaultRegistry); ok && (rest == "" || rest[0] == '/') {
		return dockerHub + rest
	}
	return image
}
