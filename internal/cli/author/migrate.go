package author

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/migrate"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// A migrateRequest selects CatalogSources of OLM v0.
type migrateRequest struct {
	files         []string
	fromCluster   bool
	allNamespaces bool
}

// NewMigrateCommand returns the command migrate.
func NewMigrateCommand(s *session.Session) *cobra.Command {
	var req migrateRequest
	cmd := &cobra.Command{
		Use:   "migrate -f FILE|--from-cluster|NAME... --to KIND|NAME... --keep-olm",
		Short: "Convert catalogs to another kind",
		Long: `Convert catalogs to another kind, and print them as YAML. Without --keep-olm, the cluster is not
changed.

With --filename or --from-cluster, the command converts OLM v0 CatalogSources
(operators.coreos.com/v1alpha1) to CatalogSources of catalogd. Comments explain what became of each
field without a counterpart, and how to copy pull secrets. CatalogSources that cannot be converted
are listed after all others, with exit code 1.

With --to, the command converts CatalogSources of catalogd to ClusterCatalogs of OLM v1, or the
reverse. A table on standard error has what became of each field, and how to switch. To offer a
CatalogSource to OLM v1 without losing a field, set its spec.olmv1 instead.

With --keep-olm, catalogd serves CatalogSources of OLM v0 in place of their pods. They keep their
names, so that Subscriptions stay as they are. The command creates CatalogSources of catalogd with
spec.olmv0, waits until they are served, and then redirects those of OLM v0, which therefore serve
without a gap. It can be repeated after an interruption. --undo restores what OLM v0 had.`,
		Example: `  kubectl catalog migrate -f config/samples/olm-v0/catalogsource.yaml
  kubectl catalog migrate --from-cluster --all-namespaces
  kubectl catalog migrate --from-cluster -n olm | kubectl apply -f -
  kubectl catalog migrate operatorhubio -n olm --keep-olm
  kubectl catalog migrate sample --to clustercatalog --name sample-v1
  kubectl catalog migrate clustercatalog/operatorhubio --to catalogsource --same-name | kubectl apply -f -`,
		ValidArgsFunction: lookup.CompleteCatalogs(s),
	}
	var convert convertRequest
	var keep keepRequest
	flags := cmd.Flags()
	flags.StringSliceVarP(&req.files, "filename", "f", nil, "`file` with CatalogSources, as YAML or JSON; -: standard input; can be repeated")
	flags.BoolVar(&req.fromCluster, "from-cluster", false, "read the CatalogSources of the cluster, in the namespace of --namespace")
	flags.BoolVarP(&req.allNamespaces, "all-namespaces", "A", false, "with --from-cluster: in all namespaces")
	flags.StringVar(&convert.to, "to", "", "`kind` to convert to: clustercatalog or catalogsource")
	flags.StringVar(&convert.name, "name", "", "`name` of the new object")
	flags.BoolVar(&convert.sameName, "same-name", false,
		"give the new object the name of the old one, which keeps the name until it is removed")
	keep.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if keep.names = names; keep.keep || keep.undo {
			return keep.run(cmd, s)
		}
		if convert.names = names; len(names) > 0 || cmd.Flags().Changed("to") {
			if req.fromCluster || len(req.files) > 0 {
				return exit.Usagef("specify catalogs and --to, or --filename or --from-cluster, not both")
			}
			return convertCatalogs(cmd.Context(), s, convert)
		}
		found, err := req.read(cmd.Context(), s)
		if err != nil {
			return err
		}
		return printMigrations(s, migrate.Migrate(found))
	}
	return cmd
}

func (r migrateRequest) read(ctx context.Context, s *session.Session) ([]unstructured.Unstructured, error) {
	switch {
	case r.fromCluster == (len(r.files) > 0):
		return nil, exit.Usagef("specify --filename FILE or --from-cluster, or catalogs and --to KIND")
	case r.fromCluster:
		return readCluster(ctx, s, r.allNamespaces)
	case r.allNamespaces:
		return nil, exit.Usagef("--all-namespaces requires --from-cluster")
	}
	return readFiles(s, r.files)
}

