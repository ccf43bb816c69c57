package unpack

import (
	"bytes"
	"path"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/operator-catalogs/catalogd/internal/registry"
)

// maxConfigBytes limits the image configuration, which is read into memory. Real ones have a few kilobytes.
const maxConfigBytes = 8 << 20

// location is the place of the catalog in an image. Paths have no leading slash; "." is the image's root.
type location struct {
	dir      string // directory of the catalog files, or of the database
	database string // path of the SQLite database, a direct child of dir; "": dir has catalog files
	artifact bool   // an OCI artifact, whose layers may be single files
}

// locate finds the catalog: in configDir, else where the image's labels point. With a configDir, or for an
// artifact, it does not read the image configuration. An artifact without annotation is a catalog as a whole.
func locate(ref name.Digest, img v1.Image, manifest *v1.Manifest, configDir string) (location, error) {
	artifact := isArtifact(manifest)
	switch {
	case configDir != "":
		return location{dir: inImage(configDir), artifact: artifact}, nil
	case artifact:
		return location{dir: inImage(manifest.Annotations[ConfigsLabel]), artifact: true}, nil
	}
	labels, err := labels(ref, img, manifest)
	if err != nil {
		return location{}, err
	}
	configs, database := labels[ConfigsLabel], labels[DatabaseLabel]
	switch {
	case configs != "":
		return location{dir: inImage(configs)}, nil
	case database == "":
		return location{}, misplacedf("the image has neither label %s nor %s, so the location of its catalog is unknown: "+
			"set spec.extractContent.configDir, or build the image with the first label", ConfigsLabel, DatabaseLabel)
	}
	file := inImage(database)
	if file == "." {
		return location{}, invalidf("the label %s of the image is %q, which is not a file name: correct it", DatabaseLabel, database)
	}
	return location{dir: path.Dir(file), database: file}, nil
}

// isArtifact distinguishes artifacts from images (OCI image specification, manifest.md, "Guidelines for Artifact
// Usage").
func isArtifact(manifest *v1.Manifest) bool {
	return manifest.ArtifactType != "" || !manifest.Config.MediaType.IsConfig()
}

// labels reads the image configuration.
func labels(ref name.Digest, img v1.Image, manifest *v1.Manifest) (map[string]string, error) {
	if manifest.Config.Size > maxConfigBytes {
		return nil, invalidf("its configuration has %d bytes, which exceeds the limit of %d", manifest.Config.Size, maxConfigBytes)
	}
	raw, err := img.RawConfigFile()
	if err != nil {
		return nil, registry.Explain("reading the image configuration", ref, err)
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(raw))
	if err != nil {
		return nil, invalidf("reading the image configuration: %w", err)
	}
	return config.Config.Labels, nil
}

// inImage converts a path from an admin or a label to a path in the image; "" is the root.
func inImage(name string) string {
	return path.Join(".", path.Clean("/" + name)[1:])
}
