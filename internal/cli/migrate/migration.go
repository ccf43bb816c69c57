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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// legacySpec is the spec of a CatalogSource of OLM v0 (operators.coreos.com/v1alpha1). OLM's own type panics on an empty
// updateStrategy.
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
		Data      string `json:"base64data"`
		MediaType string `json:"mediatype"`
	} `json:"icon"`
}

var legacyFields = []string{
	"sourceType", "priority", "configMap", "address", "image", "grpcPodConfig", "updateStrategy", "secrets", "displayName",
	"description", "publisher", "icon",
}

// CatalogSource is OLM v0's kind.
var CatalogSource = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "CatalogSource"}

// A Migration is the conversion of a CatalogSource of OLM v0.
type Migration struct {
	From    *unstructured.Unstructured
	To      v1beta1.CatalogSource
	Notes   []string          // on fields without a counterpart
	Secrets map[string]string // the pull secrets by their new names in catalogd's namespace
	Failed  string            // why it cannot be converted; empty if it can
}

// Migrate converts CatalogSources of OLM v0.
func Migrate(found []unstructured.Unstructured) []*Migration {
	names, secretName := names(found), secretNames(found)
	migrations := make([]*Migration, len(found))
	for i := range found {
		migrations[i] = migrate(&found[i], names[i], secretName)
	}
	return migrations
}

func (m *Migration) note(format string, args ...any) {
	m.Notes = append(m.Notes, fmt.Sprintf(format, args...))
}

// Title returns the namespace and the name of the original.
func (m *Migration) Title() string {
	return strings.TrimPrefix(m.From.GetNamespace()+"/"+m.From.GetName(), "/")
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
		m.Failed = "reading its spec: " + err.Error()
		return m
	}
	m.metadata()
	if m.Failed = m.noImage(spec); m.Failed != "" {
		return m
	}
	m.source(spec)
	m.polling(spec)
	m.pod(spec.GrpcPodConfig)
	m.pullSecrets(spec.Secrets, secretName)
	m.texts(spec)
	m.unknown()
	return m
}

func (m *Migration) metadata() {
	if m.To.Name != m.From.GetName() {
		m.note("metadata.name: %s, because catalogs of catalogd are cluster-scoped and their names are DNS labels", m.To.Name)
	}
	if m.From.GetNamespace() != "" {
		m.note("metadata.namespace: omitted; catalogs of catalogd are cluster-scoped")
	}
	m.To.Labels = m.unmanaged("labels", m.From.GetLabels())
	annotations := m.unmanaged("annotations", m.From.GetAnnotations())
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	m.template(annotations[v1beta1.ImageTemplateAnnotation])
	delete(annotations, v1beta1.ImageTemplateAnnotation)
	if len(annotations) > 0 {
		m.To.Annotations = annotations
	}
	if finalizers := m.From.GetFinalizers(); len(finalizers) > 0 {
		m.note("metadata.finalizers: omitted; %s apply to the original", strings.Join(finalizers, ", "))
	}
	for _, owner := range m.From.GetOwnerReferences() {
		m.note("metadata.ownerReferences: omitted; %s %s owns the original only", owner.Kind, owner.Name)
	}
}

// managed matches the keys of labels and annotations by which tools find their objects. They might delete a new object
// with these keys as unknown.
var managed = regexp.MustCompile(
	`^(argocd\.argoproj\.io/.*|meta\.helm\.sh/.*|(kustomize|helm)\.toolkit\.fluxcd\.io/.*|app\.kubernetes\.io/(instance|managed-by))$`)

// unmanaged returns labels or annotations without those of tools.
func (m *Migration) unmanaged(field string, all map[string]string) map[string]string {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if managed.MatchString(key) {
			m.note("metadata.%s: %s omitted; a tool finds its objects by it", field, key)
			delete(all, key)
		}
	}
	return all
}

// templateVariable matches the variables of an image template.
var templateVariable = regexp.MustCompile(`\{[^{}]*\}`)

var templateVariables = []string{"{kube_major_version}", "{kube_minor_version}", "{kube_patch_version}"}

// template sets the image template, unless it has unknown variables.
func (m *Migration) template(template string) {
	for _, variable := range templateVariable.FindAllString(template, -1) {
		if !slices.Contains(templateVariables, variable) {
			m.note("annotation %s: omitted; unknown variable %s (%s)", v1beta1.ImageTemplateAnnotation, variable, template)
			return
		}
	}
	if template != "" {
		m.note("annotation %s: moved to spec.imageTemplate", v1beta1.ImageTemplateAnnotation)
	}
	m.To.Spec.ImageTemplate = template
}

// noImage returns why there is no image for catalogd, or "".
func (m *Migration) noImage(spec legacySpec) string {
	switch {
	case spec.SourceType == "configmap" || spec.SourceType == "internal":
		return fmt.Sprintf("sourceType %s: catalogd reads images only; create one from the packages in ConfigMap %q (opm migrate or "+
			"render, then kubectl catalog push)", spec.SourceType, spec.ConfigMap)
	case spec.Image != "" || m.To.Spec.ImageTemplate != "":
		return ""
	case spec.Address != "":
		return fmt.Sprintf("address %s: catalogd reads images only; specify the image that is served there", spec.Address)
	}
	return "it has no image"
}

