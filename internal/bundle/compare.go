package bundle

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Difference is what changes in a cluster when one bundle replaces another. Lists are sorted.
type Difference struct {
	RightsGained []Right `json:"rightsGained"` // that the first bundle does not grant, not even through a wildcard
	RightsLost   []Right `json:"rightsLost"`

	CRDsAdded   []string     `json:"crdsAdded"`
	CRDsRemoved []string     `json:"crdsRemoved"`
	Versions    []CRDVersion `json:"crdVersions"`     // of CRDs in both bundles, that one of them lacks or does not serve
	Breaking    []CRDChange  `json:"breakingChanges"` // of CRDs in both bundles

	ImagesAdded   []string `json:"imagesAdded"`
	ImagesRemoved []string `json:"imagesRemoved"`

	WebhooksAdded   []string `json:"webhooksAdded"`
	WebhooksRemoved []string `json:"webhooksRemoved"`

	InstallModesAdded   []string `json:"installModesAdded"`
	InstallModesRemoved []string `json:"installModesRemoved"`
}

// Right is a set of verbs on a resource, or on a URL.
type Right struct {
	ServiceAccount string   `json:"serviceAccount"`
	Scope          Scope    `json:"scope"`
	On             string   `json:"on"` // such as "secrets", "deployments.apps", "configmaps/foo", "/metrics"
	Verbs          []string `json:"verbs"`
}

// CRDVersion is a version of a CRD that came or went.
type CRDVersion struct {
	CRD     string `json:"crd"`
	Version string `json:"version"`
	Added   bool   `json:"added"` // else removed, or no longer served
}

// CRDChange is a change of a schema that can make stored objects invalid, or lose fields of them.
type CRDChange struct {
	CRD     string `json:"crd"`
	Version string `json:"version"`
	Path    string `json:"path"` // of the field, such as spec.size; items of a list are spec.list[]
	Change  string `json:"change"`
}

// IsEmpty reports whether nothing changes.
func (d Difference) IsEmpty() bool {
	return len(d.RightsGained)+len(d.RightsLost)+len(d.CRDsAdded)+len(d.CRDsRemoved)+len(d.Versions)+len(d.Breaking)+len(d.ImagesAdded)+
		len(d.ImagesRemoved)+len(d.WebhooksAdded)+len(d.WebhooksRemoved)+len(d.InstallModesAdded)+len(d.InstallModesRemoved) == 0
}

// Compare compares the objects of two bundles, each in JSON. Faulty objects are errors.
func Compare(from, to [][]byte) (Difference, error) {
	before, err := factsOf(from)
	if err != nil {
		return Difference{}, err
	}
	after, err := factsOf(to)
	if err != nil {
		return Difference{}, err
	}
	d := Difference{RightsGained: after.rightsBeyond(before), RightsLost: before.rightsBeyond(after)}
	both := func(from, to map[string]bool) (added, removed []string) { return missing(to, from), missing(from, to) }
	d.ImagesAdded, d.ImagesRemoved = both(before.images, after.images)
	d.WebhooksAdded, d.WebhooksRemoved = both(before.webhooks, after.webhooks)
	d.InstallModesAdded, d.InstallModesRemoved = both(before.modes, after.modes)
	d.CRDsAdded, d.CRDsRemoved = missing(after.crds, before.crds), missing(before.crds, after.crds)
	d.Versions, d.Breaking = []CRDVersion{}, []CRDChange{}
	for _, name := range slices.Sorted(maps.Keys(before.crds)) {
		if crd, ok := after.crds[name]; ok {
			d.compareCRDs(before.crds[name], crd)
		}
	}
	return d, nil
}

// missing returns the keys of a that b lacks, sorted.
func missing[A, B any](a map[string]A, b map[string]B) []string {
	out := []string{}
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if _, ok := b[key]; !ok {
			out = append(out, key)
		}
	}
	return out
}

// facts are what two bundles are compared by.
type facts struct {
	rights                  map[atom]bool
	images, webhooks, modes map[string]bool
	crds                    map[string]*apiextensionsv1.CustomResourceDefinition
}

