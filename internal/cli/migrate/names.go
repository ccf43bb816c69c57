package migrate

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
)

// names returns a unique name for each catalog. The new ones have no namespace.
func names(found []unstructured.Unstructured) []string {
	count := map[string]int{}
	for _, from := range found {
		count[Label(from.GetName())]++
	}
	names, taken := make([]string, len(found)), map[string]bool{}
	for i, from := range found {
		name := Label(from.GetName())
		if count[name] > 1 && from.GetNamespace() != "" {
			name = Label(from.GetName() + "-" + from.GetNamespace())
		}
		for n := 2; taken[name]; n++ {
			name = Label(fmt.Sprintf("%s-%s-%d", from.GetName(), from.GetNamespace(), n))
		}
		names[i], taken[name] = name, true
	}
	return names
}

// maxLabel is the maximum length of a DNS label.
const maxLabel = 63

var notInLabel = regexp.MustCompile(`[^a-z0-9]`)

// Label converts a text to a DNS label (RFC 1123), a valid name of CatalogSources and Secrets.
func Label(text string) string {
	name := strings.Trim(notInLabel.ReplaceAllString(strings.ToLower(text), "-"), "-")
	if name == "" || len(name) > maxLabel {
		name = strings.Trim(fmt.Sprintf("%s-%.4x", name[:min(len(name), maxLabel-9)], sha256.Sum256([]byte(text))), "-")
	}
	return name
}

// secretNames returns a function for the names of Secrets in catalogd's namespace. A name that occurs in several namespaces
// gets its namespace as a suffix.
func secretNames(found []unstructured.Unstructured) func(namespace, name string) string {
	namespaces := map[string]sets.Set[string]{}
	for _, from := range found {
		names, _, _ := unstructured.NestedStringSlice(from.Object, "spec", "secrets")
		for _, name := range names {
			namespaces[name] = namespaces[name].Union(sets.New(from.GetNamespace()))
		}
	}
	return func(namespace, name string) string {
		if namespaces[name].Len() > 1 {
			return Label(name + "-" + namespace)
		}
		return name
	}
}
