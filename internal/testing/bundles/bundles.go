// Package bundles makes bundles of the format registry+v1 for tests and benchmarks.
package bundles

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const prefix = "operators.operatorframework.io.bundle."

// Spec is a version of an operator. Package and Version are required.
type Spec struct {
	Package, Version    string
	Channels            []string // default: stable
	Default             string   // channel; default: none
	Replaces, SkipRange string
	Skips               []string
	Provides            string            // kind of the CRD, in the group PACKAGE.example; default: Foo
	Related             []string          // images
	Files               map[string]string // others, by path; they replace those of the same path
}

// Name returns the name of the bundle.
func (s Spec) Name() string { return s.Package + ".v" + s.Version }

// AllFiles returns the files of the bundle by path.
func (s Spec) AllFiles() map[string]string {
	kind := "Foo"
	if s.Provides != "" {
		kind = s.Provides
	}
	plural, group := strings.ToLower(kind)+"s", s.Package+".example"
	files := map[string]string{
		"manifests/" + s.Package + ".clusterserviceversion.yaml": s.csv(plural, group, kind),
		"manifests/" + plural + ".crd.yaml": fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s}
spec:
  group: %[2]s
  names: {kind: %[3]s, plural: %[1]s, singular: %[4]s, listKind: %[3]sList}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`, plural, group, kind, strings.ToLower(kind)),
		"metadata/annotations.yaml": s.annotations(),
	}
	maps.Copy(files, s.Files)
	return files
}

// Write writes the files of the bundle to a new directory, and returns it.
func (s Spec) Write(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range s.AllFiles() {
		file := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(file), 0o777)
		if err == nil {
			err = os.WriteFile(file, []byte(text), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (s Spec) csv(plural, group, kind string) string {
	var out strings.Builder
	fmt.Fprintf(&out, `apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: %s
  annotations: {capabilities: Basic Install, olm.skipRange: %q}
spec:
  displayName: %s
  description: Runs %[3]s.
  version: %[4]s
  provider: {name: Example}
  installModes: [{type: AllNamespaces, supported: true}]
`, s.Name(), s.SkipRange, s.Package, s.Version)
	if s.Replaces != "" {
		fmt.Fprintf(&out, "  replaces: %s\n", s.Replaces)
	}
	if len(s.Skips) > 0 {
		fmt.Fprintf(&out, "  skips: [%s]\n", strings.Join(s.Skips, ", "))
	}
	if len(s.Related) > 0 {
		out.WriteString("  relatedImages:\n")
		for i, image := range s.Related {
			fmt.Fprintf(&out, "  - {name: part-%d, image: %q}\n", i, image)
		}
	}
	fmt.Fprintf(&out, `  customresourcedefinitions: {owned: [{name: %s.%s, kind: %s, version: v1}]}
  install:
    strategy: deployment
    spec:
      deployments:
      - name: %[4]s
        spec:
          selector: {matchLabels: {app: %[4]s}}
          template:
            metadata: {labels: {app: %[4]s}}
            spec: {containers: [{name: main, image: "registry.example/%[4]s:v%[5]s"}]}
`, plural, group, kind, s.Package, s.Version)
	return out.String()
}

// labels returns the labels of the image, which are also the annotations of metadata/annotations.yaml.
func (s Spec) labels() map[string]string {
	channels := s.Channels
	if channels == nil {
		channels = []string{"stable"}
	}
	labels := map[string]string{
		prefix + "mediatype.v1": "registry+v1", prefix + "manifests.v1": "manifests/", prefix + "metadata.v1": "metadata/",
		prefix + "package.v1": s.Package, prefix + "channels.v1": strings.Join(channels, ","),
	}
	if s.Default != "" {
		labels[prefix+"channel.default.v1"] = s.Default
	}
	return labels
}

func (s Spec) annotations() string {
	var out strings.Builder
	out.WriteString("annotations:\n")
	labels := s.labels()
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&out, "  %s: %q\n", key, labels[key])
	}
	return out.String()
}

// Image is Build for a test.
func (s Spec) Image(t testing.TB) v1.Image {
	t.Helper()
	image, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// Build returns the image of the bundle, with a layer for manifests and one for metadata.
func (s Spec) Build() (v1.Image, error) {
	layers := map[string]map[string][]byte{}
	for file, text := range s.AllFiles() {
		top, _, _ := strings.Cut(path.Clean(file), "/")
		if layers[top] == nil {
			layers[top] = map[string][]byte{}
		}
		layers[top][file] = []byte(text)
	}
	image := empty.Image
	for _, top := range slices.Sorted(maps.Keys(layers)) {
		layer, err := crane.Layer(layers[top])
		if err != nil {
			return nil, err
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return nil, err
		}
	}
	return mutate.Config(image, v1.Config{Labels: s.labels()})
}

// Push pushes the image of the bundle to registry/PACKAGE:vVERSION, and returns that reference.
func (s Spec) Push(t testing.TB, registry string) string {
	t.Helper()
	ref := fmt.Sprintf("%s/%s:v%s", registry, s.Package, s.Version)
	tag, err := name.NewTag(ref)
	if err == nil {
		err = remote.Write(tag, s.Image(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	return ref
}
