package bundles

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/bundle"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

func newShowCommand(s *session.Session) *cobra.Command {
	var catalog string
	cmd := &cobra.Command{
		Use:   "show PACKAGE[@VERSION]",
		Short: "Show the objects of a bundle, and whether its permissions are risky",
		Example: `  kubectl catalog bundle show shipwright-operator
  kubectl catalog bundle show shipwright-operator@0.9.0 -o json`,
		Args: oneBundle,
	}
	format := output.NewFormat(cmd)
	addCatalogFlag(s, cmd, &catalog)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := find(cmd.Context(), s, args[0], catalog)
		if err != nil {
			return err
		}
		d, err := describe(cmd.Context(), f)
		switch {
		case err != nil:
			return err
		case format.IsTable():
			return d.print(s.Stdout, f.Name)
		}
		return format.PrintObject(s.Stdout, "Bundle", f.Name, d)
	}
	return cmd
}

func (d details) print(to *output.Terminal, name string) error {
	kinds, bytes := map[string]int{}, int64(0)
	var crds []string
	for _, file := range d.Content.Files {
		bytes += file.Bytes
		for _, object := range file.Objects {
			kinds[object.Kind]++
			if object.Kind == "CustomResourceDefinition" {
				crds = append(crds, object.Name)
			}
		}
	}
	var objects []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		objects = append(objects, fmt.Sprintf("%d %s", kinds[kind], kind))
	}
	image := d.Content.Image
	switch {
	case d.Content.FromCatalog:
		image += " (not pulled: the manifests are those in the catalog)"
	case !d.Content.Pinned:
		image += " (a tag: now " + d.Content.Digest + ")"
	}
	secrets, risks := "no", "none"
	if d.Permissions.ClusterWideSecrets {
		secrets = to.Paint(output.Red, "yes")
	}
	if len(d.Permissions.Risks) > 0 {
		risks = strings.Join(d.Permissions.Risks, "; ")
	}
	var webhooks []string
	for _, w := range d.Permissions.Webhooks {
		webhooks = append(webhooks, w.Name+" ("+w.Type+")")
	}
	return to.Fields(0, [][2]string{
		{"Bundle", output.Line(name)},
		{"Package", output.Line(d.Package + " in catalog " + d.Catalog)},
		{"Version", output.Line(d.Version)},
		{"Image", output.Line(image)},
		{"Files", fmt.Sprintf("%d (%s)", len(d.Content.Files), output.Bytes(bytes))},
		{"Cannot be read", output.Line(strings.Join(d.Content.Faults(), ", "))},
		{"Objects", output.Line(strings.Join(objects, ", "))},
		{"CRDs", output.Line(strings.Join(crds, ", "))},
		{"Webhooks", output.Line(strings.Join(webhooks, ", "))},
		{"Asks for cluster-wide secrets", secrets},
		{"Risks of its permissions", risks},
	}...)
}

func newPermissionsCommand(s *session.Session) *cobra.Command {
	var catalog string
	cmd := &cobra.Command{
		Use:   "permissions PACKAGE[@VERSION]",
		Short: "Show the permissions that a bundle asks for",
		Long: `Show the permissions that a bundle asks for, by ServiceAccount: the rules of its
ClusterServiceVersion, Roles and ClusterRoles. Rules of scope Namespace apply in the
namespace of the operator. Those of the ClusterServiceVersion apply in every namespace that the
OperatorGroup selects, which can be all namespaces.`,
		Example: `  kubectl catalog bundle permissions shipwright-operator
  kubectl catalog bundle permissions shipwright-operator@0.9.0 -o yaml`,
		Args: oneBundle,
	}
	format := output.NewFormat(cmd)
	addCatalogFlag(s, cmd, &catalog)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := find(cmd.Context(), s, args[0], catalog)
		if err != nil {
			return err
		}
		var p bundle.Permissions
		if err := f.read(cmd.Context(), "permissions", &p); err != nil {
			return err
		}
		if len(p.Faults) > 0 {
			s.Stderr.Warnf("some objects in %s of bundle %s cannot be read and may request more permissions; to get the files: kubectl catalog bundle get %s@%s",
				strings.Join(p.Faults, ", "), f.Name, f.Package, f.Version)
		}
		if p.FromCatalog {
			s.Stderr.Warnf("these permissions come from the catalog; OLM installs the bundle image, which may request others")
		}
		if format.IsTable() {
			rows, err := ruleRows(p)
			if err != nil {
				return err
			}
			return format.Print(s.Stdout, ruleColumns, rows, false)
		}
		return format.PrintObject(s.Stdout, "BundlePermissions", f.Name, p)
	}
	return cmd
}

var ruleColumns = []output.Column{
	{Name: "service account"}, {Name: "scope"}, {Name: "resources", Least: 20}, {Name: "api groups", Least: 12}, {Name: "verbs", Least: 12},
	{Name: "risks", Least: 12, Style: func(string) output.Style { return output.Red }}, {Name: "from", Wide: true},
}

func ruleRows(p bundle.Permissions) (rows []output.Row, err error) {
	for _, account := range p.ServiceAccounts {
		name := account.Name
		if name == "" {
			name = "(none)"
		}
		for _, grant := range account.Grants {
			rules := grant.Rules
			if grant.Unknown {
				rules = append(rules, bundle.Rule{Risks: []string{bundle.RiskUnknown + ": " + grant.From}})
			}
			for _, rule := range rules {
				resources := slices.Concat(rule.Resources, rule.NonResourceURLs)
				for i, resource := range rule.Resources {
					if len(rule.ResourceNames) > 0 {
						resources[i] = resource + "/" + strings.Join(rule.ResourceNames, "|")
					}
				}
				groups := slices.Clone(rule.APIGroups)
				for i, group := range groups {
					if group == "" {
						groups[i] = "core"
					}
				}
				row, err := output.NewRow("Rule", account.Name, rule, name, string(grant.Scope), strings.Join(resources, ","),
					strings.Join(groups, ","), strings.Join(rule.Verbs, ","), strings.Join(rule.Risks, "; "), grant.From)
				if err != nil {
					return nil, err
				}
				rows = append(rows, row)
			}
		}
	}
	return rows, nil
}
