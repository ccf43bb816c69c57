package catalogs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// leastBundle is the size of a minimal bundle as compact JSON.
const leastBundle = 2800

type (
	// object is a JSON object whose key order does not matter; encoding/json sorts the keys.
	object = map[string]any

	packageBlob struct {
		Schema         string `json:"schema"`
		Name           string `json:"name"`
		DefaultChannel string `json:"defaultChannel"`
		Icon           *icon  `json:"icon,omitempty"`
		Description    string `json:"description,omitempty"`
	}
	icon struct {
		Data      string `json:"base64data"`
		MediaType string `json:"mediatype"`
	}
	channelBlob struct {
		Schema  string  `json:"schema"`
		Name    string  `json:"name"`
		Package string  `json:"package"`
		Entries []entry `json:"entries"`
	}
	entry struct {
		Name      string `json:"name"`
		Replaces  string `json:"replaces,omitempty"`
		SkipRange string `json:"skipRange,omitempty"`
	}
	bundleBlob struct {
		Schema        string     `json:"schema"`
		Name          string     `json:"name"`
		Package       string     `json:"package"`
		Image         string     `json:"image"`
		Properties    []property `json:"properties"`
		RelatedImages []object   `json:"relatedImages"`
	}
	property struct {
		Type  string `json:"type"`
		Value any    `json:"value"`
	}
)

// author generates the blobs of one package. Its bundles change little from one version to the next.
type author struct {
	plan
	*writer
	group, kind         string
	paragraphs          []string          // of descriptions, of some 400 bytes each
	descriptors         []json.RawMessage // of fields of custom resources, of some 400 bytes each
	examples            []string          // custom resources as JSON, of some 500 bytes each
	title, organization string
}

func newAuthor(p plan, seed uint64) *author {
	a := &author{plan: p, writer: newWriter(newRand(seed, uint64(p.number)))}
	a.group, a.kind = a.word()+".example.com", a.identifier(2)
	a.title, a.organization = a.identifier(1)+" "+a.identifier(1), a.identifier(1)+" Project"
	return a
}

// blobs returns the blobs of the package: olm.package, its channels, its bundles from the lowest version.
func (a *author) blobs() []any {
	blobs := []any{a.olmPackage()}
	for i := range a.channels {
		blobs = append(blobs, a.channel(i))
	}
	for i := range a.bundles {
		blobs = append(blobs, a.bundle(i, a.bundleBytes(i)))
	}
	return blobs
}

func (a *author) olmPackage() packageBlob {
	p := packageBlob{Schema: "olm.package", Name: a.name, DefaultChannel: "stable", Description: a.text(1700)}
	if a.plan.icon > 0 {
		data, mediaType := a.writer.icon(a.plan.icon)
		p.Icon = &icon{data, mediaType}
	}
	return p
}

// channel returns channel i. The first has all versions, the others the later half, third and so on.
func (a *author) channel(i int) channelBlob {
	if i == 0 {
		return a.channelFrom("stable", 0)
	}
	return a.channelFrom(fmt.Sprintf("v%d.x", i), a.bundles-max(1, a.bundles/(i+1)))
}

func (a *author) channelFrom(name string, first int) channelBlob {
	c := channelBlob{Schema: "olm.channel", Name: name, Package: a.name}
	for i := first; i < a.bundles; i++ {
		e := entry{Name: a.bundleName(i)}
		if i > 0 {
			e.Replaces = a.bundleName(i - 1)
		}
		if i%9 == 8 {
			e.SkipRange = ">=0.1.0 <" + versionOf(i)
		}
		c.Entries = append(c.Entries, e)
	}
	return c
}

func versionOf(i int) string { return fmt.Sprintf("%d.%d.%d", 1+i/50, i%50/5, i%5) }

func (a *author) bundleName(i int) string { return a.name + ".v" + versionOf(i) }

// bundleBytes returns the size of bundle i. Later bundles are larger, much larger in huge packages.
func (a *author) bundleBytes(i int) int {
	growth := .3
	if a.huge {
		growth = .95
	}
	if a.bundles == 1 {
		return int(a.each)
	}
	return int(a.each * (1 - growth + 2*growth*float64(i)/float64(a.bundles-1)))
}

// bundle returns bundle i with about size bytes as compact JSON.
func (a *author) bundle(i, size int) bundleBlob {
	b := bundleBlob{Schema: "olm.bundle", Name: a.bundleName(i), Package: a.name, Image: a.image(a.name)}
	for _, suffix := range []string{"", "-agent"} {
		b.RelatedImages = append(b.RelatedImages, object{"name": a.name + suffix, "image": a.image(a.name + suffix)})
	}
	for k := range min(5, 1+size/3000) {
		b.Properties = append(b.Properties, property{
			"olm.gvk", object{"group": a.group, "kind": fmt.Sprintf("%s%d", a.kind, k), "version": "v1alpha1"},
		})
	}
	b.Properties = append(b.Properties, property{"olm.package", object{"packageName": a.name, "version": versionOf(i)}})
	rest := max(100, size-len(compact(b))-1850)
	if a.objects {
		b.Properties = append(b.Properties, a.bundleObjects(i, rest)...)
		return b
	}
	metadata := a.metadata(i, rest*15/100, rest*30/100)
	metadata["crdDescriptions"] = object{"owned": a.resources(rest * 55 / 100)}
	b.Properties = append(b.Properties, property{"olm.csv.metadata", metadata})
	return b
}

