// Package source defines the desired and the last reported state of a catalog, as values that name no API type of ours. An
// adapter for each kind of object (internal/sync/catalogsource) translates from and to its objects.
package source

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/operator-catalogs/catalogd/internal/subset"
)

// Source is one catalog as its object specifies it, with the last status. It is a value: a pass does not change it.
type Source struct {
	Kind       schema.GroupVersionKind
	Name       string
	UID        types.UID
	Generation int64
	Labels     map[string]string // copied to the packages

	Image    Image
	Schedule Schedule
	Access   Access
	State    State
	Priority int32
	Names    Names
	Prefetch bool          // cache the bundles at the heads of channels
	Filter   subset.Filter // selects the part of the catalog that is kept; zero: all

	Observed Status
}

// Image names the image of a catalog and where its content lies.
type Image struct {
	Field     string // of the object that has Ref
	Ref       string
	Template  string // wins over Ref
	ConfigDir string // empty: the image's label decides
}

// Schedule decides when an image is polled. Cron excludes Interval; without both, the default interval applies.
type Schedule struct {
	Cron     string
	Interval time.Duration // 0: none
	Once     bool          // polled at the start, after changes of the object, and on request only
	Suspend  bool
	Request  string // asks for a poll when it differs from Status.Requested
}

// Access names the Secrets and ConfigMaps that give access to the registry, and its mirrors.
type Access struct {
	Defaults          string // the ConfigMap that has the settings; empty: the object has them
	PullSecrets       []string
	CABundle          Bundle
	ClientCertificate string // a Secret; empty: none
	Proxy             string // a Secret; empty: none
	Insecure          bool
	Mirrors           []Mirror
}

// Bundle is a key of a ConfigMap or a Secret that holds CA certificates. The zero Bundle is none.
type Bundle struct {
	Kind, Name, Key string
}

// Mirror is another location of images.
type Mirror struct {
	Source, Location, PullFrom string
	Insecure                   bool
}

// Field returns the name of a setting for people.
func (a Access) Field(setting string) string {
	if a.Defaults != "" {
		return setting + " of registry.yaml in ConfigMap " + a.Defaults
	}
	return "spec.registry." + setting
}

// UsesSecret reports whether access needs the Secret of this name, or may need it by its ConfigMap.
func (a Access) UsesSecret(secret string) bool {
	return a.Defaults != "" || slices.Contains(a.PullSecrets, secret) || a.ClientCertificate == secret || a.Proxy == secret ||
		(a.CABundle.Kind == "Secret" && a.CABundle.Name == secret)
}

// UsesConfigMap reports whether access needs the ConfigMap of this name, or may need it.
func (a Access) UsesConfigMap(configMap string) bool {
	return a.Defaults != "" || (a.CABundle.Kind != "Secret" && a.CABundle.Name == configMap)
}

// State is the desired state of a catalog.
type State int

// The states of a catalog.
const (
	Available State = iota
	Withdrawn       // content and packages are deleted; the object stays
	Deleting        // the object is deleted, too
)

// Names are shown to people and copied to the packages.
type Names struct {
	Display     string
	Publisher   string
	Description string
}

// Status is what an object reports of its catalog. Published times have whole seconds.
type Status struct {
	Generation int64 // of the object that the status is about
	Conditions []metav1.Condition
	Image      string   // whose content is served
	Digest     string   // of the served content; kept while the content is missing
	URL        string   // of the catalog's content; empty while nothing is served
	Content    *Content // nil while nothing is served
	Changed    time.Time
	Requested  string    // the last Schedule.Request that was handled
	OLMv0      []string  // the namespaces where the catalog is offered to OLM v0
	Prefetch   *Prefetch // nil: nothing is to be cached, or not known yet
	Progress   *Progress
}

// Prefetch is how far the wanted bundles are cached.
type Prefetch struct {
	Bundles, Cached, Failed int
	Message                 string
}

// SetCondition sets the condition of a type, which is about the generation of the status; nil removes it.
func (s *Status) SetCondition(of string, condition *metav1.Condition) {
	if condition == nil {
		meta.RemoveStatusCondition(&s.Conditions, of)
		return
	}
	condition.Type, condition.ObservedGeneration = of, s.Generation
	meta.SetStatusCondition(&s.Conditions, *condition)
}

// Content is the served content in numbers.
type Content struct {
	Packages, Channels, Bundles, Blobs int
	Bytes                              int64
	Endpoint                           string // the registry's reference by digest
	UnpackedAt                         time.Time
	Invalid                            []InvalidPackage // the first few, by name
	InvalidCount                       int
	Subset                             *Subset // nil: the whole catalog
}

// Subset is what a filter leaves out, in numbers.
type Subset struct {
	Packages, Channels, Bundles, Blobs int
	NotFound                           []string // the first parts of the filter that match nothing
	NotFoundCount                      int
}

// InvalidPackage is a package that is not published.
type InvalidPackage struct {
	Name, Reason string
}

// Phase is a part of the work on new content.
type Phase string

// The phases, in their order.
const (
	Resolving   Phase = "Resolving"
	Downloading Phase = "Downloading"
	Indexing    Phase = "Indexing"
	Publishing  Phase = "Publishing"
)

// Progress is how far the work on new content has come.
type Progress struct {
	Phase                   Phase
	Bytes, TotalBytes       int64
	Packages, TotalPackages int32
}

// Basis identifies the digest in the status and since when it is there. A leader's decision to serve another digest
// rests on it. It is never empty.
func (s Status) Basis() string {
	return cmp.Or(s.Digest, "nothing") + "@" + s.Changed.UTC().Format(time.RFC3339)
}

// SpecChanged reports whether the spec is newer than the status.
func (s Source) SpecChanged() bool { return s.Observed.Generation != s.Generation }

// PollRequested reports whether somebody asks for a poll. A suspended catalog keeps the request until it is resumed.
func (s Source) PollRequested() bool {
	return s.Schedule.Request != "" && !s.Schedule.Suspend && s.Observed.Requested != s.Schedule.Request
}

// Urgent reports whether somebody waits for an attempt: the spec changed, or a poll is requested.
func (s Source) Urgent() bool { return s.SpecChanged() || s.PollRequested() }

// IsDigest reports whether an image reference names a digest, which is never polled.
func IsDigest(image string) bool {
	_, err := name.NewDigest(image)
	return err == nil
}
