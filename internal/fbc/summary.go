package fbc

import (
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// Summary is the entry of a valid package in lists and searches: facts of its olm.package blob and of the head
// of its default channel. Unknown fields are empty. Excessively long texts are cut and end in "…".
type Summary struct {
	Name             string   `json:"name"`
	DisplayName      string   `json:"displayName,omitempty"`
	ShortDescription string   `json:"shortDescription,omitempty"` // the CSV's annotation "description"
	Description      string   `json:"description,omitempty"`      // the CSV's description (Markdown), else the package's
	Provider         string   `json:"provider,omitempty"`
	Keywords         []string `json:"keywords,omitempty"`
	Categories       []string `json:"categories,omitempty"`   // the CSV's annotation "categories", split at its commas
	Capabilities     string   `json:"capabilities,omitempty"` // the CSV's annotation "capabilities"
	Provides         []GVK    `json:"provides,omitempty"`     // of the head, sorted: its olm.gvk properties, else its owned CRDs
	DefaultChannel   string   `json:"defaultChannel"`
	Head             string   `json:"head"`                  // the bundle at the head of the default channel
	Version          string   `json:"version"`               // of the head, as in its olm.package property
	Deprecation      string   `json:"deprecation,omitempty"` // the message, empty if the package is not deprecated
	HasIcon          bool     `json:"hasIcon,omitempty"`
	IconHash         string   `json:"iconHash,omitempty"` // as in Package
	Channels         []string `json:"channels"`           // their names, sorted

	// Fields of the head's CSV, each sorted; empty without a CSV.
	Architectures    []string `json:"architectures,omitempty"`    // amd64 if the CSV has no such label
	OperatingSystems []string `json:"operatingSystems,omitempty"` // linux if the CSV has no such label
	Features         []string `json:"features,omitempty"`         // infrastructure features in the newer spelling
	InstallModes     []string `json:"installModes,omitempty"`     // the supported ones
}

const (
	// maxDescription limits a long description, in bytes. The longest known one has 34 kB.
	maxDescription = 64 << 10
	// maxSummaryText limits other texts, and maxSummaryList the keywords and the categories. The largest known
	// values are 600 bytes and 26.
	maxSummaryText = 4 << 10
	maxSummaryList = 100
)

// DefaultHead returns the bundle at the head of the default channel. Every valid package has one.
func (p *Package) DefaultHead() string {
	i := slices.IndexFunc(p.Channels, func(ch Channel) bool { return ch.Name == p.DefaultChannel })
	if i < 0 {
		return ""
	}
	return p.Channels[i].Head
}

// NewSummary returns the summary of a valid package. head is the blob of its DefaultHead (compact JSON). Without
// a readable ClusterServiceVersion, only the package and the properties are used.
func NewSummary(p *Package, head []byte) Summary {
	s := Summary{
		Name:           p.Name,
		Description:    scan.Shorten(p.Description, maxDescription),
		DefaultChannel: p.DefaultChannel,
		Head:           p.DefaultHead(),
		Deprecation:    scan.Shorten(p.Deprecation, maxSummaryText),
		HasIcon:        p.HasIcon,
		IconHash:       p.IconHash,
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
	s.Architectures = platforms(csv.Labels, archLabels, "amd64")
	s.OperatingSystems = platforms(csv.Labels, osLabels, "linux")
	s.Features = features(csv.Annotations)
	s.InstallModes = installModes(csv.Spec.InstallModes)
	if len(s.Provides) == 0 {
		s.Provides = ownedAPIs(csv)
	}
}

// ownedAPIs returns the APIs of the CRDs that a ClusterServiceVersion owns. The name of a CRD is "plural.group".
func ownedAPIs(csv *v1alpha1.ClusterServiceVersion) []GVK {
	var apis []GVK
	for _, crd := range csv.Spec.CustomResourceDefinitions.Owned {
		_, group, _ := strings.Cut(crd.Name, ".")
		if g := (GVK{Group: group, Version: crd.Version, Kind: crd.Kind}); len(apis) < maxFacts && g.isValid() {
			apis = append(apis, g)
		}
	}
	slices.SortFunc(apis, compareGVK)
	return slices.Compact(apis)
}

func summaryText(s string) string { return scan.Shorten(strings.TrimSpace(s), maxSummaryText) }

// summaryList omits empty texts and duplicates.
func summaryList(in []string) []string {
	var out []string
	for _, s := range in {
		if s = summaryText(s); s != "" && len(out) < maxSummaryList && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
