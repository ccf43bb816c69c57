package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// operatorController is the catalog client, the cache and the resolver of operator-controller: hack/operatorcontroller.
type operatorController struct {
	questions io.Writer
	answers   *bufio.Scanner
	cache     string // a directory
}

// startOperatorController starts one that trusts the CAs in a directory. reference, if any, is the directory of a catalog.
func (w *world) startOperatorController(t *testing.T, cas, reference string) *operatorController {
	t.Helper()
	cache := t.TempDir()
	cmd := exec.CommandContext(t.Context(), needed(t, "OPERATOR_CONTROLLER", "hack/operatorcontroller/build.sh"),
		"--kubeconfig", w.Kubeconfig, "--catalogd-cas-dir", cas, "--cache", cache, "--reference", reference)
	cmd.Stderr = os.Stderr
	questions, err := cmd.StdinPipe()
	must.Succeed(t, err)
	answers, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		questions.Close()
		_ = cmd.Wait() // killed when the test has ended
	})
	return &operatorController{questions: questions, answers: bufio.NewScanner(answers), cache: cache}
}

// found is an answer of hack/operatorcontroller.
type found struct {
	Done                   bool
	Fetches                int
	Packages, Channels     int
	Bundle, Version, Image string
	Error                  string
}

func (o *operatorController) ask(t *testing.T, question ...string) (a found) {
	t.Helper()
	_, err := fmt.Fprintln(o.questions, strings.Join(question, " "))
	must.Succeed(t, err)
	if !o.answers.Scan() {
		t.Fatalf("%s: no answer: %v", question, o.answers.Err())
	}
	must.Succeed(t, json.Unmarshal(o.answers.Bytes(), &a))
	return a
}

// TestOperatorController has operator-controller's own client find each package and channel, and its resolver choose the
// same bundles as from the source of the catalog.
func TestOperatorController(t *testing.T) {
	dirs := map[string]string{"sample.v1": sampleCatalog}
	if dir := os.Getenv("COMMUNITY_CATALOG"); dir != "" {
		dirs["community.v1"] = dir
	}
	w := newOLMWorld(t)
	for name, dir := range dirs {
		ref, digest := w.registry.push(t, name, catalogImage(t, dir))
		w.createClusterCatalog(t, name, ref)
		w.waitServing(t, name, digest)
		o := w.startOperatorController(t, w.casDir(t), dir)
		first, again := o.ask(t, "reconcile", name), o.ask(t, "reconcile", name)
		if want := (found{Done: true, Fetches: 1}); first != want || again != want {
			t.Fatalf("%s: reconciled to %v, then %v, want %v", name, first, again, want)
		}
		catalog := readConfig(t, dir)
		if diff := cmp.Diff(membersOf(catalog), membersOf(readConfig(t, o.cache+"/"+name))); diff != "" {
			t.Errorf("%s (-source +operator-controller):\n%s", name, diff)
		}
		bundles := 0
		for _, p := range catalog.Packages {
			for _, versions := range []string{"", ">=1.0.0", "<1.0.0"} {
				got, want := o.ask(t, "resolve", p.Name, versions), o.ask(t, "reference", p.Name, versions)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s %s (-source +catalogd):\n%s", p.Name, versions, diff)
				}
				if want.Bundle != "" {
					bundles++
				}
			}
		}
		if bundles < len(catalog.Packages)/2 {
			t.Errorf("%s: %d bundles resolved for %d packages", name, bundles, len(catalog.Packages))
		}
		must.Succeed(t, w.Delete(t.Context(), w.clusterCatalog(t, name)))
	}
}

