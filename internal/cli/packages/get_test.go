package packages

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session/sessiontest"
)

// TestNarrowListOfBundles checks that rows stay distinct on a narrow terminal, and that columns given as flags are dropped first.
func TestNarrowListOfBundles(t *testing.T) {
	var rows []output.Row
	for _, version := range []string{"0.51.0", "0.50.1"} {
		rows = append(rows, output.Row{
			Cells: []string{"strimzi-cluster-operator.v" + version, "strimzi-kafka-operator", "community", version, "stable, strimzi-0.x", "", ""},
		})
	}
	for _, c := range []struct {
		opts getRequest
		want string
	}{
		{getRequest{
			Scope: lookup.Scope{Package: "strimzi-kafka-operator", Catalog: "community"},
		}, `NAME                               VERSION   CHANNELS
strimzi-cluster-operator.v0.51.0   0.51.0    stable, s…
strimzi-cluster-operator.v0.50.1   0.50.1    stable, s…
`},
		{getRequest{all: true}, `NAME                               CATALOG     VERSION
strimzi-cluster-operator.v0.51.0   community   0.51.0
strimzi-cluster-operator.v0.50.1   community   0.50.1
`},
	} {
		var b bytes.Buffer
		out := output.NewFormat(&cobra.Command{})
		if err := out.Print(&output.Terminal{Writer: &b, Width: 55}, known(bundleKind.columns, c.opts.Scope), rows, false); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, b.String()); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.opts, diff)
		}
	}
}

// TestEmptyListExplainsMetadataName checks the hint for a selector that names a package by metadata.name.
func TestEmptyListExplainsMetadataName(t *testing.T) {
	for fields, wanted := range map[string]bool{"metadata.name=argocd-operator": true, "spec.packageName=argocd-operator": false} {
		var b bytes.Buffer
		s := sessiontest.New(t, &b, "--server-url", "http://127.0.0.1:1")
		if err := printNothing(t.Context(), s, getRequest{kind: packageKind, fields: fields}, output.NewFormat(&cobra.Command{})); err != nil {
			t.Fatal(err)
		}
		want := "No packages found with the fields \"" + fields + "\"."
		if got := b.String(); !strings.HasPrefix(got, want) ||
			strings.Contains(got, "metadata.name is PACKAGE.CATALOG; spec.packageName is the name of the package.") != wanted {
			t.Errorf("%s: %s", fields, got)
		}
	}
}

// TestViewsReferenceAlike checks that all printed objects have the same form of reference to their package and catalog.
func TestViewsReferenceAlike(t *testing.T) {
	for _, v := range []any{
		packageView{}, packageDetails{}, otherCatalog{}, channelView{}, bundleView{}, deprecationView{}, apiUser{}, channel.UpgradeGraph{}, channel.UpgradePath{},
	} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(v)) {
			tag := field.Tag.Get("json")
			if (tag == "catalog" || tag == "package") && field.Type != reflect.TypeFor[content.Named]() {
				t.Errorf("%T: %s is a %s", v, tag, field.Type)
			}
		}
	}
}
