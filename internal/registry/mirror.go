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

// dockerHub is what people call name.DefaultRegistry, in files and in fields.
const dockerHub = "docker.io"

// source is one place where an image can be had.
type source struct {
	ref      name.Reference // the image as it is called there; by digest if it was asked for by digest
	insecure bool           // plain HTTP, and certificates that nobody vouches for, will do
}

// conf is a containers-registries.conf(5), which never changes; nil says nothing.
type conf struct {
	path       string
	registries []sysregistriesv2.Registry // with canonical prefixes
}

// readConf reads the file at path ("": none), and no other: neither those of a directory beside it nor those that the
// environment names. Only its [[registry]] tables count. An error names the file and the fault.
func readConf(path string) (*conf, error) {
	if path == "" {
		return nil, nil
	}
	// TryUpdatingCache reads the file each time. The value it returns is new, and changes no more.
	parsed, err := sysregistriesv2.TryUpdatingCache(&types.SystemContext{
		SystemRegistriesConfPath:    path,
		SystemRegistriesConfDirPath: filepath.Join(path+".d", "none"), // not "", which stands for those of the system
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

// sources returns where ref can be had, in the order to ask: the mirrors of the catalog, those of the file, then ref's own
// place as the file has it. No place is there twice. An error is an *Error, of kind Blocked or Configuration.
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

// mirrored returns where ref can be had at the mirrors of the catalog. A mirror is no way around what the file blocks.
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

// find returns the table that holds for image: of those with a prefix of it the one with the longest, of equal ones (whose
// hosts the file writes in several ways) the one that blocks; nil if there is none.
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

// startOf returns the part of image that prefix stands for, "" if it is no prefix of it: "quay.io" and "quay.io/ns", but not
// "quay.i", of quay.io/ns/repo; as well "*.io", which stands for all of the host but its port.
//
// It is stricter than the library, by whose own words it is not intended that "quay.io" is a prefix of quay.io:5000/ns.
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

// table returns a table that has m for the images of m.Source, or those of image's registry.
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

// rewrite returns what ref is called at the places of a table with a prefix of it: at its mirrors, as far as they are for
// such a reference, and last at its location.
func rewrite(ref name.Reference, table sysregistriesv2.Registry) ([]source, error) {
	image, prefix := canonical(ref.Name()), table.Prefix
	table.Prefix = startOf(image, prefix) // the library would look for what a "*." stands for in the first place that fits
	table.Location = cmp.Or(table.Location, table.Prefix)
	named, err := reference.ParseNamed(image)
	if err != nil {
		return nil, misplaced(ref, prefix, err)
	}
	places, err := table.PullSourcesFromReference(named)
	if err != nil {
		return nil, misplaced(ref, prefix, err)
	}
	sources := make([]source, len(places))
	for i, place := range places {
		if sources[i], err = newSource(ref, place); err != nil {
			return nil, misplaced(ref, prefix, err)
		}
	}
	return sources, nil
}

// newSource returns the place where ref is called by another name. That has to keep a digest, and not to lack a tag.
func newSource(ref name.Reference, place sysregistriesv2.PullSource) (source, error) {
	if reference.IsNameOnly(place.Reference) {
		return source{}, fmt.Errorf("%s has neither tag nor digest", place.Reference)
	}
	there, err := name.ParseReference(place.Reference.String())
	if err != nil {
		return source{}, err
	}
	if asked, ok := ref.(name.Digest); ok && there.Identifier() != asked.DigestStr() {
		return source{}, fmt.Errorf("%s is not the image by that digest", place.Reference)
	}
	return source{there, place.Endpoint.Insecure}, nil
}

// misplaced says that the places of prefix, in the file or in the catalog's settings, do not make references of ref.
func misplaced(ref name.Reference, prefix string, err error) *Error {
	return &Error{Kind: Configuration, cause: err, text: fmt.Sprintf("a mirror or location of prefix %q makes no reference of image %s: %v", prefix, ref.Name(), err)}
}

// unique returns sources without those that are there before.
func unique(sources []source) []source {
	var once []source
	for _, s := range sources {
		if !slices.ContainsFunc(once, func(o source) bool { return o.ref.Name() == s.ref.Name() && o.insecure == s.insecure }) {
			once = append(once, s)
		}
	}
	return once
}

// canonical returns what begins with a registry with the one name by which that is looked up here.
func canonical(image string) string {
	host, _, _ := strings.Cut(image, "/")
	return asWritten(canonicalHost(host) + image[len(host):])
}

// asWritten returns what begins with a registry with Docker Hub's name as people write it, as do the library and the files.
func asWritten(image string) string {
	if rest, ok := strings.CutPrefix(image, name.DefaultRegistry); ok && (rest == "" || rest[0] == '/') {
		return dockerHub + rest
	}
	return image
}