func printMigrations(s *session.Session, migrations []*migrate.Migration) error {
	var failed []string
	clean := s.Stdout.Clean(false)
	for _, m := range migrations {
		if m.Failed != "" {
			failed = append(failed, fmt.Sprintf("%s cannot be converted: %s", output.Line(m.Title()), output.Line(m.Failed)))
			continue
		}
		text, err := migrationText(m, s.DefaultDaemonNamespace())
		if err != nil {
			return err
		}
		if _, err := io.WriteString(s.Stdout, clean(text)); err != nil {
			return err
		}
	}
	if failed != nil {
		return errors.New(strings.Join(failed, "\n"))
	}
	return nil
}

// migrationText returns a YAML document with notes as comments. namespace is catalogd's.
func migrationText(m *migrate.Migration, namespace string) (string, error) {
	object, err := m.Object()
	if err != nil {
		return "", err
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	comment := func(format string, args ...any) { fmt.Fprintf(&b, "# %s\n", output.Line(fmt.Sprintf(format, args...))) }
	b.WriteString("---\n")
	comment("From CatalogSource %s of OLM v0:", m.Title())
	for _, note := range m.Notes {
		comment("- %s", note)
	}
	for _, as := range slices.Sorted(maps.Keys(m.Secrets)) {
		comment("- spec.secrets: catalogd reads Secrets in its own namespace; to copy this one:")
		from := ""
		if namespace := m.From.GetNamespace(); namespace != "" {
			from = " -n " + quoted(namespace)
		}
		comment(`  kubectl get secret%s %s -o 'jsonpath={.data.\.dockerconfigjson}' | base64 -d | `+
			`kubectl create secret generic -n %s %s --type=kubernetes.io/dockerconfigjson --from-file=.dockerconfigjson=/dev/stdin`,
			from, m.Secrets[as], namespace, as)
	}
	b.Write(text)
	return b.String(), nil
}

// quoted returns a word for a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// readCluster reads the CatalogSources of OLM v0 in a cluster.
func readCluster(ctx context.Context, s *session.Session, allNamespaces bool) ([]unstructured.Unstructured, error) {
	var err error
	namespace := ""
	if !allNamespaces {
		if namespace, err = s.Namespace(); err != nil {
			return nil, err
		}
	}
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(migrate.CatalogSource.GroupVersion().WithKind("CatalogSourceList"))
	err = s.List(ctx, namespace, &list, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, exit.NotFoundf("the cluster does not have the CatalogSources of OLM v0 (operators.coreos.com)")
	case err != nil:
		return nil, err
	case len(list.Items) == 0 && allNamespaces:
		return nil, exit.NotFoundf("no CatalogSource of OLM v0 found in the cluster")
	case len(list.Items) == 0:
		return nil, exit.NotFoundf("no CatalogSource of OLM v0 found in namespace %q: specify another with -n, or --all-namespaces", namespace)
	}
	return list.Items, nil
}

// readFiles reads the CatalogSources of OLM v0 in files of YAML or JSON. It warns of other objects.
func readFiles(s *session.Session, files []string) ([]unstructured.Unstructured, error) {
	var found []unstructured.Unstructured
	for _, file := range files {
		text, err := s.ReadFile(file)
		if err != nil {
			return nil, err
		}
		objects, err := objectsOf(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, object := range objects {
			if kind := object.GroupVersionKind().GroupKind(); kind != migrate.CatalogSource.GroupKind() {
				s.Stderr.Warnf("%s: skipping %s %s: not a CatalogSource of OLM v0", file, kind, object.GetName())
				continue
			}
			found = append(found, object)
		}
	}
	if len(found) == 0 {
		return nil, exit.NotFoundf("no CatalogSource of OLM v0 (operators.coreos.com) found in %s", strings.Join(files, ", "))
	}
	return found, nil
}

// objectsOf returns the objects in documents of YAML or JSON, and those of lists in them.
func objectsOf(text []byte) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	for documents := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text)); ; {
		var document runtime.RawExtension
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if document.Raw = bytes.TrimSpace(document.Raw); len(document.Raw) == 0 || bytes.Equal(document.Raw, []byte("null")) {
			continue
		}
		decoded, err := runtime.Decode(unstructured.UnstructuredJSONScheme, document.Raw)
		if err != nil {
			return nil, err
		}
		switch object := decoded.(type) {
		case *unstructured.UnstructuredList:
			all = append(all, object.Items...)
		case *unstructured.Unstructured:
			all = append(all, *object)
		}
	}
}
