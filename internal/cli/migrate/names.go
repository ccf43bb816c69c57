package migrate

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// names are names for the catalogs, of which each is one of a kind: there are no namespaces to tell them apart any more.
func names(found []*unstructured.Unstructured) []string {
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

// maxLabel is how long the name of a CatalogSource may be.
const maxLabel = 63

// Label makes a name that a CatalogSource can have, and a Secret, of any text: a DNS label (RFC 1123).
func Label(text string) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, text), "-")
	if name == "" || len(name) > maxLabel {
		name = strings.Trim(fmt.Sprintf("%s-%x", name[:min(len(name), maxLabel-9)], sha256.Sum256([]byte(text)))[:min(len(name), maxLabel-9)+9],
			"-")
	}
	return name
}

// secretNames tells how Secrets are to be called in catalogd's namespace: as they are, unless several namespaces have one of the name.
func secretNames(found []*unstructured.Unstructured) func(namespace, name string) string {
	namespaces := map[string]map[string]bool{}
	for _, from := range found {
		names, _, _ := unstructured.NestedStringSlice(from.Object, "spec", "secrets")
		for _, name := range names {
			if namespaces[name] == nil {
				namespaces[name] = map[string]bool{}
			}
			namespaces[name][from.GetNamespace()] = true
		}
	}
	return func(namespace, name string) string {
		if len(namespaces[name]) > 1 {
			return Label(name + "-" + namespace)
		}
		return name
	}
}
