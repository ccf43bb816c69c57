package publish

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/store"
)

const (
	namespaceLabel   = "catalog-namespace"
	providerURLLabel = "provider-url"
	osLabelPrefix    = "operatorframework.io/os."
	archLabelPrefix  = "operatorframework.io/arch."

	// almExamples are sample custom resources, up to 49 kB for a head; no list shows them.
	almExamples = "alm-examples"
)

// objectName returns the name of a package's OperatorPackage. Names of valid packages are DNS labels, so the first dot
// separates, and names are unique.
func objectName(pkg, catalog string) string { return pkg + "." + catalog }

// catalog has the fields that a catalog adds to its packages. Apart from these, the builder knows only the owner of the
// packages, whose change makes all of them be written again. The hash covers every field.
type catalog struct {
	Name               string
	Labels             map[string]string
	Display, Publisher string
	Priority           int32
	Namespace          string
	BaseURL            string
}

// builder makes the OperatorPackages of a catalog.
type builder struct {
	catalog
	owner metav1.OwnerReference
}

func (p Publisher) builder(src source.Source) builder {
	owner := &metav1.ObjectMeta{Name: src.Name, UID: src.UID}
	return builder{
		catalog: catalog{
			Name: src.Name, Labels: src.Labels, Display: src.Names.Display, Publisher: src.Names.Publisher, Priority: src.Priority,
			Namespace: p.Namespace, BaseURL: p.BaseURL,
		},
		owner: *metav1.NewControllerRef(owner, src.Kind),
	}
}

// hasher returns a function that hashes all that an OperatorPackage is made from: the code (see revision), the catalog, and
// the blobs of the package. It needs no decoded package, as every poll hashes all of them.
func (b builder) hasher() func(store.PackageVersion) string {
	common, _ := json.Marshal([]any{revision(), b.catalog}) // strings, a number and a map of strings: it cannot fail
	return func(version store.PackageVersion) string {
		sum := sha256.Sum256(slices.Concat(common, []byte(version.Name), []byte{0}, []byte(version.Hash)))
		return hex.EncodeToString(sum[:16])
	}
}

// build makes the OperatorPackage of a package as OLM's packageserver makes a PackageManifest (newPackageManifest of
// operator-lifecycle-manager), with lists in a fixed order. It leaves out channels whose head has no usable CSV; if none
// remains, the error is an *unfitError.
func (b builder) build(pkg *fbc.Package, heads map[string]head) (*v1beta1.OperatorPackage, error) {
	channels := buildChannels(pkg, heads)
	if len(channels) == 0 {
		return nil, &unfitError{fmt.Sprintf("no channel has a head with a usable CSV: %v", heads[pkg.Channels[0].Head].err)}
	}
	def := channels[0] // if the default channel was left out, as packageserver does
	for _, ch := range channels {
		if ch.Name == pkg.DefaultChannel {
			def = ch
		}
	}
	url := b.BaseURL + "/catalogs/" + b.Name + "/api/v1/packages/" + pkg.Name

	out := &v1beta1.OperatorPackage{
		ObjectMeta: metav1.ObjectMeta{
			Name:            objectName(pkg.Name, b.Name),
			Labels:          b.labels(heads[def.CurrentCSV]),
			OwnerReferences: []metav1.OwnerReference{b.owner},
		},
		Spec: v1beta1.OperatorPackageSpec{PackageName: pkg.Name, Catalog: b.Name, Priority: b.Priority},
		Status: v1beta1.OperatorPackageStatus{
			Summary: v1beta1.PackageSummary{
				DisplayName: cmp.Or(def.CurrentCSVDesc.DisplayName, pkg.Name),
				Catalog:     cmp.Or(b.Display, b.Name),
				Channel:     def.Name,
				Version:     def.CurrentCSVDesc.Version,
			},
			CatalogSource:            b.Name,
			CatalogSourceDisplayName: b.Display,
			CatalogSourcePublisher:   b.Publisher,
			CatalogSourceNamespace:   b.Namespace,
			Provider:                 def.CurrentCSVDesc.Provider,
			PackageName:              pkg.Name,
			Deprecation:              deprecation(pkg.Deprecation),
			Channels:                 channels,
			DefaultChannel:           def.Name,
			URLs:                     v1beta1.PackageURLs{Package: url},
		},
	}
	if pkg.HasIcon {
		out.Status.URLs.Icon = url + "/icon"
	}
	return out, nil
}

// head is the part of a channel head that lists show, or why it has no usable CSV. It does not hold the whole CSV, which has
// the largest parts of a package.
type head struct {
	shown  v1beta1.CSVDescription
	labels map[string]string
	err    error
}

// readHeads reads each channel head of a package once. Its error is one of the store.
func readHeads(ctx context.Context, snap *store.Snapshot, pkg *fbc.Package) (map[string]head, error) {
	heads := map[string]head{}
	for _, ch := range pkg.Channels {
		if _, ok := heads[ch.Head]; ok {
			continue
		}
		query := store.Query{Schema: fbc.SchemaBundle, Package: pkg.Name, Name: ch.Head}
		for blob, err := range snap.Select(query).Verified(ctx) {
			if err != nil {
				return nil, err
			}
			heads[ch.Head] = headOf(ch.Head, blob, pkg)
		}
	}
	return heads, nil
}

