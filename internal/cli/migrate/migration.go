// Package migrate converts OLM v0 CatalogSources to those of catalogd.
package migrate

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// legacySpec is the spec of a CatalogSource of OLM v0 (operators.coreos.com/v1alpha1). OLM's own type is not used, as it panics where
// updateStrategy is empty.
type legacySpec struct {
	SourceType     string                     `json:"sourceType"`
	Priority       int64                      `json:"priority"`
	ConfigMap      string                     `json:"configMap"`
	Address        string                     `json:"address"`
	Image          string                     `json:"image"`
	GrpcPodConfig  map[string]json.RawMessage `json:"grpcPodConfig"`
	UpdateStrategy struct {
		RegistryPoll *struct {
			Interval string `json:"interval"`
		} `json:"registryPoll"`
	} `json:"updateStrategy"`
	Secrets     []string `json:"secrets"`
	DisplayName string   `json:"displayName"`
	Description string   `json:"description"`
	Publisher   string   `json:"publisher"`
	Icon        struct {
		Data string `json:"base64data"`
	} `json:"icon"`
}

// legacyFields are those of the spec.
var legacyFields = []string{
	"sourceType",
	"priority",
	"configMap",
	"address",
	"image",
	"grpcPodConfig",
	"updateStrategy",
	"secrets",
	"displayName",
	"description",
	"publisher",
	"icon",
}

// CatalogSource is the kind of OLM v0's.
var CatalogSource = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "CatalogSource"}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// A Migration is a CatalogSource of catalogd that was made from one of OLM v0.
type Migration struct {
	From    *unstructured.Unstructured
	To      v1beta1.CatalogSource
	Notes   []string          // what became of fields that have no counterpart
	Secrets map[string]string // the pull secrets, by the name they have to get in catalogd's namespace
	Failed  string            // why it cannot be migrated; empty if it can
}

// Migrate makes a CatalogSource of each, in their order.
func Migrate(found []*unstructured.Unstructured) []*Migration {
	names, secretName := names(found), secretNames(found)
	made := make([]*Migration, len(found))
	for i, from := range found {
		made[i] = migrate(from, names[i], secretName)
	}
	return made
}

func (m *Migration) note(format string, args ...any) {
	m.Notes = append(m.Notes, fmt.Sprintf(format, args...))
}

// Title names what is migrated.
func (m *Migration) Title() string {
	if m.From.GetNamespace() == "" {
		return m.From.GetName()
	}
	return m.From.GetNamespace() + "/" + m.From.GetName()
}

// migrate converts one CatalogSource to a unique name. secretName returns the new name of a Secret.
func migrate(from *unstructured.Unstructured, name string, secretName func(namespace, name string) string) *Migration {
	m := &Migration{From: from, Secrets: map[string]string{}}
	m.To.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("CatalogSource"))
	m.To.Name = name
	encoded, err := json.Marshal(from.Object["spec"])
	var spec legacySpec
	if err == nil {
		err = json.Unmarshal(encoded, &spec)
	}
	if err != nil {
		m.Failed = "its spec cannot be read: " + err.Error()
		return m
	}
	m.metadata()
	if m.source(spec); m.Failed != "" {
		return m
	}
	m.polling(spec)
	m.pod(spec.GrpcPodConfig)
	m.pullSecrets(spec.Secrets, secretName)
	m.texts(spec)
	m.unknown()
	return m
}

func (m *Migration) metadata() {
	if m.To.Name != m.From.GetName() {
		m.note("metadata.name: %s here, as catalogd's catalogs have no namespace and their names have no dots and at most 63 characters",
			m.To.Name)
	}
	if m.From.GetNamespace() != "" {
		m.note("metadata.namespace: not needed, catalogs of catalogd are there for the whole cluster")
	}
	m.To.Labels = m.untied("labels", m.From.GetLabels())
	annotations := m.untied("annotations", m.From.GetAnnotations())
	delete(annotations, lastApplied)
	m.To.Spec.ImageTemplate = annotations[v1beta1.ImageTemplateAnnotation]
	delete(annotations, v1beta1.ImageTemplateAnnotation)
	if len(annotations) > 0 {
		m.To.Annotations = annotations
	}
	if finalizers := m.From.GetFinalizers(); len(finalizers) > 0 {
		m.note("metadata.finalizers: left out; who set %s waits for the end of the old one", strings.Join(finalizers, ", "))
	}
	for _, owner := range m.From.GetOwnerReferences() {
		m.note("metadata.ownerReferences: left out; %s %s, which made the old one, knows nothing of this one", owner.Kind, owner.Name)
	}
}