func factsOf(objects [][]byte) (*facts, error) {
	permissions, err := PermissionsOf(objects)
	if err != nil {
		return nil, err
	}
	f := &facts{
		rights: map[atom]bool{}, images: map[string]bool{}, webhooks: map[string]bool{}, modes: map[string]bool{},
		crds: map[string]*apiextensionsv1.CustomResourceDefinition{},
	}
	if err := f.addRights(permissions); err != nil {
		return nil, err
	}
	for _, w := range permissions.Webhooks {
		f.webhooks[strings.TrimSpace(w.Type+" "+w.Name+" "+strings.Join(w.Resources, ","))] = true
	}
	for _, object := range objects {
		if err := f.add(object); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *facts) add(object []byte) error {
	var head struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := utiljson.Unmarshal(object, &head); err != nil {
		return err
	}
	var err error
	switch head.Kind {
	case "CustomResourceDefinition":
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err = utiljson.Unmarshal(object, crd)
		f.crds[crd.Name] = crd
	case v1alpha1.ClusterServiceVersionKind:
		err = f.addCSV(object)
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", head.Kind, head.Metadata.Name, err)
	}
	return nil
}

func (f *facts) addCSV(object []byte) error {
	type containers []struct {
		Image string `json:"image"`
	}
	var v struct {
		Spec struct {
			InstallModes  []v1alpha1.InstallMode  `json:"installModes"`
			RelatedImages []v1alpha1.RelatedImage `json:"relatedImages"`
			Install       struct {
				Spec struct {
					Deployments []struct {
						Spec struct {
							Template struct {
								Spec struct {
									InitContainers containers `json:"initContainers"`
									Containers     containers `json:"containers"`
								} `json:"spec"`
							} `json:"template"`
						} `json:"spec"`
					} `json:"deployments"`
				} `json:"spec"`
			} `json:"install"`
		} `json:"spec"`
	}
	if err := utiljson.Unmarshal(object, &v); err != nil {
		return err
	}
	for _, mode := range v.Spec.InstallModes {
		if mode.Supported {
			f.modes[string(mode.Type)] = true
		}
	}
	for _, image := range v.Spec.RelatedImages {
		f.images[image.Image] = true
	}
	for _, d := range v.Spec.Install.Spec.Deployments {
		for _, c := range slices.Concat(d.Spec.Template.Spec.InitContainers, d.Spec.Template.Spec.Containers) {
			f.images[c.Image] = true
		}
	}
	return nil
}

// atom is the right to one verb on one resource or URL.
type atom struct {
	account, scope, group, resource, name, url, verb string
}

// maxRights limits the combinations of verbs, groups, resources and names of a bundle. Large operators have some thousand.
const maxRights = 200_000

// addRights adds each combination of a rule.
func (f *facts) addRights(p Permissions) error {
	for _, account := range p.ServiceAccounts {
		for _, grant := range account.Grants {
			if grant.Unknown {
				f.rights[atom{account: account.Name, scope: string(grant.Scope), url: grant.From, verb: "unknown"}] = true
			}
			for _, rule := range grant.Rules {
				each := len(rule.NonResourceURLs) + len(rule.APIGroups)*len(rule.Resources)*max(len(rule.ResourceNames), 1)
				if each*len(rule.Verbs) > maxRights-len(f.rights) {
					return fmt.Errorf("the permissions exceed the limit of %d combinations of verbs and resources", maxRights)
				}
				for _, verb := range rule.Verbs {
					f.addRule(rule, atom{account: account.Name, scope: string(grant.Scope), verb: verb})
				}
			}
		}
	}
	return nil
}

func (f *facts) addRule(rule Rule, a atom) {
	for _, url := range rule.NonResourceURLs {
		f.rights[atom{account: a.account, scope: a.scope, verb: a.verb, url: url}] = true
	}
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""} // all
	}
	for _, a.group = range rule.APIGroups {
		for _, a.resource = range rule.Resources {
			for _, a.name = range names {
				f.rights[a] = true
			}
		}
	}
}

// grants reports whether the rights contain one, maybe by a wildcard, for all names, or in the whole cluster.
func (f *facts) grants(a atom) bool {
	for _, verb := range []string{a.verb, "*"} {
		for _, scope := range []string{a.scope, string(ScopeCluster)} {
			if a.url != "" {
				if f.rights[atom{account: a.account, scope: scope, verb: verb, url: a.url}] ||
					f.rights[atom{account: a.account, scope: scope, verb: verb, url: "*"}] {
					return true
				}
				continue
			}
			for _, group := range []string{a.group, "*"} {
				for _, resource := range []string{a.resource, "*"} {
					if f.rights[atom{a.account, scope, group, resource, a.name, "", verb}] ||
						f.rights[atom{a.account, scope, group, resource, "", "", verb}] {
						return true
					}
				}
			}
		}
	}
	return false
}

