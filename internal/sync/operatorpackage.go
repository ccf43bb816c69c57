package sync

import (
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
	"github.com/operator-catalogs/catalogd/internal/store"
)

// packageRevision is part of every content hash. Raise it when buildPackage makes something else of the same catalog,
// so that the objects of earlier versions are written anew.
const packageRevision = 1

const (
	catalogNamespaceLabel = "catalog-namespace"
	providerURLLabel      = "provider-url"
	osLabelPrefix         = "operatorframework.io/os."
	archLabelPrefix       = "operatorframework.io/arch."

	// almExamples are custom resources to try, up to 49 kB a head; no list shows them.
	almExamples = "alm-examples"
)

// unfitError says why a sound package cannot be shown as a PackageManifest.
type unfitError struct{ reason string }

func (e *unfitError) Error() string { return e.reason }

// objectName is the name of a package's OperatorPackage. Package names that are no DNS labels are not sound, so the
// last dot separates and no two packages meet.
func objectName(pkg, catalog string) string { return pkg + "." + catalog }

// contentHashes returns what names the content that the OperatorPackages of a catalog are made from: the bytes of the package and
// what its catalog adds. That is made up once: every poll asks for the hash of every package.
func (r *CatalogReconciler) contentHashes(c *v1beta1.CatalogSource) func(store.PackageVersion) string {
	catalog, _ := json.Marshal([]any{ // strings, numbers and a map of strings: it cannot fail
		packageRevision, c.Name, c.Labels,
		c.Spec.DisplayName, c.Spec.Publisher, c.Spec.Priority, r.Config.Namespace, r.Config.BaseURL,
	})
	return func(version store.PackageVersion) string {
		sum := sha256.Sum256(slices.Concat(catalog, []byte(version.Name), []byte{0}, []byte(version.Hash)))
		return hex.EncodeToString(sum[:16])
	}
}

// buildPackage makes the OperatorPackage of a package as OLM's packageserver makes a PackageManifest (newPackageManifest
// of operator-lifecycle-manager), with every list in a fixed order. A channel whose head has no usable CSV is left out;
// if none is left, it is an *unfitError.
func (r *CatalogReconciler) buildPackage(ctx context.Context, c *v1beta1.CatalogSource, snap *store.Snapshot, pkg *fbc.Package) (*v1beta1.OperatorPackage, error) {
	name := pkg.Name
	heads, err := readHeads(ctx, snap, pkg)
	if err != nil {
		return nil, err
	}
	channels := buildChannels(pkg, heads)
	if len(channels) == 0 {
		return nil, &unfitError{fmt.Sprintf("no channel has a head that can be shown: %v", heads[pkg.Channels[0].Head].err)}
	}
	def := channels[0] // where the default channel was left out, as packageserver does
	for _, ch := range channels {
		if ch.Name == pkg.DefaultChannel {
			def = ch
		}
	}
	base := r.baseURL(c.Name) + "/api/v1/packages/" + name

	out := &v1beta1.OperatorPackage{
		ObjectMeta: metav1.ObjectMeta{
			Name:            objectName(name, c.Name),
			Labels:          r.labels(c, heads[def.CurrentCSV]),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, v1beta1.GroupVersion.WithKind("CatalogSource"))},
		},
		Spec: v1beta1.OperatorPackageSpec{PackageName: name, Catalog: c.Name, Priority: c.Spec.Priority},
		Status: v1beta1.OperatorPackageStatus{
			Summary: v1beta1.PackageSummary{
				DisplayName: firstOf(def.CurrentCSVDesc.DisplayName, name),
				Catalog:     firstOf(c.Spec.DisplayName, c.Name),
				Channel:     def.Name,
				Version:     def.CurrentCSVDesc.Version,
			},
			CatalogSource:            c.Name,
			CatalogSourceDisplayName: c.Spec.DisplayName,
			CatalogSourcePublisher:   c.Spec.Publisher,
			CatalogSourceNamespace:   r.Config.Namespace,
			Provider:                 def.CurrentCSVDesc.Provider,
			PackageName:              name,
			Deprecation:              deprecation(pkg.Deprecation),
			Channels:                 channels,
			DefaultChannel:           def.Name,
			URLs:                     v1beta1.PackageURLs{Package: base},
		},
	}
	if pkg.HasIcon {
		out.Status.URLs.Icon = base + "/icon"
	}
	return out, nil
}

// head is what is shown of the head of one or more channels, or why it has no CSV that can be used. Of the CSV it holds no more: that
// has a package's largest parts, and a package can have many heads.
type head struct {
	shown  v1beta1.CSVDescription
	labels map[string]string
	err    error
}

// readHeads reads each head of a package's channels once. Its error is one of the store: what is damaged is not shown.
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
			csv, err := fbc.SoundCSV(blob, pkg.Description)
			if err != nil {
				heads[ch.Head] = head{err: fmt.Errorf("bundle %s has %w", ch.Head, err)}
				continue
			}
			heads[ch.Head] = head{shown: describeCSV(csv), labels: csv.Labels}
		}
	}
	return heads, nil
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

// describeCSV is what lists show of a head (CreateCSVDescription of operator-lifecycle-manager).
func describeCSV(csv *v1alpha1.ClusterServiceVersion) v1beta1.CSVDescription {
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
	d.CustomResourceDefinitions.Owned = describeCRDs(csv.Spec.CustomResourceDefinitions.Owned)
	d.CustomResourceDefinitions.Required = describeCRDs(csv.Spec.CustomResourceDefinitions.Required)
	d.APIServiceDefinitions.Owned = describeAPIServices(csv.Spec.APIServiceDefinitions.Owned)
	d.APIServiceDefinitions.Required = describeAPIServices(csv.Spec.APIServiceDefinitions.Required)
	return d
}

func describeCRDs(in []v1alpha1.CRDDescription) (out []v1beta1.CRDDescription) {
	for _, d := range in {
		out = append(out, v1beta1.CRDDescription{
			Name: d.Name, Version: d.Version, Kind: d.Kind, DisplayName: d.DisplayName, Description: d.Description,
		})
	}
	return out
}

func describeAPIServices(in []v1alpha1.APIServiceDescription) (out []v1beta1.APIServiceDescription) {
	for _, d := range in {
		out = append(out, v1beta1.APIServiceDescription{
			Name: d.Name, Group: d.Group, Version: d.Version, Kind: d.Kind, DisplayName: d.DisplayName, Description: d.Description,
		})
	}
	return out
}

// labels are those of a PackageManifest, as far as they are legal: packageserver is asked no such question, an API
// server refuses the object. What says whose the object is cannot be overridden by the catalog's content.
func (r *CatalogReconciler) labels(c *v1beta1.CatalogSource, head head) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, c.Labels)
	labels[v1beta1.ProviderLabel] = head.shown.Provider.Name
	labels[providerURLLabel] = head.shown.Provider.URL
	maps.Copy(labels, head.labels)
	labels[v1beta1.CatalogLabel] = c.Name
	labels[catalogNamespaceLabel] = r.Config.Namespace
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

// defaultPlatform is where an operator that names no platform is taken to run.
var defaultPlatform = map[string]string{osLabelPrefix: osLabelPrefix + "linux", archLabelPrefix: archLabelPrefix + "amd64"}

func hasPrefix(labels map[string]string, prefix string) bool {
	for key := range labels {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
