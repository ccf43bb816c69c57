package author

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/migrate"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// A convertRequest selects catalogs and the kind to which they are converted.
type convertRequest struct {
	names    []string
	to       string
	name     string
	sameName bool
}

func (r convertRequest) validate() (status.Kind, error) {
	to, err := status.ParseKind(r.to)
	switch {
	case r.to == "":
		return "", exit.Usagef("specify the kind: --to clustercatalog or --to catalogsource")
	case err != nil:
		return "", fmt.Errorf("--to: %w", err)
	case len(r.names) == 0:
		return "", exit.Usagef("specify the catalogs to convert; kubectl catalog list shows all catalogs")
	case r.name != "" && r.sameName:
		return "", exit.Usagef("specify --name or --same-name, not both")
	case r.name != "" && len(r.names) > 1:
		return "", exit.Usagef("--name is for one catalog, not for %d", len(r.names))
	}
	return to, nil
}

// convertCatalogs prints catalogs as objects of the other kind, and what became of their fields.
func convertCatalogs(ctx context.Context, s *session.Session, req convertRequest) error {
	to, err := req.validate()
	if err != nil {
		return err
	}
	found, err := lookup.Catalogs(ctx, s, req.names)
	if err != nil {
		return err
	}
	conversions := make([]*migrate.Conversion, len(found)) // all or none
	for i := range found {
		if conversions[i], err = req.convert(&found[i], to); err != nil {
			return fmt.Errorf("catalog %q: %w", found[i].Arg(), err)
		}
	}
	for i, converted := range conversions {
		if err := printConversion(s, &found[i], converted); err != nil {
			return err
		}
	}
	return nil
}

func (r convertRequest) convert(c *status.Catalog, to status.Kind) (*migrate.Conversion, error) {
	as := cmp.Or(r.name, c.Name)
	switch {
	case c.Kind == to:
		return nil, exit.Usagef("it is a %s already", to)
	case r.sameName && c.Spec.OLMv1:
		return nil, exit.Usagef("there is a ClusterCatalog of its name already, which catalogd maintains (spec.olmv1): specify --name NEW")
	case as == c.Name && !r.sameName:
		return nil, exit.Usagef("both kinds share one name space: specify --name NEW, and catalogd serves both until you remove this one; "+
			"or specify --same-name, and the %s keeps the name until you remove it", c.Kind)
	}
	if object, ok := c.Object.(*olmv1.ClusterCatalog); ok {
		return migrate.ToCatalogSource(object, as)
	}
	return migrate.ToClusterCatalog(c.Object.(*v1beta1.CatalogSource), as)
}

// printConversion prints the new object to standard output, and the fields and the next steps to standard error.
func printConversion(s *session.Session, from *status.Catalog, converted *migrate.Conversion) error {
	object, err := converted.Object()
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(s.Stdout, s.Stdout.Clean(false)("---\n"+string(text))); err != nil {
		return err
	}
	fmt.Fprintf(s.Stderr, "From %s %s:\n", from.Kind, from.Name)
	table := output.Table{Columns: []output.Column{{Name: "field"}, {Name: "becomes", Least: 20}, {Name: "note", Least: 20}}}
	for _, f := range converted.Fields {
		table.Rows = append(table.Rows, []string{f.Name, cmp.Or(f.To, "lost"), f.Note})
	}
	if err := s.Stderr.Print(table, output.Options{}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Stderr, "\n%s\n", nextSteps(from, status.Of(converted.To)))
	return err
}

// nextSteps returns how to switch from one object to the other.
func nextSteps(from, to *status.Catalog) string {
	remove := fmt.Sprintf("kubectl catalog remove %s/%s", from.Kind.Type(), from.Name)
	if from.Name == to.Name {
		return fmt.Sprintf("To switch: apply the output. The %s keeps the name and stays served until you run %s. Then catalogd "+
			"unpacks the image for the %s, and answers 503 until it is done. --name NEW avoids that.", from.Kind, remove, to.Kind)
	}
	return fmt.Sprintf("To switch without a gap: apply the output, wait until kubectl catalog list shows %s as ready, "+
		"direct clients from /catalogs/%s to /catalogs/%s, then run %s.", to.Name, from.Name, to.Name, remove)
}