func headOf(name string, bundle []byte, pkg *fbc.Package) head {
	csv, err := fbc.CSV(bundle, pkg.Description)
	if err != nil {
		return head{err: fmt.Errorf("bundle %s has %w", name, err)}
	}
	return head{shown: listed(csv), labels: csv.Labels}
}

func buildChannels(pkg *fbc.Package, heads map[string]head) []v1beta1.PackageChannel {
	var out []v1beta1.PackageChannel
	for _, ch := range pkg.Channels {
		head, ok := heads[ch.Head]
		if !ok || head.err != nil {
			continue
		}
		entries := make([]v1beta1.ChannelEntry, len(ch.Entries))
		for i, e := range ch.Entries {
			entries[i] = v1beta1.ChannelEntry{Name: e.Name, Version: e.Version, Deprecation: deprecation(e.Deprecation)}
		}
		out = append(out, v1beta1.PackageChannel{
			Name:           ch.Name,
			CurrentCSV:     ch.Head,
			CurrentCSVDesc: head.shown,
			Deprecation:    deprecation(ch.Deprecation),
			Entries:        entries,
		})
	}
	return out
}

func deprecation(message string) *v1beta1.Deprecation {
	if message == "" {
		return nil
	}
	return &v1beta1.Deprecation{Message: message}
}

// listed returns the part of a CSV that lists show (CreateCSVDescription of operator-lifecycle-manager).
func listed(csv *v1alpha1.ClusterServiceVersion) v1beta1.CSVDescription {
	d := v1beta1.CSVDescription{
		DisplayName:     csv.Spec.DisplayName,
		Version:         csv.Spec.Version.String(),
		Provider:        v1beta1.AppLink{Name: csv.Spec.Provider.Name, URL: csv.Spec.Provider.URL},
		Annotations:     maps.Clone(csv.Annotations),
		Keywords:        csv.Spec.Keywords,
		Maturity:        csv.Spec.Maturity,
		LongDescription: csv.Spec.Description,
		MinKubeVersion:  csv.Spec.MinKubeVersion,
		RelatedImages:   fbc.Images(csv),
	}
	delete(d.Annotations, almExamples)
	for _, l := range csv.Spec.Links {
		d.Links = append(d.Links, v1beta1.AppLink{Name: l.Name, URL: l.URL})
	}
	for _, m := range csv.Spec.Maintainers {
		d.Maintainers = append(d.Maintainers, v1beta1.Maintainer{Name: m.Name, Email: m.Email})
	}
	for _, m := range csv.Spec.InstallModes {
		d.InstallModes = append(d.InstallModes, v1beta1.InstallMode{Type: string(m.Type), Supported: m.Supported})
	}
	for _, a := range csv.Spec.NativeAPIs {
		d.NativeAPIs = append(d.NativeAPIs, v1beta1.GroupVersionKind{Group: a.Group, Version: a.Version, Kind: a.Kind})
	}
	d.CustomResourceDefinitions.Owned = listedCRDs(csv.Spec.CustomResourceDefinitions.Owned)
	d.CustomResourceDefinitions.Required = listedCRDs(csv.Spec.CustomResourceDefinitions.Required)
	d.APIServiceDefinitions.Owned = listedAPIServices(csv.Spec.APIServiceDefinitions.Owned)
	d.APIServiceDefinitions.Required = listedAPIServices(csv.Spec.APIServiceDefinitions.Required)
	return d
}

func listedCRDs(in []v1alpha1.CRDDescription) (out []v1beta1.CRDDescription) {
	for _, d := range in {
		out = append(out, v1beta1.CRDDescription{
			Name: d.Name, Version: d.Version, Kind: d.Kind, DisplayName: d.DisplayName, Description: d.Description,
		})
	}
	return out
}

func listedAPIServices(in []v1alpha1.APIServiceDescription) (out []v1beta1.APIServiceDescription) {
	for _, d := range in {
		out = append(out, v1beta1.APIServiceDescription{
			Name: d.Name, Group: d.Group, Version: d.Version, Kind: d.Kind, DisplayName: d.DisplayName, Description: d.Description,
		})
	}
	return out
}

// labels returns the labels of a PackageManifest that an API server accepts; packageserver has no such limit. The content of
// a catalog cannot override the labels that name its owner.
func (b builder) labels(head head) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, b.Labels)
	labels[v1beta1.ProviderLabel] = head.shown.Provider.Name
	labels[providerURLLabel] = head.shown.Provider.URL
	maps.Copy(labels, head.labels)
	labels[v1beta1.CatalogLabel] = b.Name
	labels[v1beta1.CatalogKindLabel] = b.owner.Kind
	labels[namespaceLabel] = b.Namespace
	maps.DeleteFunc(labels, func(key, value string) bool {
		return len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0
	})
	for _, prefix := range []string{osLabelPrefix, archLabelPrefix} {
		if !hasPrefix(labels, prefix) {
			labels[defaultPlatform[prefix]] = "supported"
		}
	}
	return labels
}

// defaultPlatform is assumed for operators that name no platform.
var defaultPlatform = map[string]string{osLabelPrefix: osLabelPrefix + "linux", archLabelPrefix: archLabelPrefix + "amd64"}

func hasPrefix(labels map[string]string, prefix string) bool {
	for key := range labels {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