// metadata returns the common content of olm.csv.metadata and of the spec of a ClusterServiceVersion, without
// resources.
func (a *author) metadata(i, description, examples int) object {
	return object{
		"annotations": object{
			"alm-examples":   a.almExamples(examples),
			"capabilities":   "Seamless Upgrades",
			"categories":     "Integration & Delivery, Networking",
			"certified":      "false",
			"containerImage": a.image(a.name),
			"createdAt":      fmt.Sprintf("202%d-0%d-1%dT20:16:38Z", i/50%10, 1+i%9, i%10),
			"description":    "Creates, scales and backs up " + a.title,
			"repository":     "https://github.com/example/" + a.name,
			"support":        a.organization,
		},
		"apiServiceDefinitions": object{},
		"description":           a.description(description),
		"displayName":           a.title,
		"installModes": []object{
			{"type": "OwnNamespace", "supported": true}, {"type": "SingleNamespace", "supported": true},
			{"type": "MultiNamespace", "supported": false}, {"type": "AllNamespaces", "supported": true},
		},
		"keywords": []string{a.title, a.kind, "operator"},
		"labels":   object{"operatorframework.io/arch.amd64": "supported", "operatorframework.io/os.linux": "supported"},
		"links": []object{
			{"name": "Documentation", "url": "https://docs.example.com/" + a.name},
			{"name": "Source", "url": "https://github.com/example/" + a.name},
		},
		"maintainers":    []object{{"name": a.organization, "email": "team@" + a.group}},
		"maturity":       "stable",
		"minKubeVersion": "1.25.0",
		"provider":       object{"name": a.organization, "url": "https://example.com"},
	}
}

// changes reports whether this version has new text.
func (a *author) changes() bool { return a.r.IntN(40) == 0 }

func (a *author) description(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		if i == len(a.paragraphs) {
			a.paragraphs = append(a.paragraphs, "")
		}
		if a.paragraphs[i] == "" || a.changes() {
			a.paragraphs[i] = "## " + a.identifier(2) + "\n" + a.text(380) + "\n\n"
		}
		b.WriteString(a.paragraphs[i])
	}
	return b.String()[:n]
}

func (a *author) almExamples(n int) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := 0; b.Len()*5/4 < n; i++ { // characters that need escapes make it longer
		if i == len(a.examples) {
			a.examples = append(a.examples, "")
		}
		if a.examples[i] == "" || a.changes() {
			a.examples[i] = fmt.Sprintf("\n  {\n    \"apiVersion\": %q,\n    \"kind\": %q,\n    \"metadata\": {\n      \"name\": %q\n    "+
				"},\n    \"spec\": {\n      %q: %q,\n      \"replicas\": %d,\n      %q: [\n        %q,\n        %q\n      ],\n      %q: %q\n    }\n  }",
				a.group+"/v1alpha1", a.kind+"0", a.word()+"-sample", a.word(), a.word(), a.r.IntN(9), a.word(), a.word(), a.word(), a.word(),
				a.text(60))
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(a.examples[i])
	}
	b.WriteString("\n]")
	return b.String()
}

// resources describes the custom resources of the operator, in about n bytes.
func (a *author) resources(n int) []object {
	const most = 40 // descriptors of a resource
	descriptors := a.fields(n)
	var owned []object
	for k := 0; k == 0 || len(descriptors) > 0; k++ {
		share := min(most, len(descriptors))
		owned = append(owned, object{
			"name": fmt.Sprintf("%ss%d.%s", strings.ToLower(a.kind), k, a.group), "kind": fmt.Sprintf("%s%d", a.kind, k), "version": "v1alpha1",
			"displayName": a.kind, "description": "What " + a.title + " runs", "specDescriptors": descriptors[:share],
		})
		descriptors = descriptors[share:]
	}
	return owned
}

// fields describes fields of custom resources in about n bytes.
func (a *author) fields(n int) []json.RawMessage {
	sum, i := 0, 0
	for ; sum < n; i++ {
		if i == len(a.descriptors) {
			a.descriptors = append(a.descriptors, nil)
		}
		if a.descriptors[i] == nil || a.changes() {
			a.descriptors[i] = compact(object{
				"path": a.word() + "." + a.word(), "displayName": a.identifier(2), "description": a.text(80 + a.r.IntN(400)),
				"x-descriptors": []string{"urn:alm:descriptor:com.tectonic.ui:text"},
			})
		}
		sum += len(a.descriptors[i]) + 1
	}
	return a.descriptors[:i:i]
}

// bundleObjects returns a ClusterServiceVersion and some CustomResourceDefinitions that take about n bytes as properties.
func (a *author) bundleObjects(i, n int) []property {
	const definitions = 5
	raw := n * 3 / 4
	spec := a.metadata(i, raw*5/100, 0)
	metadata := object{"name": a.bundleName(i), "annotations": spec["annotations"]}
	delete(spec, "annotations")
	delete(spec, "apiServiceDefinitions")
	spec["version"] = versionOf(i)
	spec["customresourcedefinitions"] = object{"owned": a.resources(raw * 10 / 100)}
	objects := []any{
		object{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": metadata, "spec": spec},
	}
	for k := range definitions {
		objects = append(objects, object{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": object{"name": fmt.Sprintf("%ss%d.%s", strings.ToLower(a.kind), k, a.group)},
			"spec": object{"group": a.group, "scope": "Namespaced", "versions": []object{{
				"name": "v1alpha1", "schema": object{"openAPIV3Schema": object{"type": "object", "anyOf": a.fields(raw * 85 / 100 / definitions)}}}}},
		})
	}
	properties := make([]property, len(objects))
	for k, o := range objects {
		properties[k] = property{"olm.bundle.object", object{"data": base64.StdEncoding.EncodeToString(compact(o))}}
	}
	return properties
}

// compact returns compact JSON without HTML escapes, like opm.
func compact(value any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(fmt.Sprintf("encoding what was made up here: %v", err)) // strings, numbers and lists of them
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