// TestInstall has operator-controller's resolver, image puller and Helm applier install a bundle of a ClusterCatalog.
func TestInstall(t *testing.T) {
	w := newOLMWorld(t)
	files := map[string][]byte{}
	for _, name := range []string{"manifests/csv.yaml", "manifests/crd.yaml", "metadata/annotations.yaml"} {
		files[name] = []byte(readText(t, "testdata/install/bundle/"+name))
	}
	layer, err := crane.Layer(files)
	must.Succeed(t, err)
	_, bundle := w.registry.push(t, "bundles/demo", labelled(t, map[string]string{
		"operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
		"operators.operatorframework.io.bundle.manifests.v1": "manifests/",
		"operators.operatorframework.io.bundle.metadata.v1":  "metadata/",
	}, layer))
	image := w.registry.address + "/bundles/demo@" + bundle
	ref, digest := w.registry.push(t, "demo", filesImage(t, map[string][]byte{"demo.json": fmt.Appendf(nil, `
		{"schema":"olm.package","name":"demo","defaultChannel":"stable"}
		{"schema":"olm.channel","package":"demo","name":"stable","entries":[{"name":"demo.v1.2.3"}]}
		{"schema":"olm.bundle","package":"demo","name":"demo.v1.2.3","image":%q,
			"properties":[{"type":"olm.package","value":{"packageName":"demo","version":"1.2.3"}}]}`, image)}))
	w.createClusterCatalog(t, "demo", ref)
	w.waitServing(t, "demo", digest)
	for _, args := range [][]string{
		{"create", "-f", "testdata/install/crd.yaml"},
		{"wait", "--for=condition=Established", "crd/clusterextensions.olm.operatorframework.io"},
		{"create", "namespace", "demo"},
	} {
		_, err := w.Kubectl(t.Context(), args...)
		must.Succeed(t, err)
	}
	extension := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": map[string]any{"name": "demo"},
		"spec": map[string]any{"namespace": "demo", "source": map[string]any{
			"sourceType": "Catalog", "catalog": map[string]any{"packageName": "demo"},
		}},
	}}
	must.Succeed(t, w.Create(t.Context(), extension))

	o := w.startOperatorController(t, w.casDir(t), "")
	if got := o.ask(t, "reconcile", "demo"); !got.Done {
		t.Fatalf("the catalog is not cached: %v", got)
	}
	want := found{Done: true, Bundle: "demo.v1.2.3", Version: "1.2.3", Image: image}
	if diff := cmp.Diff(want, o.ask(t, "install", "demo")); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	installed, err := w.Kubectl(t.Context(), "-n", "demo", "get", "crd/demos.example.com", "serviceaccount/demo", "deployment/demo",
		"-o", `go-template={{range .items}}{{.kind}} {{.metadata.name}}, of {{(index .metadata.ownerReferences 0).name}}{{"\n"}}{{end}}`)
	must.Succeed(t, err)
	wantInstalled := "CustomResourceDefinition demos.example.com, of demo\nServiceAccount demo, of demo\nDeployment demo, of demo\n"
	if diff := cmp.Diff(wantInstalled, installed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func readConfig(t *testing.T, dir string) *declcfg.DeclarativeConfig {
	t.Helper()
	cfg, err := declcfg.LoadFS(t.Context(), os.DirFS(dir))
	must.Succeed(t, err)
	return cfg
}

// TestOperatorControllerCases has the cases of operator-controller's client_test.go that depend on the server. Those about
// its own cache and HTTP client (errors of both, and an invalid package in the cache) have no counterpart here.
func TestOperatorControllerCases(t *testing.T) {
	w := newOLMWorld(t)
	ref, digest := w.registry.push(t, "cases", catalogImage(t, sampleCatalog))
	w.createClusterCatalog(t, "cases", w.registry.address+"/missing:latest")
	o := w.startOperatorController(t, w.casDir(t), "")
	check := func(name, want string, question ...string) {
		t.Helper()
		if got := o.ask(t, question...); want == "" && got.Error != "" || !strings.Contains(got.Error, want) {
			t.Errorf("%s: got %v, want error %q", name, got, want)
		}
	}
	eventually.Succeeds(t, "it is not found", func() error {
		return wantCondition(w.clusterCatalog(t, "cases"), "Progressing", "True")
	})
	check("not served", `catalog "cases" is not being served`, "package", "cases", "skupper-operator")
	if got := o.ask(t, "reconcile", "cases"); got != (found{}) {
		t.Errorf("a catalog without content is fetched: %v", got)
	}
	patch := fmt.Sprintf(`{"spec":{"source":{"image":{"ref":%q}}}}`, ref)
	must.Succeed(t, w.Patch(t.Context(), w.clusterCatalog(t, "cases"), client.RawPatch("application/merge-patch+json", []byte(patch))))
	w.waitServing(t, "cases", digest)
	other := t.TempDir()
	writeFile(t, other, "ca.crt", newAuthority(t, "other").pem)
	if got := w.startOperatorController(t, other, "").ask(t, "reconcile", "cases"); !strings.Contains(got.Error, "certificate") {
		t.Errorf("a client without catalogd's CA got %v", got)
	}
	check("cache unpopulated", `cache for catalog "cases" not found`, "package", "cases", "skupper-operator")
	check("fetched", "", "reconcile", "cases")
	check("invalid package path", `error getting package "/"`, "package", "cases", "/")
	for pkg, want := range map[string]int{"skupper-operator": 1, "pkg-missing": 0} {
		if got := o.ask(t, "package", "cases", pkg); got.Packages != want || got.Error != "" {
			t.Errorf("%s: got %v, want %d packages", pkg, got, want)
		}
	}
	unavailable := `{"spec":{"availabilityMode":"Unavailable"}}`
	must.Succeed(t, w.Patch(t.Context(), w.clusterCatalog(t, "cases"), client.RawPatch("application/merge-patch+json", []byte(unavailable))))
	eventually.Succeeds(t, "the catalog is withdrawn", func() error {
		return wantCondition(w.clusterCatalog(t, "cases"), "Serving", "False")
	})
	check("withdrawn", "is not being served", "package", "cases", "skupper-operator")
	check("excluded from resolution", "no bundles found", "resolve", "skupper-operator")
	if got := o.ask(t, "reconcile", "cases"); got.Done {
		t.Errorf("a withdrawn catalog is fetched: %v", got)
	}
}