// rightsBeyond returns the rights that other does not grant, with their verbs joined. One that a wildcard among them has is left out.
func (f *facts) rightsBeyond(other *facts) []Right {
	var gained []atom
	for a := range f.rights {
		every := a
		every.verb = "*"
		if !other.grants(a) && (a == every || !f.rights[every]) {
			gained = append(gained, a)
		}
	}
	slices.SortFunc(gained, func(a, b atom) int {
		return cmp.Or(strings.Compare(a.account, b.account), strings.Compare(a.scope, b.scope), strings.Compare(a.on(), b.on()),
			strings.Compare(a.verb, b.verb))
	})
	out := []Right{}
	for _, a := range gained {
		last := len(out) - 1
		if last < 0 || out[last].ServiceAccount != a.account || string(out[last].Scope) != a.scope || out[last].On != a.on() {
			out = append(out, Right{a.account, Scope(a.scope), a.on(), nil})
			last++
		}
		out[last].Verbs = append(out[last].Verbs, a.verb)
	}
	return out
}

// on names what a right is about.
func (a atom) on() string {
	if a.url != "" {
		return a.url
	}
	on := a.resource
	if a.group != "" {
		on += "." + a.group
	}
	if a.name != "" {
		on += "/" + a.name
	}
	return on
}

// compareCRDs compares the versions of a CRD.
func (d *Difference) compareCRDs(from, to *apiextensionsv1.CustomResourceDefinition) {
	served := func(crd *apiextensionsv1.CustomResourceDefinition) map[string]*apiextensionsv1.JSONSchemaProps {
		out := map[string]*apiextensionsv1.JSONSchemaProps{}
		for _, v := range crd.Spec.Versions {
			if v.Served {
				out[v.Name] = &apiextensionsv1.JSONSchemaProps{}
				if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
					out[v.Name] = v.Schema.OpenAPIV3Schema
				}
			}
		}
		return out
	}
	before, after := served(from), served(to)
	for _, version := range missing(after, before) {
		d.Versions = append(d.Versions, CRDVersion{from.Name, version, true})
	}
	for _, version := range missing(before, after) {
		d.Versions = append(d.Versions, CRDVersion{from.Name, version, false})
	}
	note := func(version string) func(path, change string) {
		return func(path, change string) {
			d.Breaking = append(d.Breaking, CRDChange{from.Name, version, path, change})
		}
	}
	if from.Spec.Scope != to.Spec.Scope {
		note("")("", fmt.Sprintf("the scope changes from %s to %s", from.Spec.Scope, to.Spec.Scope))
	}
	for _, version := range slices.Sorted(maps.Keys(before)) {
		if schema, ok := after[version]; ok {
			compareSchemas("", before[version], schema, note(version))
		}
	}
}

// compareSchemas notes the changes that can make stored objects invalid, or lose fields of them.
func compareSchemas(path string, from, to *apiextensionsv1.JSONSchemaProps, note func(path, change string)) {
	if from.Type != to.Type && to.Type != "" {
		note(path, fmt.Sprintf("the type changes from %s to %s", cmp.Or(from.Type, "any"), to.Type))
		return
	}
	compareLimits(path, from, to, note)
	compareProperties(path, from, to, note)
	if from.Items != nil && from.Items.Schema != nil && to.Items != nil && to.Items.Schema != nil {
		compareSchemas(path+"[]", from.Items.Schema, to.Items.Schema, note)
	}
	if from.AdditionalProperties != nil && to.AdditionalProperties != nil &&
		from.AdditionalProperties.Schema != nil && to.AdditionalProperties.Schema != nil {
		compareSchemas(path+"{}", from.AdditionalProperties.Schema, to.AdditionalProperties.Schema, note)
	}
}

func compareProperties(path string, from, to *apiextensionsv1.JSONSchemaProps, note func(path, change string)) {
	required := sets.New(from.Required...)
	for _, name := range to.Required {
		if !required.Has(name) && !hasDefault(to, name) {
			note(join(path, name), "becomes required")
		}
	}
	keeps := isTrue(to.XPreserveUnknownFields) || to.AdditionalProperties != nil
	if !keeps && (isTrue(from.XPreserveUnknownFields) || from.AdditionalProperties != nil) {
		note(path, "no longer preserves unknown fields")
	}
	for _, name := range slices.Sorted(maps.Keys(from.Properties)) {
		before := from.Properties[name]
		if after, ok := to.Properties[name]; ok {
			compareSchemas(join(path, name), &before, &after, note)
		} else if !keeps {
			note(join(path, name), "is removed")
		}
	}
}