// tie matches the keys of labels and annotations by which tools find what they made. One that found a CatalogSource
// of catalogd by these would
// take it for its own, and might delete it as nothing it knows of.
var tie = regexp.MustCompile(`^(argocd\.argoproj\.io/.*|meta\.helm\.sh/.*|(kustomize|helm)\.toolkit\.fluxcd\.io/.*|app\.kubernetes\.io/(instance|managed-by))$`)

// untied are labels or annotations without those that tie an object to a tool.
func (m *Migration) untied(field string, all map[string]string) map[string]string {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if tie.MatchString(key) {
			m.note("metadata.%s: %s left out, a tool finds by it what it made", field, key)
			delete(all, key)
		}
	}
	return all
}

// templateVariable matches the variables of an image template.
var templateVariable = regexp.MustCompile(`\{[^{}]*\}`)

var templateVariables = []string{"{kube_major_version}", "{kube_minor_version}", "{kube_patch_version}"}

// source finds out what the catalog is made of.
func (m *Migration) source(spec legacySpec) {
	m.template()
	if m.Failed = m.noImage(spec); m.Failed != "" {
		return
	}
	if m.To.Spec.ImageTemplate == "" {
		m.To.Spec.Image = spec.Image
	} else if spec.Image != "" {
		m.note("spec.image: not needed, the template gives it (it was %s)", spec.Image)
	}
	m.note("spec.sourceType: not needed, catalogd reads images only")
	if spec.Address != "" {
		m.note("spec.address: not needed, OLM ignores it where there is an image")
	}
	if spec.ConfigMap != "" {
		m.note("spec.configMap: not needed, OLM ignores it where there is an image")
	}
}

// template leaves out an image template that catalogd could not fill in.
func (m *Migration) template() {
	template := m.To.Spec.ImageTemplate
	for _, variable := range templateVariable.FindAllString(template, -1) {
		if !slices.Contains(templateVariables, variable) {
			m.note("annotation %s: left out, catalogd knows no variable %s (%s)", v1beta1.ImageTemplateAnnotation, variable, template)
			m.To.Spec.ImageTemplate = ""
			return
		}
	}
	if template != "" {
		m.note("annotation %s: spec.imageTemplate", v1beta1.ImageTemplateAnnotation)
	}
}

// noImage says why there is no image that catalogd could read; empty if there is one.
func (m *Migration) noImage(spec legacySpec) string {
	switch {
	case spec.SourceType == "configmap" || spec.SourceType == "internal":
		return fmt.Sprintf("sourceType %s: catalogd reads images only. Make one of the packages in ConfigMap %q (opm migrate or render, "+
			"then kubectl catalog push), and name it", spec.SourceType, spec.ConfigMap)
	case spec.Image != "" || m.To.Spec.ImageTemplate != "":
		return ""
	case spec.Address != "":
		return fmt.Sprintf("address %s: catalogd reads images only, no servers. Name the image that is served there", spec.Address)
	}
	return "it names no image"
}

func (m *Migration) polling(spec legacySpec) {
	poll := spec.UpdateStrategy.RegistryPoll
	byDigest := strings.Contains(m.To.Spec.Image, "@")
	switch {
	case byDigest && poll != nil:
		m.note("spec.updateStrategy: not needed, an image that is named by digest never changes")
		return
	case byDigest:
		return
	case poll == nil:
		m.note("spec.updateStrategy: there was none, and OLM looked at the image only when the pod began; catalogd polls it every 15 " +
			"minutes, or as pollingInterval says")
		return
	}
	interval, err := time.ParseDuration(poll.Interval)
	switch {
	case err != nil:
		m.note("spec.updateStrategy.registryPoll.interval: %q is no duration, for which OLM takes 15m; so does catalogd without "+
			"pollingInterval", poll.Interval)
	case interval < time.Second:
		m.note("spec.updateStrategy.registryPoll.interval: %s is less than catalogd allows, 1s; left out", poll.Interval)
	default:
		m.To.Spec.PollingInterval = &metav1.Duration{Duration: interval}
	}
}

