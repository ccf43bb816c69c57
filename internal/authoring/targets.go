package authoring

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// Target is a consumer of catalogs with requirements of its own: a version of OpenShift, or a generation of OLM.
type Target struct {
	name         string
	major, minor int // of OpenShift; otherwise 0
}

// The targets that are no version of OpenShift.
var (
	olmV0 = Target{name: "olmv0"}
	olmV1 = Target{name: "olmv1"}
)

var openShift = regexp.MustCompile(`^v?([1-9][0-9]?)\.(0|[1-9][0-9]{0,3})$`)

// ParseTarget parses "olmv0", "olmv1", or a version of OpenShift: "4.17" or "v4.17".
func ParseTarget(text string) (Target, error) {
	if parts := openShift.FindStringSubmatch(text); parts != nil {
		major, _ := strconv.Atoi(parts[1]) // digits only
		minor, _ := strconv.Atoi(parts[2])
		if major >= 4 {
			return Target{fmt.Sprintf("%d.%d", major, minor), major, minor}, nil
		}
	}
	for _, t := range []Target{olmV0, olmV1} {
		if t.name == text {
			return t, nil
		}
	}
	return Target{}, fmt.Errorf("unknown target %q; valid targets are olmv0, olmv1, and versions of OpenShift such as 4.17",
		text)
}

// BundleObjects reports whether bundles for the target must have olm.bundle.object instead of olm.csv.metadata. The target is
// OpenShift before 4.17 (konflux-ci/build-definitions, task validate-fbc; operator-pipelines, check_olm_bundle_object_in_fbc).
func (t Target) BundleObjects() bool { return t.major == 4 && t.minor < 17 }

