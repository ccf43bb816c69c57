package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/action/migrations"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/image"
	"github.com/operator-framework/operator-registry/pkg/registry"
	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// Format is the form in which blobs have the manifests of bundles.
type Format int

const (
	// Metadata is the property olm.csv.metadata, which OpenShift 4.17 and later need.
	Metadata Format = iota
	// Objects is a property olm.bundle.object for each manifest, which OpenShift before 4.17 needs. opm renders it by default.
	Objects
)

// Apply converts the properties of a bundle that has objects. A bundle without an image keeps them, as nothing else has them.
func (f Format) Apply(b *declcfg.Bundle) error {
	if f == Objects {
		return nil
	}
	migration, err := migrations.NewMigrations("bundle-object-to-csv-metadata")
	if err != nil {
		return err
	}
	one := &declcfg.DeclarativeConfig{Bundles: []declcfg.Bundle{*b}}
	if err := migration.Migrate(one); err != nil {
		return fmt.Errorf("converting the CSV to olm.csv.metadata: %w", err)
	}
	*b = one.Bundles[0]
	return nil
}

// manifests is what a bundle has, whatever the reference of its image.
type manifests struct {
	Bundle   declcfg.Bundle // without an image; its properties have the objects
	CSV      string         // JSON
	Objects  []string       // JSON
	Release  Release
	Warnings []string
}

// read reads a directory with a bundle, with operator-registry's parser.
func read(dir string) (*manifests, error) {
	warnings, err := faults(filepath.Join(dir, "manifests"))
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(filepath.Join(dir, "metadata")); err != nil || !info.IsDir() {
		return nil, errors.New("it has no directory metadata: kubectl catalog bundle init makes it")
	}
	logrus.SetLevel(logrus.PanicLevel) // faults names what the parser logs
	input, err := registry.NewImageInput(image.SimpleReference(""), dir)
	if err != nil {
		return nil, errors.New(strings.ToLower(err.Error()[:1]) + err.Error()[1:] + describe(warnings))
	}
	parsed := input.Bundle
	objects, properties, err := registry.ObjectsAndPropertiesFromBundle(parsed)
	if err != nil {
		return nil, fmt.Errorf("deriving the properties of bundle %q: %w", parsed.Name, err)
	}
	csv, err := parsed.ClusterServiceVersion()
	if err != nil {
		return nil, err
	}
	text := slices.IndexFunc(parsed.Objects, isCSV)
	raw, err := json.Marshal(parsed.Objects[text])
	if err != nil {
		return nil, err
	}
	m := &manifests{
		Bundle:   declcfg.Bundle{Schema: declcfg.SchemaBundle, Name: parsed.Name, Package: parsed.Package, Properties: objectsLast(properties)},
		CSV:      string(raw),
		Objects:  objects,
		Release:  Release{Channels: parsed.Channels, DefaultChannel: parsed.Annotations.DefaultChannelName, SkipRange: csv.GetSkipRange()},
		Warnings: warnings,
	}
	if m.Bundle.RelatedImages, err = relatedImages(csv); err != nil {
		return nil, fmt.Errorf("reading the related images of bundle %q: %w", parsed.Name, err)
	}
	return m, m.readRelease(parsed)
}

// readRelease reads what the CSV says of upgrades.
func (m *manifests) readRelease(b *registry.Bundle) (err error) {
	if m.Release.Replaces, err = b.Replaces(); err != nil {
		return fmt.Errorf("reading spec.replaces of CSV %q: %w", b.Name, err)
	}
	if m.Release.Skips, err = b.Skips(); err != nil {
		return fmt.Errorf("reading spec.skips of CSV %q: %w", b.Name, err)
	}
	if m.Release.Version, err = b.Version(); err != nil {
		return fmt.Errorf("reading spec.version of CSV %q: %w", b.Name, err)
	}
	return nil
}

// objectsLast returns properties with those that have manifests at the end, as opm writes them.
func objectsLast(properties []property.Property) []property.Property {
	hasManifests := func(p property.Property) int {
		if p.Type == property.TypeBundleObject || p.Type == property.TypeCSVMetadata {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(properties, func(a, b property.Property) int { return hasManifests(a) - hasManifests(b) })
	return properties
}

// relatedImages returns the related images of a CSV and the images of its deployments, sorted by image as opm does
// (alpha/action/render.go).
func relatedImages(csv *registry.ClusterServiceVersion) (images []declcfg.RelatedImage, err error) {
	var spec struct {
		RelatedImages []declcfg.RelatedImage `json:"relatedImages"`
	}
	if err := json.Unmarshal(csv.Spec, &spec); err != nil {
		return nil, err
	}
	operator, err := csv.GetOperatorImages()
	if err != nil {
		return nil, err
	}
	b := &declcfg.Bundle{RelatedImages: spec.RelatedImages}
	for image := range operator {
		addRelated(b, image)
	}
	sortRelated(b.RelatedImages)
	return b.RelatedImages, nil
}

// addRelated adds an image that the bundle does not have, at its place.
func addRelated(b *declcfg.Bundle, image string) {
	for _, related := range b.RelatedImages {
		if related.Image == image {
			return
		}
	}
	b.RelatedImages = append(slices.Clip(b.RelatedImages), declcfg.RelatedImage{Image: image})
	sortRelated(b.RelatedImages)
}

func sortRelated(images []declcfg.RelatedImage) {
	slices.SortStableFunc(images, func(a, b declcfg.RelatedImage) int { return strings.Compare(a.Image, b.Image) })
}

// maxManifest limits a document of a manifest in bytes, as in package bundle.
const maxManifest = 1536 << 10

// faults returns the faults of the manifests in a directory that operator-registry's parser ignores. It reads the first document
// of each file and the first CSV only; OLM v1 reads all of them.
func faults(dir string) (found []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("it has no directory manifests")
	}
	if err != nil {
		return nil, err
	}
	csvs := 0
	for _, entry := range entries {
		if entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		documents := 0
		err = scan.Objects(data, maxManifest, func(object []byte) error {
			documents++
			var kind struct{ Kind string }
			if json.Unmarshal(object, &kind) == nil && kind.Kind == "ClusterServiceVersion" {
				csvs++
			}
			return nil
		})
		switch {
		case err != nil:
			found = append(found, fmt.Sprintf("manifests/%s is ignored, as it cannot be read: %v", entry.Name(), err))
		case documents > 1:
			found = append(found, fmt.Sprintf("manifests/%s has %d documents: opm reads the first only; write one file for each", entry.Name(), documents))
		}
	}
	if csvs > 1 {
		found = append(found, fmt.Sprintf("it has %d ClusterServiceVersions: opm reads the first only; remove the others", csvs))
	}
	return found, nil
}

// describe returns faults as the end of an error.
func describe(faults []string) string {
	if len(faults) == 0 {
		return ""
	}
	return " (" + strings.Join(faults, "; ") + ")"
}

func isCSV(object *unstructured.Unstructured) bool {
	return object.GetKind() == "ClusterServiceVersion"
}
