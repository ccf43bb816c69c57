// Package bundle reads bundles of the format registry+v1: the manifests and metadata of one version of an operator. They are in
// an image, which pull.Puller pulls on demand, or in the catalog, as properties olm.bundle.object.
//
// The format is that of operator-registry, docs/design/operator-bundle.md. Readers of it differ in what they accept, so a
// bundle is kept as files, byte for byte; objects are read from them as far as possible.
package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json" // as the API server, it distinguishes upper and lower case

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// Labels of a bundle image, which metadata/annotations.yaml repeats.
const (
	labelPrefix    = "operators.operatorframework.io.bundle."
	MediaTypeLabel = labelPrefix + "mediatype.v1"
	ManifestsLabel = labelPrefix + "manifests.v1"
	MetadataLabel  = labelPrefix + "metadata.v1"
	PackageLabel   = labelPrefix + "package.v1"

	// MediaType is the value of MediaTypeLabel for the supported format.
	MediaType = "registry+v1"
)

// Content is the index of a bundle, in JSON.
type Content struct {
	Image       string            `json:"image,omitempty"`       // as the catalog names it
	Digest      string            `json:"digest,omitempty"`      // of the image; empty for content of the catalog
	Pinned      bool              `json:"pinned"`                // whether the catalog names the image by its digest, or has no image
	FromCatalog bool              `json:"fromCatalog,omitempty"` // the objects are those in the catalog, which may not be those of the image
	Labels      map[string]string `json:"labels,omitempty"`      // of the image
	Files       []File            `json:"files"`                 // sorted by path
}

// File is a file of a bundle.
type File struct {
	Path    string   `json:"path"` // in the image, such as manifests/csv.yaml
	Bytes   int64    `json:"bytes"`
	SHA256  string   `json:"sha256"`            // in hex
	Objects []Object `json:"objects,omitempty"` // of a manifest, in the order of the file; the items of a List one by one
	Fault   string   `json:"fault,omitempty"`   // why some objects of a manifest cannot be read
}

// Object names a Kubernetes object.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
}

const (
	// maxObject limits a document in bytes, as decoding takes many times its size. etcd accepts objects of 1.5 MiB.
	maxObject = 1536 << 10
	// maxObjects and maxLines limit the objects of a bundle, and the bytes of their JSON.
	maxObjects = 10_000
	// maxName limits each name of an object. Those of Kubernetes have at most 253 bytes; the index has all in memory.
	maxName  = 512
	maxLines = 16 << 20
)

// builder makes the index of a bundle, and the JSON of its objects, of one file after the other.
type builder struct {
	content Content
	lines   bytes.Buffer // an object each, in the order of the index
	objects int
}

// add adds a file. It keeps nothing of data. A manifest has objects, whatever its extension: operator-registry reads all files but
// hidden ones.
func (b *builder) add(name string, data []byte, isManifest bool) {
	sum := sha256.Sum256(data)
	file := File{Path: name, Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
	if isManifest && !strings.HasPrefix(path.Base(name), ".") {
		if err := b.addObjects(&file, data); err != nil {
			file.Fault = err.Error()
		}
	}
	b.content.Files = append(b.content.Files, file)
}

// addObjects reads the objects of a manifest, up to the first error.
func (b *builder) addObjects(file *File, data []byte) error {
	number := 0
	return scan.Objects(data, maxObject, func(object []byte) error {
		number++
		if err := b.addValue(file, object, maxLists); err != nil {
			return fmt.Errorf("document %d: %w", number, err)
		}
		return nil
	})
}

// addValue adds an object, or the items of a list, as kubectl does.
func (b *builder) addValue(file *File, value []byte, lists int) error {
	var list struct {
		metav1.TypeMeta
		Items []json.RawMessage `json:"items"`
	}
	if err := utiljson.Unmarshal(value, &list); err != nil || !strings.HasSuffix(list.Kind, "List") || list.Items == nil {
		return b.addObject(file, value)
	}
	if lists == 0 {
		return fmt.Errorf("nesting of lists exceeds the limit of %d", maxLists)
	}
	for _, item := range list.Items {
		if err := b.addValue(file, item, lists-1); err != nil {
			return err
		}
	}
	return nil
}

// maxLists limits lists within lists, each of which is decoded again.
const maxLists = 5

func (b *builder) addObject(file *File, object []byte) error {
	var head struct {
		metav1.TypeMeta
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	if err := utiljson.Unmarshal(object, &head); err != nil {
		return errors.New("it is not a Kubernetes object: apiVersion, kind and metadata.name must be strings")
	}
	switch longest := max(len(head.APIVersion), len(head.Kind), len(head.Metadata.Name), len(head.Metadata.Namespace)); {
	case head.Kind == "" || head.APIVersion == "":
		return errors.New("apiVersion or kind is missing")
	case longest > maxName:
		return fmt.Errorf("its apiVersion, kind, name or namespace has %d bytes, which exceeds the limit of %d", longest, maxName)
	}
	if b.objects++; b.objects > maxObjects || b.lines.Len()+len(object) > maxLines {
		return fmt.Errorf("the objects of the bundle exceed the limit of %d objects or %d bytes", maxObjects, maxLines)
	}
	b.lines.Write(object)
	b.lines.WriteByte('\n')
	file.Objects = append(file.Objects, Object{head.APIVersion, head.Kind, head.Metadata.Name, head.Metadata.Namespace})
	return nil
}

// Annotations returns the annotations of metadata/annotations.yaml. As in operator-registry, a file that cannot be read has none.
func Annotations(file []byte) (annotations map[string]string) {
	_ = scan.Objects(file, maxObject, func(object []byte) error {
		var value struct {
			Annotations map[string]string `json:"annotations"`
		}
		if err := utiljson.Unmarshal(object, &value); err != nil {
			return err
		}
		annotations = value.Annotations
		return errFirst
	})
	return annotations
}

var errFirst = errors.New("only the first document counts")

// Faults returns the paths of the manifests that could not be read as a whole.
func (c *Content) Faults() (paths []string) {
	for _, file := range c.Files {
		if file.Fault != "" {
			paths = append(paths, file.Path)
		}
	}
	return paths
}
