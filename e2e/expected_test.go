package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"
)

// This file computes the expected OperatorPackages from the blobs of a catalog: the status of OLM v0's
// PackageManifest, as its packageserver computes it (operator-lifecycle-manager,
// pkg/package-server/provider/registry.go and pkg/package-server/apis/operators/packagemanifest.go), with
// catalogd's own decisions: lists have a fixed order, there are no icons and no alm-examples, and only valid labels
// are kept.

const supported = "supported"

// expectation is the expected content of an OperatorPackage.
type expectation struct {
	labels map[string]string
	status wantStatus
	icon   icon
}

type icon struct {
	Data      []byte `json:"base64data"`
	MediaType string `json:"mediatype"`
}

type wantStatus struct {
	CatalogSource            string        `json:"catalogSource"`
	CatalogSourceDisplayName string        `json:"catalogSourceDisplayName"`
	CatalogSourcePublisher   string        `json:"catalogSourcePublisher"`
	CatalogSourceNamespace   string        `json:"catalogSourceNamespace"`
	Provider                 link          `json:"provider"`
	PackageName              string        `json:"packageName"`
	Deprecation              *deprecation  `json:"deprecation"`
	Channels                 []wantChannel `json:"channels"`
	DefaultChannel           string        `json:"defaultChannel"`
}

type wantChannel struct {
	Name           string       `json:"name"`
	CurrentCSV     string       `json:"currentCSV"`
	CurrentCSVDesc wantCSV      `json:"currentCSVDesc"`
	Deprecation    *deprecation `json:"deprecation"`
	Entries        []wantEntry  `json:"entries"`
	labels         map[string]string
}

type wantEntry struct {
	Name        string       `json:"name"`
	Version     string       `json:"version"`
	Deprecation *deprecation `json:"deprecation"`
}

// wantCSV is currentCSVDesc.
type wantCSV struct {
	csvText
	Version       string            `json:"version"`
	Annotations   map[string]string `json:"annotations"`
	RelatedImages []string          `json:"relatedImages"`
	CRDs          apis              `json:"customresourcedefinitions"`
	APIServices   apis              `json:"apiservicedefinitions"`
	NativeAPIs    []groupKind       `json:"nativeApis"`
}

// csvText are the fields with the same name in olm.csv.metadata, in the spec of a CSV and in currentCSVDesc.
type csvText struct {
	DisplayName    string        `json:"displayName"`
	Description    string        `json:"description"`
	Provider       link          `json:"provider"`
	Keywords       []string      `json:"keywords"`
	Links          []link        `json:"links"`
	Maintainers    []maintainer  `json:"maintainers"`
	Maturity       string        `json:"maturity"`
	MinKubeVersion string        `json:"minKubeVersion"`
	InstallModes   []installMode `json:"installModes"`
}

type link struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

type maintainer struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

type installMode struct {
	Type      string `json:"type"`
	Supported bool   `json:"supported"`
}

type groupKind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

type apis struct {
	Owned    []apiDescription `json:"owned"`
	Required []apiDescription `json:"required"`
}

// apiDescription is a CRD or APIService description, with the kept fields of both. CRDs have no group.
type apiDescription struct {
	Name        string `json:"name"`
	Group       string `json:"group"`
	Version     string `json:"version"`
	Kind        string `json:"kind"`
	DisplayName string `json:"displayName"`
	Description string `json:"description"`
}

type deprecation struct {
	Message string `json:"message"`
}

// expect computes the OperatorPackage. from has the fields that the CatalogSource contributes, labels its labels.
func (p *sourcePackage) expect(from wantStatus, labels map[string]string) (expectation, error) {
	status := from
	status.PackageName = p.name
	status.Deprecation = p.deprecation("olm.package", "")
	for _, channel := range p.channels {
		want, ok, err := p.channel(channel)
		if err != nil {
			return expectation{}, fmt.Errorf("channel %s: %w", channel.Name, err)
		}
		if ok { // upstream drops a channel whose head has no CSV description
			status.Channels = append(status.Channels, want)
		}
	}
	slices.SortFunc(status.Channels, func(a, b wantChannel) int { return strings.Compare(a.Name, b.Name) })
	if len(status.Channels) == 0 {
		return expectation{}, fmt.Errorf("no channel is left")
	}
	main := slices.IndexFunc(status.Channels, func(c wantChannel) bool { return c.Name == p.pkg.DefaultChannel })
	main = max(main, 0) // the default channel was dropped: upstream falls back to the first
	status.DefaultChannel = status.Channels[main].Name
	status.Provider = status.Channels[main].CurrentCSVDesc.Provider
	return expectation{p.labels(status, status.Channels[main].labels, labels), status, p.pkg.Icon}, nil
}

