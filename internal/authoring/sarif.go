package authoring

import (
	"maps"
	"net/url"
	"path"
	"slices"
)

type object = map[string]any

// sarif returns the required part of SARIF 2.1.0 (OASIS, https://docs.oasis-open.org/sarif/sarif/v2.1.0/). Its levels
// have the names of our severities.
func (r *Report) sarif() object {
	ids := slices.Sorted(maps.Keys(Rules))
	rules := make([]object, len(ids))
	for i, id := range ids {
		rules[i] = object{
			"id":                   id,
			"shortDescription":     object{"text": Rules[id].Asks},
			"defaultConfiguration": object{"level": Rules[id].Severity},
		}
	}
	results := make([]object, len(r.Faults))
	for i, f := range r.Faults {
		index, _ := slices.BinarySearch(ids, f.Rule)
		results[i] = object{"ruleId": f.Rule, "ruleIndex": index, "level": f.Severity, "message": object{"text": f.Message}}
		if f.File != "" {
			results[i]["locations"] = []object{{"physicalLocation": f.sarif()}}
		}
	}
	driver := object{"name": "kubectl-catalog", "informationUri": "https://github.com/operator-catalogs/catalogd", "rules": rules}
	return object{
		"$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
		"version": "2.1.0",
		"runs":    []object{{"tool": object{"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}},
	}
}

// sarif returns the location of a fault in a file.
func (f Fault) sarif() object {
	uri := url.URL{Path: f.File}
	if path.IsAbs(f.File) {
		uri.Scheme = "file"
	}
	at := object{"artifactLocation": object{"uri": uri.String()}}
	if f.Line > 0 {
		region := object{"startLine": f.Line}
		if f.Column > 0 {
			region["startColumn"] = f.Column
		}
		at["region"] = region
	}
	return at
}
