package authoring

import (
	"maps"
	"net/url"
	"path"
	"slices"
)

// The required part of SARIF 2.1.0 (OASIS, https://docs.oasis-open.org/sarif/sarif/v2.1.0/).
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID                   string       `json:"id"`
		ShortDescription     sarifText    `json:"shortDescription"`
		DefaultConfiguration sarifDefault `json:"defaultConfiguration"`
	}
	sarifDefault struct {
		Level Severity `json:"level"` // SARIF has the same names
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     Severity        `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`
	}
	sarifLocation struct {
		PhysicalLocation sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		ArtifactLocation sarifArtifact `json:"artifactLocation"`
		Region           *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
)

func (r *Report) sarif() sarifLog {
	ids := slices.Sorted(maps.Keys(Rules))
	rules := make([]sarifRule, len(ids))
	for i, id := range ids {
		rules[i] = sarifRule{ID: id, ShortDescription: sarifText{Rules[id].Asks}, DefaultConfiguration: sarifDefault{Rules[id].Severity}}
	}
	results := make([]sarifResult, len(r.Faults))
	for i, f := range r.Faults {
		index, _ := slices.BinarySearch(ids, f.Rule)
		results[i] = sarifResult{RuleID: f.Rule, RuleIndex: index, Level: f.Severity, Message: sarifText{f.Message}, Locations: f.sarif()}
	}
	return sarifLog{
		Schema:  "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
		Version: "2.1.0",
		Runs: []sarifRun{{
			Tool: sarifTool{sarifDriver{
				Name:           "kubectl-catalog",
				InformationURI: "https://github.com/operator-catalogs/catalogd",
				Rules:          rules,
			}},
			ColumnKind: "unicodeCodePoints",
			Results:    results,
		}},
	}
}

func (f Fault) sarif() []sarifLocation {
	if f.File == "" {
		return nil
	}
	uri := url.URL{Path: f.File}
	if path.IsAbs(f.File) {
		uri.Scheme = "file"
	}
	at := sarifPhysical{ArtifactLocation: sarifArtifact{uri.String()}}
	if f.Line > 0 {
		at.Region = &sarifRegion{f.Line, f.Column}
	}
	return []sarifLocation{{at}}
}
