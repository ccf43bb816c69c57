package page

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// snippet is a manifest to copy.
type snippet struct{ Title, Note, Text string }

// Snippets returns the manifests and commands that install or mirror the shown version.
func (p packagePage) Snippets() []snippet {
	if p.Bundle == nil {
		return nil
	}
	namespace := p.namespace()
	name, catalog, channel := yamlText(p.Name), yamlText(p.Catalog.Name), yamlText(p.Channel)
	if p.Preview {
		catalog = "CATALOG"
	}
	version, csvName := yamlText(p.Bundle.Version), yamlText(p.Bundle.Name)
	fill := strings.NewReplacer("{image}", yamlText(p.Catalog.Image), "{name}", name, "{catalog}", catalog,
		"{channel}", channel, "{version}", version, "{csv}", csvName,
		"{namespace}", yamlText(namespace))
	snippets := []snippet{
		{"OLM v1: ClusterExtension", "The ServiceAccount needs the permissions that the operator requests; see the tab Permissions.",
			fill.Replace(clusterExtension)},
		{"OLM v0: Subscription", "Set sourceNamespace to the namespace of the CatalogSource of OLM v0; see docs/spec/olmv0.md of catalogd.",
			fill.Replace(subscription)},
	}
	if p.Preview { // a mirror needs an image
		return snippets
	}
	return append(snippets,
		snippet{"Mirror: kubectl catalog", "This command copies the catalog and all images of this version to another registry.",
			fmt.Sprintf("kubectl catalog mirror %s %s --to REGISTRY/PREFIX", shellText(p.Catalog.Name),
				shellText(p.Name+"/"+p.Channel+"@="+p.Bundle.Version))},
		snippet{"Mirror: oc-mirror", "The catalog image must be accessible to oc-mirror.", fill.Replace(imageSet)})
}

// namespace returns the suggested namespace of the operator.
func (p packagePage) namespace() string {
	if p.Bundle.CSV != nil {
		if suggested := p.Bundle.CSV.Annotation("operatorframework.io/suggested-namespace"); suggested != "" {
			return suggested
		}
	}
	return p.Name
}

const clusterExtension = `apiVersion: olm.operatorframework.io/v1
kind: ClusterExtension
metadata:
  name: {name}
spec:
  namespace: {namespace}
  serviceAccount:
    name: {name}-installer
  source:
    sourceType: Catalog
    catalog:
      packageName: {name}
      channels:
      - {channel}
      version: {version}
      selector:
        matchLabels:
          olm.operatorframework.io/metadata.name: {catalog}
`

const subscription = `apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata:
  name: {name}
  namespace: {namespace}
spec:
  name: {name}
  channel: {channel}
  startingCSV: {csv}
  source: {catalog}
  sourceNamespace: olm
`

const imageSet = `apiVersion: mirror.openshift.io/v2alpha1
kind: ImageSetConfiguration
mirror:
  operators:
  - catalog: {image}
    packages:
    - name: {name}
      channels:
      - name: {channel}
        minVersion: {version}
`

// plain matches texts that need no quotes in YAML and in a shell.
var plain = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9._/@=-]*$`)

// yamlText returns a text as a YAML string, in JSON syntax if it needs quotes.
func yamlText(text string) string {
	if plain.MatchString(text) && !isYAMLWord(text) {
		return text
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return `""` // strings can be encoded
	}
	return string(quoted)
}

// isYAMLWord reports whether YAML 1.1 reads a text as a boolean or null.
func isYAMLWord(text string) bool {
	switch strings.ToLower(text) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return true
	}
	return false
}

// shellText quotes a text for a POSIX shell.
func shellText(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
