package e2e

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestPluginShow prints pages about packages.
func TestPluginShow(t *testing.T) {
	w := pluginWorld(t)
	for name, args := range map[string]string{
		"package":      "show skupper-operator",
		"channel":      "show skupper-operator --channel stable-1.6 -c sample",
		"version-yaml": "show skupper-operator --version v1.8.0 -o yaml",
		"needs":        "show mercury-operator",
	} {
		t.Run(name, func(t *testing.T) {
			checkGolden(t, "show/"+name+".txt", w.plugin(t, strings.Fields(args)...).must(t))
		})
	}
	narrow := w.pluginWith(t, []string{"COLUMNS=60"}, "", "show", "skupper-operator").must(t)
	if strings.Contains(narrow, "services running in different network") {
		t.Errorf("it is not wrapped at 60 columns:\n%s", narrow)
	}
	w.plugin(t, "show").fails(t, 2, "specify a package")
	w.plugin(t, "show", "skuper-operator").fails(t, 3, `did you mean "skupper-operator"`)
	w.plugin(t, "show", "skupper-operator", "-c", "nope").fails(t, 3, `catalog "nope" not found`)
	w.plugin(t, "show", "skupper-operator", "--channel", "stabel").fails(t, 3, `did you mean "stable"`)
	w.plugin(t, "show", "skupper-operator", "--version", "9.99").fails(t, 3,
		`version "9.99" not found in package "skupper-operator" in catalog "sample"; it has 1.9.6, 1.9.4, `)
	w.plugin(t, "show", "skupper-operator", "--channel", "nightly").fails(t, 3,
		`channel "nightly" not found in package "skupper-operator" in catalog "sample"; it has alpha, stable, stable-1, `)
	w.plugin(t, "get", "bundles", "skupper-operator").fails(t, 3, `it is a package: kubectl catalog get bundles -p skupper-operator`)
	w.plugin(t, "show", "skupper-operator", "--version", "1.8.0", "--channel",
		"stable-1.6").fails(t, 3, `version "1.8.0" not found in channel "stable-1.6"`)

	// The catalog with the higher priority is shown, and the other one is named.
	ref, digest := w.registry.push(t, "preferred", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "preferred", ref, func(c *unstructured.Unstructured) {
		must.Succeed(t, unstructured.SetNestedField(c.Object, int64(10), "spec", "priority"))
	})
	w.waitReady(t, "preferred", digest)
	both := w.plugin(t, "show", "skupper-operator").must(t)
	if want := "Catalog:           preferred (also in sample 1.9.6)\n"; !strings.Contains(both, want) {
		t.Errorf("it does not say %q:\n%s", want, both)
	}
	if got := w.plugin(t, "get", "package", "skupper-operator.preferred", "-o", "jsonpath={.catalog.name}").must(t); got != "preferred" {
		t.Errorf("skupper-operator.preferred is of catalog %q", got)
	}
}

func TestPluginSearch(t *testing.T) {
	w := pluginWorld(t)
	for name, args := range map[string]string{
		"database": "search database",
		"wide":     "search service network --limit 1 -o wide",
		"yaml":     "search DBaaSInventory -c sample -o yaml",
	} {
		t.Run(name, func(t *testing.T) {
			checkGolden(t, "search/"+name+".txt", w.plugin(t, strings.Fields(args)...).must(t))
		})
	}
	none := w.plugin(t, "search", "nothing", "like", "this")
	if none.must(t) != "" || !strings.Contains(none.stderr, `No package matches "nothing like this"`) {
		t.Errorf("where nothing is found it printed\n%s%s", none.stdout, none.stderr)
	}
	w.plugin(t, "search").fails(t, 2, "specify words")
	w.plugin(t, "search", "x", "--limit", "101").fails(t, 2, "between 1 and 100")
	w.plugin(t, "search", "x", "-c", "nope").fails(t, 3, `catalog "nope" not found`)
}

func TestPluginProviders(t *testing.T) {
	w := pluginWorld(t)
	for name, args := range map[string]string{
		"provides": "providers DBaaSInventory",
		"resource": "providers dbaasinventories.dbaas.redhat.com -c sample -o yaml",
		"needs":    "providers Kafka.v1beta2.kafka.strimzi.io",
	} {
		t.Run(name, func(t *testing.T) {
			checkGolden(t, "providers/"+name+".txt", w.plugin(t, strings.Fields(args)...).must(t))
		})
	}
	w.plugin(t, "providers").fails(t, 2, "specify an API")
	w.plugin(t, "providers", "DBaaSInventry").fails(t, 3, `did you mean "DBaaSInventory"`)
	w.plugin(t, "providers", "DBaaSInventory.example.com").fails(t, 3, "no package")
}

// TestPluginComplete completes names of the cluster, as the shell does.
func TestPluginComplete(t *testing.T) {
	w := pluginWorld(t)
	for args, want := range map[string]string{
		"get ":            "packages channels bundles deprecations",
		"list ":           "sample",
		"get packages sk": "skupper-operator",
		"show merc":       "mercury-operator",
		"get channels -p skupper-operator stable-1.":            "stable-1.6 stable-1.7 stable-1.8 stable-1.9",
		"get bundles -p skupper-operator --channel stable-1.6 ": "skupper-operator.v1.5.3 skupper-operator.v1.6.0",
		"show skupper-operator --channel stable-1.6 --version ": "1.6.0 1.5.3",
		"get packages --catalog ":                               "sample",
		"providers DBaaSI":                                      "DBaaSInstance.dbaas.redhat.com DBaaSInventory.dbaas.redhat.com",
		"path skupper-operator --channel stable-1.6 --from ":    "1.6.0 1.5.3",
	} {
		var names []string
		for line := range strings.Lines(w.plugin(t, append([]string{"__complete"}, strings.Split(args, " ")...)...).must(t)) {
			if name, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(name, ":") {
				names = append(names, name)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q is completed by %q, want %q", args, got, want)
		}
	}
}
