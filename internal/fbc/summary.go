package fbc

import (
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// Summary is what lists and searches say of one sound package: facts of its olm.package blob and of the head of its
// default channel. What the catalog does not say is empty. Texts beyond all reason are cut, ending in "…".
type Summary struct {
	Name             string   `json:"name"`
	DisplayName      string   `json:"displayName,omitempty"`
	ShortDescription string   `json:"shortDescription,omitempty"` // the CSV's annotation "description"
	Description      string   `json:"description,omitempty"`      // the long one, Markdown; without one that of the package
	Provider         string   `json:"provider,omitempty"`
	Keywords         []string `json:"keywords,omitempty"`
	Categories       []string `json:"categories,omitempty"`   // the CSV's annotation "categories", split at its commas
	Capabilities     string   `json:"capabilities,omitempty"` // the CSV's annotation "capabilities"
	Provides         []GVK    `json:"provides,omitempty"`     // of the head, sorted: its olm.gvk properties, else its owned CRDs
	DefaultChannel   string   `json:"defaultChannel"`
	Head             string   `json:"head"`                  // the bundle at the head of the default channel
	Version          string   `json:"version"`               // of the head, as its olm.package property has it
	Deprecation      string   `json:"deprecation,omitempty"` // the message, empty if the package is not deprecated
	HasIcon          bool     `json:"hasIcon,omitempty"`
	Channels         []string `json:"channels"` // their names, sorted
}

const (
	// maxDescription bounds a long description, in bytes. The longest known one has 34 kB.
	maxDescription = 64 << 10
	// maxSummaryText bounds every other text of a summary, and maxSummaryList the keywords and the categories. Known ones
	// have up to 600 bytes, and 26.
	maxSummaryText = 4 << 10
	maxSummaryList = 100
)

// DefaultHead is the bundle at the head of the default channel, which every sound package has.
func (p *Package) DefaultHead() string {
	i := slices.IndexFunc(p.Channels, func(ch Channel) bool { return ch.Name == p.DefaultChannel })
	if i < 0 {
		return ""
	}
	return p.Channels[i].Head
}

// NewSummary makes the summary of a sound package; head is the blob of its DefaultHead (compact JSON). Where that has no
// ClusterServiceVersion, or none that can be read, there is no more than the package and the properties say.
func NewSummary(p *Package, head []byte) Summary {
	s := Summary{
		Name:           p.Name,
		Description:    scan.Shorten(p.Description, maxDescription),
		DefaultChannel: p.DefaultChannel,
		Head:           p.DefaultHead(),
		Deprecation:    scan.Shorten(p.Deprecation, maxSummaryText),
		HasIcon:        p.HasIcon,
		Channels:       make([]string, len(p.Channels)),
	}
	for i, ch := range p.Channels {
		s.Channels[i] = ch.Name
	}
	if b, err := scan.ParseBlob(head); err == nil {
		facts := FactsOf(b)
		s.Version, s.Provides = facts.Version, facts.Provides
	}
	if csv, err := CSV(head, p.Description); err == nil {
		s.addCSV(csv)
	}
	return s
}

func (s *Summary) addCSV(csv *v1alpha1.ClusterServiceVersion) {
	s.DisplayName = summaryText(csv.Spec.DisplayName)
	s.ShortDescription = summaryText(csv.Annotations["description"])
	if csv.Spec.Description != "" {
		s.Description = scan.Shorten(csv.Spec.Description, maxDescription)
	}
	s.Provider = summaryText(csv.Spec.Provider.Name)
	s.Keywords = summaryList(csv.Spec.Keywords)
	s.Categories = summaryList(strings.Split(csv.Annotations["categories"], ","))
	s.Capabilities = summaryText(csv.Annotations["capabilities"])
	if len(s.Provides) == 0 {
		s.Provides = ownedAPIs(csv)
	}
}

// ownedAPIs are the APIs of the CRDs that a ClusterServiceVersion owns. The name of a CRD is "plural.group".
func ownedAPIs(csv *v1alpha1.ClusterServiceVersion) []GVK {
	var apis []GVK
	for _, crd := range csv.Spec.CustomResourceDefinitions.Owned {
		_, group, _ := strings.Cut(crd.Name, ".")
		if g := (GVK{Group: group, Version: crd.Version, Kind: crd.Kind}); len(apis) < maxFacts && g.isSound() {
			apis = append(apis, g)
		}
	}
	slices.SortFunc(apis, compareGVK)
	return slices.Compact(apis)
}

func summaryText(s string) string { return scan.Shorten(strings.TrimSpace(s), maxSummaryText) }

// summaryList drops what is empty, or there already.
func summaryList(in []string) []string {
	var out []string
	for _, s := range in {
		if s = summaryText(s); s != "" && len(out) < maxSummaryList && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
