package poll

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The variables of an image template, as in OLM v0.
const (
	majorVariable = "kube_major_version"
	minorVariable = "kube_minor_version"
	patchVariable = "kube_patch_version"
)

// braces matches text in braces, and single braces.
var braces = regexp.MustCompile(`\{[^{}]*\}|[{}]`)

// Render returns the image reference of a template for a cluster of a version, given as the API server's
// gitVersion ("v1.37.1"). Its errors have the text that OLM's enhancement for templates specifies.
func Render(template, gitVersion string) (string, error) {
	const failed = "Cannot construct catalog image reference" // specified text
	known := []string{majorVariable, minorVariable, patchVariable}
	values := variables(gitVersion)
	var missing []string
	for _, found := range braces.FindAllString(template, -1) {
		variable := strings.Trim(found, "{}")
		switch {
		case !slices.Contains(known, variable):
			return "", fmt.Errorf("%s, %q is not a known variable; known are %s", failed, found, strings.Join(known, ", "))
		case values[variable] == "" && !slices.Contains(missing, fmt.Sprintf("%q", variable)):
			missing = append(missing, fmt.Sprintf("%q", variable))
		}
	}
	switch len(missing) {
	case 0:
		return braces.ReplaceAllStringFunc(template, func(found string) string { return values[strings.Trim(found, "{}")] }), nil
	case 1:
		return "", fmt.Errorf("%s, variable %s couldn't be resolved", failed, missing[0])
	default:
		return "", fmt.Errorf("%s, variables %s couldn't be resolved", failed, strings.Join(missing, ", "))
	}
}

// gitVersionFormat matches the beginning of a Kubernetes gitVersion, such as v1.20.1+bd9e442 or v1.37.1-rc.0.
var gitVersionFormat = regexp.MustCompile(`^v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:[-+.]|$)`)

// variables returns the template values for a version. A part missing from the version is empty.
func variables(gitVersion string) map[string]string {
	parts := gitVersionFormat.FindStringSubmatch(gitVersion)
	if parts == nil {
		return nil
	}
	return map[string]string{majorVariable: parts[1], minorVariable: parts[2], patchVariable: parts[3]}
}
