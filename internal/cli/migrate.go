package cli

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
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	olmv0 "github.com/operator-catalogs/catalogd/internal/cli/migrate"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

func newMigrateCmd(e *env) *cobra.Command {
	var files []string
	var cluster, everywhere bool
	cmd := &cobra.Command{
		Use:   "migrate -f FILE|--from-cluster",
		Short: "Make CatalogSources of catalogd from those of OLM v0",
		Long: `Make CatalogSources of catalogd from those of OLM v0 (operators.coreos.com/v1alpha1), and print them as YAML. Nothing on the cluster is changed.

Comments say what became of each field that has no counterpart, and which pull secrets to copy, and how. What cannot be migrated is named, and
the exit code is then 1, after all others were.`,
		Example: `  kubectl catalog migrate -f config/samples/olm-v0/catalogsource.yaml
  kubectl catalog migrate --from-cluster --all-namespaces
  kubectl catalog migrate --from-cluster -n olm | kubectl apply -f -`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&files, "filename", "f", nil, "`file` with CatalogSources, as YAML or JSON; -: standard input; may be repeated")
	flags.BoolVar(&cluster, "from-cluster", false, "read those of the cluster, in the namespace of --namespace")
	flags.BoolVarP(&everywhere, "all-namespaces", "A", false, "with --from-cluster: those of all namespaces")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cluster == (len(files) > 0) {
			return usagef("say what to migrate: --filename FILE, or --from-cluster")
		}
		if everywhere && !cluster {
			return usagef("--all-namespaces goes with --from-cluster")
		}
		var found []*unstructured.Unstructured
		var err error
		if cluster {
			found, err = e.legacyOfCluster(cmd.Context(), everywhere)
		} else {
			found, err = e.legacyOfFiles(files)
		}
		if err != nil {
			return err
		}
		return e.migrate(found)
	}
	return cmd
}

func (e *env) migrate(found []*unstructured.Unstructured) error {
	var failed []string
	for _, m := range olmv0.Migrate(found) {
		if m.Failed != "" {
			failed = append(failed, fmt.Sprintf("%s cannot be migrated: %s", term.Line(m.Title()), term.Line(m.Failed)))
			continue
		}
		text, err := e.migrated(m)
		if err != nil {
			return err
		}
		if e.stdout.Live {
			text = term.Text(text)
		}
		if _, err := io.WriteString(e.stdout, text); err != nil {
			return err
		}
	}
	if failed != nil {
		return errors.New(strings.Join(failed, "\n"))
	}
	return nil
}

// migrated is a document of YAML, with what there is to say of it as comments.
func (e *env) migrated(m *olmv0.Migration) (string, error) {
	object, err := m.Object()
	if err != nil {
		return "", err
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	comment := func(format string, args ...any) { fmt.Fprintf(&b, "# %s\n", term.Line(fmt.Sprintf(format, args...))) }
	b.WriteString("---\n")
	comment("From CatalogSource %s of OLM v0:", m.Title())
	for _, note := range m.Notes {
		comment("- %s", note)
	}
	for _, as := range slices.Sorted(maps.Keys(m.Secrets)) {
		comment("- spec.secrets: catalogd reads Secrets of its own namespace; copy this one there:")
		from := ""
		if namespace := m.From.GetNamespace(); len(namespace) > 0 {
			from = " -n " + quoted(namespace)
		}
		comment(`  kubectl get secret%s %s -o 'jsonpath={.data.\.dockerconfigjson}' | base64 -d | kubectl create secret generic -n %s %s --type=kubernetes.io/dockerconfigjson --from-file=.dockerconfigjson=/dev/stdin`,
			from, m.Secrets[as], e.namespace, as)
	}
	b.Write(text)
	return b.String(), nil
}

// quoted is a word of a shell, whatever it is made of.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// legacyOfCluster reads the CatalogSources of OLM v0.
func (e *env) legacyOfCluster(ctx context.Context, everywhere bool) ([]*unstructured.Unstructured, error) {
	api, err := e.client()
	if err != nil {
		return nil, err
	}
	namespace := ""
	if !everywhere {
		if namespace, _, err = e.kube.ToRawKubeConfigLoader().Namespace(); err != nil {
			return nil, err
		}
	}
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(olmv0.CatalogSource.GroupVersion().WithKind("CatalogSourceList"))
	err = api.List(ctx, &list, client.InNamespace(namespace))
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, notFoundf("this cluster has no CatalogSources of OLM v0 (operators.coreos.com)")
	case err != nil:
		return nil, err
	case len(list.Items) == 0 && everywhere:
		return nil, notFoundf("there is no CatalogSource of OLM v0 on this cluster")
	case len(list.Items) == 0:
		return nil, notFoundf("there is no CatalogSource of OLM v0 in namespace %q: name another by -n, or --all-namespaces", namespace)
	}
	found := make([]*unstructured.Unstructured, len(list.Items))
	for i := range list.Items {
		found[i] = &list.Items[i]
	}
	return found, nil
}

// legacyOfFiles reads the CatalogSources of OLM v0 in files; of other objects it says that they are passed over.
func (e *env) legacyOfFiles(files []string) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	for _, file := range files {
		text, err := e.readFile(file)
		if err != nil {
			return nil, err
		}
		decoder := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			var object map[string]any
			err := decoder.Decode(&object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", file, err)
			}
			found = append(found, e.legacyIn(file, object)...)
		}
	}
	if len(found) == 0 {
		return nil, notFoundf("there is no CatalogSource of OLM v0 (operators.coreos.com) in %s", strings.Join(files, ", "))
	}
	return found, nil
}

// legacyIn returns the CatalogSources of OLM v0 that an object is, or as a list has.
func (e *env) legacyIn(file string, object map[string]any) []*unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: object}
	items, isList := object["items"].([]any)
	switch kind := u.GroupVersionKind(); {
	case len(object) == 0:
		return nil
	case isList && strings.HasSuffix(kind.Kind, "List"):
		var found []*unstructured.Unstructured
		for _, item := range items {
			if object, ok := item.(map[string]any); ok {
				found = append(found, e.legacyIn(file, object)...)
			}
		}
		return found
	case kind.GroupKind() != olmv0.CatalogSource.GroupKind():
		e.warn("%s: %s %s is no CatalogSource of OLM v0, and is passed over", file, kind.GroupKind(), u.GetName())
		return nil
	}
	return []*unstructured.Unstructured{u}
}