// checkTargets adds the faults of a package for the targets. valid is nil if the package is invalid.
func (p *pkg) checkTargets(valid *fbc.Package) error {
	formats := map[bool]bool{} // one fault for all versions with the same format
	for _, t := range p.targets {
		switch {
		case t.major > 0 && !formats[t.BundleObjects()]:
			formats[t.BundleObjects()] = true
			p.checkFormat(t)
		case t == olmV0:
			p.checkCSVMetadata()
			if valid != nil {
				p.checkUpgrades(valid)
			}
		case t == olmV1 && valid != nil:
			if err := p.checkInstallable(valid); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkFormat reports bundles whose content has another format than the version of OpenShift demands.
func (p *pkg) checkFormat(t Target) {
	demands, forbidden, count := "olm.csv.metadata once", property.TypeBundleObject, 1
	if t.BundleObjects() {
		demands, forbidden, count = "olm.bundle.object", property.TypeCSVMetadata, 0
	}
	var wrong []*bundle
	for _, b := range p.bundles {
		objects := b.types[property.TypeBundleObject]
		if b.types[property.TypeCSVMetadata] != count || (objects > 0) != t.BundleObjects() {
			wrong = append(wrong, b)
		}
	}
	p.faultOfBundles(wrong, "openshift-format", fmt.Sprintf("not in the format of OpenShift %s, which demands %s and "+
		"forbids %s: render them again with kubectl catalog render --target %[1]s", t.name, demands, forbidden))
}

// checkCSVMetadata reports bundles that OLM v0's opm cannot serve (pkg/api/model_to_api.go in operator-registry).
func (p *pkg) checkCSVMetadata() {
	var wrong []*bundle
	for _, b := range p.bundles {
		if b.types[property.TypeCSVMetadata] > 1 {
			wrong = append(wrong, b)
		}
	}
	p.faultOfBundles(wrong, "olmv0-csv-metadata", "described by more than one olm.csv.metadata, so the opm of OLM v0 refuses "+
		"the catalog: keep one")
}

// faultOfBundles adds one fault about bundles, at the first of them.
func (p *pkg) faultOfBundles(bundles []*bundle, rule, text string) {
	if len(bundles) > 0 {
		p.fault(bundles[0].blob, rule, []any{"properties"}, "%d of %d bundles of package %q are %s", len(bundles),
			len(p.bundles), p.name, text)
	}
}

// checkUpgrades reports entries that OLM v0 cannot upgrade. It never installs a skipped entry (sortChannel in
// pkg/controller/registry/resolver/resolver.go), so the edges to skipped entries do not count (operator-registry#1749, #1762).
func (p *pkg) checkUpgrades(valid *fbc.Package) {
	versions := p.versions()
	for _, ch := range p.channels {
		skipped, leavable := map[string]bool{}, map[string]bool{}
		graph := channel.Channel{Package: p.name, Name: ch.name}
		for _, e := range ch.content.Entries {
			for _, name := range e.Skips {
				skipped[name] = true
			}
			graph.Entries = append(graph.Entries, channel.Entry{
				Name: e.Name, Version: versions[e.Name], Replaces: e.Replaces, Skips: e.Skips, SkipRange: e.SkipRange,
			})
		}
		for _, edge := range channel.New(graph).Edges() {
			leavable[edge.From] = leavable[edge.From] || !skipped[edge.To]
		}
		head := headOf(valid, ch.name)
		for i, e := range ch.content.Entries {
			if e.Name != head && !leavable[e.Name] {
				p.fault(ch.blob, "olmv0-stranded", []any{"entries", i, "name"},
					"channel %q: OLM v0 cannot upgrade %q, because all entries that it can be upgraded to are skipped themselves: let "+
						"an entry that is not skipped, such as %q, skip it too", ch.name, e.Name, head)
			}
		}
	}
}

func headOf(valid *fbc.Package, name string) string {
	for _, ch := range valid.Channels {
		if ch.Name == name {
			return ch.Head
		}
	}
	return ""
}

var allNamespaces = v1alpha1.InstallMode{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true}

// dependencies are the properties of bundles that OLM v1 refuses to install (NoDependencyValidation in operator-controller).
var dependencies = []string{property.TypePackageRequired, property.TypeGVKRequired, property.TypeConstraint}

// checkInstallable reports heads of channels that OLM v1 refuses to install (docs/project/olmv1_limitations.md and
// internal/operator-controller/applier/provider.go in operator-controller v1.11).
func (p *pkg) checkInstallable(valid *fbc.Package) error {
	seen := map[string]bool{}
	for _, ch := range valid.Channels {
		i := slices.IndexFunc(p.bundles, func(b *bundle) bool { return b.name == ch.Head })
		if i < 0 || seen[ch.Head] {
			continue
		}
		seen[ch.Head] = true
		b := p.bundles[i]
		for _, kind := range dependencies {
			if b.types[kind] > 0 {
				p.fault(b.blob, "olmv1-dependency", []any{"properties"}, "bundle %q, the head of channel %q, has the property %s: OLM "+
					"v1 resolves no dependencies, and refuses it; remove the dependency from the bundle", b.name, ch.Name, kind)
			}
		}
		text, err := p.catalog.text(b.blob)
		if err != nil {
			return err
		}
		csv, err := fbc.CSV(text, "")
		if err != nil {
			continue // OLM v1 reads the image; no-csv reports it
		}
		if !slices.Contains(csv.Spec.InstallModes, allNamespaces) {
			p.fault(b.blob, "olmv1-install-mode", []any{"properties"}, "bundle %q, the head of channel %q, does not support the "+
				"install mode AllNamespaces: OLM v1 refuses it; support this mode in its ClusterServiceVersion", b.name, ch.Name)
		}
		if len(csv.Spec.APIServiceDefinitions.Owned) > 0 {
			p.fault(b.blob, "olmv1-api-service", []any{"properties"}, "bundle %q, the head of channel %q, has an APIService: OLM v1 "+
				"refuses it; use a CustomResourceDefinition", b.name, ch.Name)
		}
	}
	return nil
}

// servedSchema matches the custom schemas that the opm of OLM v0 serves (pkg/cache/meta_key.go in operator-registry).
var servedSchema = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

// checkSchemas reports schemas for which the opm of OLM v0 refuses the whole catalog.
func (l *linter) checkSchemas(blobs []*blob) {
	if !slices.Contains(l.targets, olmV0) {
		return
	}
	for _, b := range blobs {
		if !servedSchema.MatchString(b.schema) {
			l.faults = append(l.faults, newFault(b, b.pkg, "olmv0-schema", []any{"schema"},
				"the opm of OLM v0 refuses a catalog with the schema %q: use letters, digits, \".\", \"_\" and \"-\" only",
				b.schema))
		}
	}
}
