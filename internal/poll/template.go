package poll

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The variables of an image template. Their names are those of OLM v0.
const (
	majorVariable = "kube_major_version"
	minorVariable = "kube_minor_version"
	patchVariable = "kube_patch_version"
)

// braces is anything in braces, and a brace that stands alone.
var braces = regexp.MustCompile(`\{[^{}]*\}|[{}]`)

// Render returns the reference of the image that a template means in a cluster of a version, as its API server tells it ("v1.37.1"). The
// texts of its errors are what OLM's enhancement for templates asks for.
func Render(template, gitVersion string) (string, error) {
	const failed = "Cannot construct catalog image reference" // a message for people, and promised: it begins as it does
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

// gitVersionFormat is the beginning of the gitVersion of Kubernetes, such as v1.20.1+bd9e442 or v1.37.1-rc.0.
var gitVersionFormat = regexp.MustCompile(`^v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:[-+.]|$)`)

// variables are the values that a version gives to a template. One that the version does not tell is empty.
func variables(gitVersion string) map[string]string {
	parts := gitVersionFormat.FindStringSubmatch(gitVersion)
	if parts == nil {
		return nil
	}
	return map[string]string{majorVariable: parts[1], minorVariable: parts[2], patchVariable: parts[3]}
}