func (p *sourcePackage) labels(status wantStatus, csv, catalog map[string]string) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, catalog)
	labels["provider"], labels["provider-url"] = status.Provider.Name, status.Provider.URL
	maps.Copy(labels, csv)
	labels["catalog"], labels["catalog-namespace"] = status.CatalogSource, status.CatalogSourceNamespace
	labels["catalogd.operatorframework.io/catalog-kind"] = "CatalogSource"
	maps.DeleteFunc(labels, func(key, value string) bool {
		illegal := len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0
		return illegal || value == ""
	})
	for prefix, fallback := range map[string]string{
		"operatorframework.io/os":   "operatorframework.io/os.linux",
		"operatorframework.io/arch": "operatorframework.io/arch.amd64",
	} {
		has := func(key string) bool { return strings.HasPrefix(key, prefix) }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(labels)), has) {
			labels[fallback] = supported
		}
	}
	return labels
}

func (p *sourcePackage) channel(c sourceChannel) (want wantChannel, ok bool, err error) {
	head, err := c.head()
	if err != nil {
		return want, false, err
	}
	want = wantChannel{Name: c.Name, CurrentCSV: head, Deprecation: p.deprecation("olm.channel", c.Name)}
	want.CurrentCSVDesc, want.labels, ok, err = p.describe(p.bundles[head])
	if err != nil || !ok {
		return want, false, err
	}
	for _, e := range c.Entries {
		bundle, found := p.bundles[e.Name]
		if !found {
			return want, false, fmt.Errorf("bundle %s is not in the catalog", e.Name)
		}
		if bundle.property("olm.deprecated") == nil {
			want.Entries = append(want.Entries, wantEntry{e.Name, bundle.version(), p.deprecation("olm.bundle", e.Name)})
		}
	}
	slices.SortFunc(want.Entries, byVersionThenName)
	return want, true, nil
}

// describe computes currentCSVDesc from the head of a channel: from the CSV among its olm.bundle.objects, otherwise from
// its olm.csv.metadata, for which the images are those of the bundle. ok is false if it has neither.
func (p *sourcePackage) describe(b sourceBundle) (desc wantCSV, labels map[string]string, ok bool, err error) {
	images := map[string]bool{}
	csv, isObject, err := b.csv()
	metadata := b.property("olm.csv.metadata")
	switch {
	case err != nil:
		return desc, nil, false, err
	case isObject:
		desc, labels = csv.describe(), csv.Metadata.Labels
		csv.addImages(images)
	case metadata != nil:
		desc, labels, err = fromMetadata(metadata)
		desc.Version = b.version()
		if desc.Description == "" {
			desc.Description = p.pkg.Description
		}
		for _, i := range b.RelatedImages {
			images[i.Image] = true
		}
	default:
		return desc, nil, false, nil
	}
	delete(desc.Annotations, "alm-examples")
	delete(images, "")
	desc.RelatedImages = slices.Sorted(maps.Keys(images))
	return desc, labels, true, err
}

func fromMetadata(raw []byte) (wantCSV, map[string]string, error) {
	var m struct {
		csvText
		Annotations map[string]string `json:"annotations"`
		Labels      map[string]string `json:"labels"`
		CRDs        apis              `json:"crdDescriptions"`
		APIServices apis              `json:"apiServiceDefinitions"`
		NativeAPIs  []groupKind       `json:"nativeAPIs"`
	}
	err := json.Unmarshal(raw, &m)
	return wantCSV{csvText: m.csvText, Annotations: m.Annotations, CRDs: m.CRDs.withoutGroup(),
		APIServices: m.APIServices, NativeAPIs: m.NativeAPIs}, m.Labels, err
}

func (a apis) withoutGroup() apis {
	for i := range a.Owned {
		a.Owned[i].Group = ""
	}
	for i := range a.Required {
		a.Required[i].Group = ""
	}
	return a
}

func (c *clusterServiceVersion) describe() wantCSV {
	return wantCSV{csvText: c.Spec.csvText, Version: c.Spec.Version, Annotations: c.Metadata.Annotations,
		CRDs: c.Spec.CRDs.withoutGroup(), APIServices: c.Spec.APIServices, NativeAPIs: c.Spec.NativeAPIs}
}

// addImages adds the related images and those of the deployments.
func (c *clusterServiceVersion) addImages(images map[string]bool) {
	for _, i := range c.Spec.RelatedImages {
		images[i.Image] = true
	}
	if c.Spec.Install.Strategy != "deployment" {
		return
	}
	for _, d := range c.Spec.Install.Spec.Deployments {
		pod := d.Spec.Template.Spec
		for _, c := range slices.Concat(pod.Containers, pod.InitContainers) {
			images[c.Image] = true
		}
	}
}

// byVersionThenName sorts by descending semantic version; an invalid version counts as 0.0.0. Equal versions (build
// metadata has no precedence) may have any order; this test sorts them by name.
func byVersionThenName(a, b wantEntry) int {
	if c := compareVersions(b.Version, a.Version); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

func compareVersions(a, b string) int {
	parse := func(s string) *version.Version {
		v, err := version.ParseSemantic(s)
		if err != nil {
			return version.MustParseSemantic("0.0.0")
		}
		return v
	}
	va, vb := parse(a), parse(b)
	switch {
	case va.LessThan(vb):
		return -1
	case vb.LessThan(va):
		return 1
	default:
		return 0
	}
}