func isTrue(p *bool) bool { return p != nil && *p }

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// hasDefault reports whether the API server fills in a property.
func hasDefault(schema *apiextensionsv1.JSONSchemaProps, name string) bool {
	property, ok := schema.Properties[name]
	return ok && property.Default != nil
}

// compareLimits notes what the values of one field may no longer be.
func compareLimits(path string, from, to *apiextensionsv1.JSONSchemaProps, note func(path, change string)) {
	if len(to.Enum) > 0 {
		allowed := map[string]bool{}
		for _, value := range to.Enum {
			allowed[string(value.Raw)] = true
		}
		switch {
		case len(from.Enum) == 0:
			note(path, "becomes an enum")
		default:
			for _, value := range from.Enum {
				if !allowed[string(value.Raw)] {
					note(path, fmt.Sprintf("may no longer be %s", value.Raw))
				}
			}
		}
	}
	if to.Pattern != "" && to.Pattern != from.Pattern {
		note(path, fmt.Sprintf("must match %s", to.Pattern))
	}
	if to.Format != "" && to.Format != from.Format {
		note(path, fmt.Sprintf("must have the format %s", to.Format))
	}
	if from.Nullable && !to.Nullable {
		note(path, "may no longer be null")
	}
	compareBounds(path, from, to, note)
	compareRules(path, from, to, note)
}

// compareBounds notes stricter bounds.
func compareBounds(path string, from, to *apiextensionsv1.JSONSchemaProps, note func(path, change string)) {
	lower(path, "maximum", from.Maximum, to.Maximum, note)
	lower(path, "maximum length", from.MaxLength, to.MaxLength, note)
	lower(path, "maximum number of items", from.MaxItems, to.MaxItems, note)
	lower(path, "maximum number of properties", from.MaxProperties, to.MaxProperties, note)
	higher(path, "minimum", from.Minimum, to.Minimum, note)
	higher(path, "minimum length", from.MinLength, to.MinLength, note)
	higher(path, "minimum number of items", from.MinItems, to.MinItems, note)
	higher(path, "minimum number of properties", from.MinProperties, to.MinProperties, note)
	if (to.ExclusiveMaximum && !from.ExclusiveMaximum) || (to.ExclusiveMinimum && !from.ExclusiveMinimum) {
		note(path, "no longer allows the limit itself (exclusive maximum or minimum)")
	}
	if to.MultipleOf != nil && (from.MultipleOf == nil || *from.MultipleOf != *to.MultipleOf) {
		note(path, fmt.Sprintf("must be a multiple of %v", *to.MultipleOf))
	}
}

// compareRules notes new conditions on a value. A change of allOf, anyOf, oneOf or not is always noted, even if the new
// conditions are weaker.
func compareRules(path string, from, to *apiextensionsv1.JSONSchemaProps, note func(path, change string)) {
	for _, c := range []struct {
		what string
		has  bool
		same bool
	}{
		{"allOf", to.AllOf != nil, reflect.DeepEqual(from.AllOf, to.AllOf)},
		{"anyOf", to.AnyOf != nil, reflect.DeepEqual(from.AnyOf, to.AnyOf)},
		{"oneOf", to.OneOf != nil, reflect.DeepEqual(from.OneOf, to.OneOf)},
		{"not", to.Not != nil, reflect.DeepEqual(from.Not, to.Not)},
	} {
		if c.has && !c.same {
			note(path, "has changed conditions in "+c.what)
		}
	}
	kind := func(s *apiextensionsv1.JSONSchemaProps) string {
		if s.XListType == nil {
			return "atomic"
		}
		return *s.XListType
	}
	if kind(to) != "atomic" && (kind(to) != kind(from) || !slices.Equal(from.XListMapKeys, to.XListMapKeys)) {
		note(path, "must have unique items")
	}
	for _, rule := range to.XValidations {
		if !slices.ContainsFunc(from.XValidations, func(r apiextensionsv1.ValidationRule) bool { return r.Rule == rule.Rule }) {
			note(path, fmt.Sprintf("must satisfy the rule %s", rule.Rule))
		}
	}
}

func lower[N int64 | float64](path, what string, from, to *N, note func(path, change string)) {
	if to != nil && (from == nil || *to < *from) {
		note(path, fmt.Sprintf("gets the %s %v", what, *to))
	}
}

func higher[N int64 | float64](path, what string, from, to *N, note func(path, change string)) {
	if from == nil && what != "minimum" {
		from = new(N) // a length has at least 0
	}
	if to != nil && (from == nil || *to > *from) {
		note(path, fmt.Sprintf("gets the %s %v", what, *to))
	}
}