func (m *Migration) source(spec legacySpec) {
	if m.To.Spec.ImageTemplate == "" {
		m.To.Spec.Image = spec.Image
	} else if spec.Image != "" {
		m.note("spec.image: omitted; the image template replaces it (it was %s)", spec.Image)
	}
	m.note("spec.sourceType: omitted; catalogd reads images only")
	if spec.Address != "" {
		m.note("spec.address: omitted; OLM ignores it if there is an image")
	}
	if spec.ConfigMap != "" {
		m.note("spec.configMap: omitted; OLM ignores it if there is an image")
	}
}

func (m *Migration) polling(spec legacySpec) {
	poll := spec.UpdateStrategy.RegistryPoll
	switch {
	case strings.Contains(m.To.Spec.Image, "@"):
		if poll != nil {
			m.note("spec.updateStrategy: omitted; an image with a digest never changes")
		}
		return
	case poll == nil:
		m.note("spec.updateStrategy: not set; OLM pulls the image only when the pod starts, catalogd polls every 15 minutes or as set " +
			"in pollingInterval")
		return
	}
	interval, err := time.ParseDuration(poll.Interval)
	switch {
	case err != nil:
		m.note("spec.updateStrategy.registryPoll.interval: %q is not a duration; the default of OLM and catalogd is 15m", poll.Interval)
	case interval < time.Second:
		m.note("spec.updateStrategy.registryPoll.interval: %s omitted; the minimum is 1s", poll.Interval)
	default:
		m.To.Spec.PollingInterval = &metav1.Duration{Duration: interval}
	}
}

const noPod = "omitted; catalogd runs no pod for a catalog"

// pod converts the settings of the pod that serves a catalog.
func (m *Migration) pod(config map[string]json.RawMessage) {
	for _, field := range slices.Sorted(maps.Keys(config)) {
		if field != "extractContent" {
			m.note("spec.grpcPodConfig.%s: %s", field, noPod)
			continue
		}
		var extract struct{ CacheDir, CatalogDir string }
		if err := json.Unmarshal(config[field], &extract); err != nil {
			m.note("spec.grpcPodConfig.extractContent: omitted; it is malformed")
			continue
		}
		if extract.CacheDir != "" {
			m.note("spec.grpcPodConfig.extractContent.cacheDir: omitted; catalogd has its own index")
		}
		switch {
		case slices.Contains(strings.Split(extract.CatalogDir, "/"), ".."):
			m.note("spec.grpcPodConfig.extractContent.catalogDir: %s omitted; paths must not contain '..'", extract.CatalogDir)
		case extract.CatalogDir != "":
			m.To.Spec.ExtractContent = &v1beta1.ExtractContent{ConfigDir: extract.CatalogDir}
		}
	}
}

// maxSecrets limits the pull secrets of a CatalogSource.
const maxSecrets = 16

func (m *Migration) pullSecrets(names []string, secretName func(namespace, name string) string) {
	for i, name := range names {
		if i >= maxSecrets || len(validation.IsDNS1123Subdomain(name)) > 0 {
			m.note("spec.secrets: %q omitted; catalogd accepts at most %d valid names of Secrets", name, maxSecrets)
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

// maxIcon is the limit of an icon in base64.
const maxIcon = 256 << 10

func (m *Migration) texts(spec legacySpec) {
	m.To.Spec.DisplayName = m.text("displayName", spec.DisplayName, 256)
	m.To.Spec.Publisher = m.text("publisher", spec.Publisher, 256)
	m.To.Spec.Description = m.text("description", spec.Description, 4096)
	switch {
	case len(spec.Icon.Data) > maxIcon:
		m.note("spec.icon: omitted; it is larger than 256 KiB")
	case spec.Icon.Data != "":
		m.To.Spec.Icon = &v1beta1.Icon{Base64Data: spec.Icon.Data, MediaType: spec.Icon.MediaType}
	}
	if spec.Priority < math.MinInt32 || spec.Priority > math.MaxInt32 {
		m.note("spec.priority: %d exceeds 32 bits and was replaced by the nearest value", spec.Priority)
	}
	m.To.Spec.Priority = int32(min(max(spec.Priority, math.MinInt32), math.MaxInt32))
}

func (m *Migration) text(field, value string, limit int) string {
	runes := []rune(value)
	if len(runes) <= limit {
		return value
	}
	m.note("spec.%s: truncated to the limit of %d characters", field, limit)
	return string(runes[:limit])
}

// unknown notes fields that OLM's type does not have, such as those of other releases.
func (m *Migration) unknown() {
	spec, _, _ := unstructured.NestedMap(m.From.Object, "spec")
	for _, field := range slices.Sorted(maps.Keys(spec)) {
		switch {
		case slices.Contains(legacyFields, field):
		case field == "runAsRoot":
			m.note("spec.runAsRoot: %s", noPod)
		default:
			m.note("spec.%s: omitted; unknown field of operators.coreos.com/v1alpha1", field)
		}
	}
}

// Object returns the CatalogSource without empty fields of the Go type.
func (m *Migration) Object() (map[string]any, error) { return manifest(&m.To) }

func manifest(of any) (map[string]any, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(of)
	if err != nil {
		return nil, err
	}
	delete(object, "status")
	unstructured.RemoveNestedField(object, "metadata", "creationTimestamp")
	return object, nil
}
