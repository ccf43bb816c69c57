package manifests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

var root = filepath.Join("..", "..")

// shared is the control plane of all tests.
var shared *system.ControlPlane

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	if os.Getenv("CATALOGD_BIN") == "" || os.Getenv("KUBEBUILDER_ASSETS") == "" || os.Getenv("HELM") == "" {
		return 1, errors.New("CATALOGD_BIN (the built catalogd), KUBEBUILDER_ASSETS (a directory with etcd, kube-apiserver, kubectl) " +
			"and HELM must be set: run `make e2e`")
	}
	log.SetLogger(logr.Discard())
	shared, err = system.StartControlPlane(root)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, shared.Stop()) }()
	if _, err := shared.Kubectl(context.Background(), "create", "namespace", "olm"); err != nil { // the component olm-v0 needs it
		return 1, err
	}
	return m.Run(), nil
}

// kustomizations are the folders of config that are applied as they stand, and one that puts components together.
func kustomizations(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "config", "overlays", "*"))
	must.Succeed(t, err)
	if len(found) == 0 {
		t.Fatal("there are no overlays")
	}
	return append(found, filepath.Join(root, "config", "default"),
		together(t, "single-replica", "priority", "serving-certificate", "cluster-catalogs", "olm-v0", "bundle-content", "page"))
}

// together writes a kustomization of config/default with components.
func together(t *testing.T, components ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "together")
	must.Succeed(t, os.Mkdir(dir, 0o755))
	config, err := filepath.Abs(filepath.Join(root, "config"))
	must.Succeed(t, err)
	config, err = filepath.Rel(dir, config)
	must.Succeed(t, err)
	text := fmt.Sprintf("resources: [%s/default]\ncomponents:\n", config)
	for _, component := range components {
		text += fmt.Sprintf("- %s/components/%s\n", config, component)
	}
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o644))
	return dir
}

// render returns the objects of a kustomization.
func render(t *testing.T, kustomization string) []*unstructured.Unstructured {
	t.Helper()
	out, err := shared.Kubectl(t.Context(), "kustomize", kustomization)
	must.Succeed(t, err)
	return parse(t, out)
}

// parse reads objects in YAML.
func parse(t *testing.T, text string) (objects []*unstructured.Unstructured) {
	t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		must.Succeed(t, err)
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// file writes objects to a file that kubectl can read, and returns its path.
func file(t *testing.T, objects ...*unstructured.Unstructured) string {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("v1")
	list.SetKind("List")
	for _, object := range objects {
		list.Items = append(list.Items, *object)
	}
	data, err := runtime.Encode(unstructured.UnstructuredJSONScheme, list)
	must.Succeed(t, err)
	path := filepath.Join(t.TempDir(), "objects.json")
	must.Succeed(t, os.WriteFile(path, data, 0o600))
	return path
}

// helm runs helm, in a home of its own, and returns its standard output.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Getenv("HELM"), args...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("helm %q: %w: %s", args, err, stderr.String())
	}
	return stdout.String(), nil
}
