package fbc

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
)

// Labels and annotations of a ClusterServiceVersion about platforms and infrastructure features.
const (
	archLabels         = "operatorframework.io/arch."
	osLabels           = "operatorframework.io/os."
	labelSupported     = "supported"
	featureAnnotations = "features.operators.openshift.io/"               // prefix of a feature; the value is "true" or "false"
	oldFeatures        = "operators.openshift.io/infrastructure-features" // a JSON list of features
)

// featureNames maps spellings of infrastructure features, in lower case and without punctuation, to their names in the newer
// annotations. Other features keep their names, in lower case.
var featureNames = map[string]string{ //nolint:gosec // G101: a "token" is a feature here
	"disconnected":        "disconnected",
	"fips":                "fips-compliant",
	"fipscompliant":       "fips-compliant",
	"fipsmode":            "fips-compliant",
	"proxy":               "proxy-aware",
	"proxyaware":          "proxy-aware",
	"cnf":                 "cnf",
	"cni":                 "cni",
	"csi":                 "csi",
	"sno":                 "sno",
	"singlenode":          "sno",
	"singlenodeclusters":  "sno",
	"hcp":                 "hcp",
	"hostedcontrolplane":  "hcp",
	"hostedcontrolplanes": "hcp",
	"tlsprofiles":         "tls-profiles",
	"tokenauth":           "token-auth",
	"tokenauthaws":        "token-auth-aws",
	"tokenauthazure":      "token-auth-azure",
	"tokenauthgcp":        "token-auth-gcp",
}

// featureName returns the name of an infrastructure feature; empty if the text has no letters or digits.
func featureName(text string) string {
	letters := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
	if name, ok := featureNames[letters]; ok || letters == "" {
		return name
	}
	return strings.ToLower(summaryText(text))
}

// features returns the infrastructure features that annotations claim, sorted. A newer annotation overrides the older list for its
// feature.
func features(annotations map[string]string) []string {
	claimed := map[string]bool{}
	for _, text := range oldFeatureList(annotations[oldFeatures]) {
		claimed[featureName(text)] = true
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if feature, ok := strings.CutPrefix(key, featureAnnotations); ok {
			claimed[featureName(feature)] = strings.EqualFold(strings.Trim(annotations[key], " \t\r\n\"'`“”„‘’"), "true")
		}
	}
	maps.DeleteFunc(claimed, func(_ string, is bool) bool { return !is })
	return summaryList(slices.Sorted(maps.Keys(claimed)))
}

// oldFeatureList parses a JSON list. It also accepts lists without quotes, such as [fips], because catalogs have them.
func oldFeatureList(text string) (list []string) {
	if len(text) > maxSummaryText {
		return nil
	}
	if json.Unmarshal([]byte(text), &list) == nil {
		return list
	}
	return strings.Split(strings.Trim(text, " \t\r\n[]"), ",")
}

// platforms returns the supported architectures or operating systems of labels, sorted. Without such a label it returns byDefault,
// as OLM's packageserver does.
func platforms(labels map[string]string, prefix, byDefault string) []string {
	var names []string
	labeled := false
	for key, value := range labels {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			labeled = true
			if value == labelSupported {
				names = append(names, name)
			}
		}
	}
	if !labeled {
		return []string{byDefault}
	}
	slices.Sort(names)
	return summaryList(names)
}

// installModes returns the supported install modes, sorted.
func installModes(modes []v1alpha1.InstallMode) []string {
	var names []string
	for _, mode := range modes {
		if mode.Supported {
			names = append(names, string(mode.Type))
		}
	}
	slices.Sort(names)
	return summaryList(names)
}