// pod maps what OLM wants to know of the pod that serves a catalog: catalogd needs none.
func (m *Migration) pod(config map[string]json.RawMessage) {
	for _, field := range slices.Sorted(maps.Keys(config)) {
		if field != "extractContent" {
			m.note("spec.grpcPodConfig.%s: not needed, catalogd runs no pod for a catalog", field)
			continue
		}
		var extract struct{ CacheDir, CatalogDir string }
		if err := json.Unmarshal(config[field], &extract); err != nil {
			m.note("spec.grpcPodConfig.extractContent: left out, it cannot be read")
			continue
		}
		if extract.CacheDir != "" {
			m.note("spec.grpcPodConfig.extractContent.cacheDir: not needed, catalogd makes an index of its own")
		}
		switch {
		case slices.Contains(strings.Split(extract.CatalogDir, "/"), ".."):
			m.note("spec.grpcPodConfig.extractContent.catalogDir: left out, catalogd takes no path with '..' (%s)", extract.CatalogDir)
		case extract.CatalogDir != "":
			m.To.Spec.ExtractContent = &v1beta1.ExtractContent{ConfigDir: extract.CatalogDir}
		}
	}
}

// maxSecrets is how many pull secrets a CatalogSource may name.
const maxSecrets = 16

func (m *Migration) pullSecrets(names []string, secretName func(namespace, name string) string) {
	for i, name := range names {
		if i >= maxSecrets || len(validation.IsDNS1123Subdomain(name)) > 0 {
			m.note("spec.secrets: %q left out, catalogd takes at most %d, by names that Secrets can have", name, maxSecrets)
			continue
		}
		if m.To.Spec.Registry == nil {
			m.To.Spec.Registry = &v1beta1.RegistryAccess{}
		}
		as := secretName(m.From.GetNamespace(), name)
		m.Secrets[as] = name
		m.To.Spec.Registry.PullSecrets = append(m.To.Spec.Registry.PullSecrets, v1beta1.SecretReference{Name: as})
	}
}

func (m *Migration) texts(spec legacySpec) {
	m.To.Spec.DisplayName = m.text("displayName", spec.DisplayName, 256)
	m.To.Spec.Publisher = m.text("publisher", spec.Publisher, 256)
	m.To.Spec.Description = m.text("description", spec.Description, 4096)
	if spec.Icon.Data != "" {
		m.note("spec.icon: left out, catalogd's catalogs have none; packages have")
	}
	if spec.Priority < math.MinInt32 || spec.Priority > math.MaxInt32 {
		m.note("spec.priority: %d needs more than 32 bits; the nearest is taken", spec.Priority)
	}
	m.To.Spec.Priority = int32(min(max(spec.Priority, math.MinInt32), math.MaxInt32))
}

func (m *Migration) text(field, value string, most int) string {
	runes := []rune(value)
	if len(runes) <= most {
		return value
	}
	m.note("spec.%s: cut to the %d characters that catalogd takes", field, most)
	return string(runes[:most])
}

// unknown names the fields that OLM's type has not got, such as those of other releases.
func (m *Migration) unknown() {
	spec, _, _ := unstructured.NestedMap(m.From.Object, "spec")
	for _, field := range slices.Sorted(maps.Keys(spec)) {
		switch {
		case slices.Contains(legacyFields, field):
		case field == "runAsRoot":
			m.note("spec.runAsRoot: not needed, catalogd runs no pod for a catalog")
		default:
			m.note("spec.%s: left out, this is no field of operators.coreos.com/v1alpha1", field)
		}
	}
}

// Object is the CatalogSource without fields that are only there because Go has them.
func (m *Migration) Object() (map[string]any, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&m.To)
	if err != nil {
		return nil, err
	}
	delete(object, "status")
	unstructured.RemoveNestedField(object, "metadata", "creationTimestamp")
	return object, nil
}
