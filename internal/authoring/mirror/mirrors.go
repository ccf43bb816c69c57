package mirror

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Mirror is the location of the images of a namespace or a registry.
type Mirror struct {
	Source, Location string
	Digests, Tags    bool // whether images are referred to in these ways
}

// Mirrors returns the mirror of each source namespace. A namespace covers those below it.
func (d Destination) Mirrors(images []*Image) []Mirror {
	return d.mirrors(images, func(it item) string {
		namespace := path.Dir(it.repo.RepositoryStr())
		if namespace == "." {
			namespace = it.repo.RepositoryStr()
		}
		return path.Join(hostOf(it.repo), namespace)
	})
}

// BundleMirrors returns where the images of bundles are, by registries.
func (d Destination) BundleMirrors(images []*Image) []Mirror {
	return d.mirrors(images, func(it item) string {
		if !it.bundle {
			return ""
		}
		return hostOf(it.repo)
	})
}

// mirrors groups images by source; "" leaves one out.
func (d Destination) mirrors(images []*Image, source func(item) string) (mirrors []Mirror) {
	bySource := map[string]*Mirror{}
	for _, image := range images {
		it := image.item
		of := source(it)
		if it.kind != kindImage || of == "" {
			continue
		}
		m := bySource[of]
		if m == nil {
			m = &Mirror{Source: of, Location: d.locationOf(of)}
			bySource[of] = m
		}
		m.Tags = m.Tags || it.tag != ""
		m.Digests = m.Digests || it.tag == ""
	}
	for _, of := range slices.Sorted(maps.Keys(bySource)) { // a namespace before those below it
		m := *bySource[of]
		above := slices.IndexFunc(mirrors, func(m Mirror) bool { return strings.HasPrefix(of, m.Source+"/") })
		if above >= 0 {
			mirrors[above].Tags = mirrors[above].Tags || m.Tags
			mirrors[above].Digests = mirrors[above].Digests || m.Digests
			continue
		}
		mirrors = append(mirrors, m)
	}
	return mirrors
}

// locationOf returns the location of HOST[/PATH].
func (d Destination) locationOf(source string) string {
	host, rest, _ := strings.Cut(source, "/")
	return path.Join(d.String(), strings.ReplaceAll(host, ":", "_"), rest)
}

// CatalogRef returns the reference of a catalog at the destination.
func (d Destination) CatalogRef(catalog, tag string) name.Tag { return d.Catalog(catalog).Tag(tag) }

// ValidName reports whether a catalog can have a name and a tag.
func ValidName(catalog, tag string) bool {
	return repositoryPath.MatchString(catalog) && tagForm.MatchString(tag)
}
