package e2e

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/operator-framework/api/crds"
	"github.com/operator-framework/operator-registry/pkg/api"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// olmV0 has OLM v0's own programs beside a catalogd.
type olmV0 struct {
	*world
	address string // of catalogd's gRPC
	dns     string // of a SOCKS proxy that knows the names of Services
}

const olmNamespace = "olm"

// newOLMv0 installs OLM v0's CRDs for the time of the test, and starts a catalogd. elsewhere has the addresses of hosts that
// are not catalogd's.
func newOLMv0(t *testing.T, elsewhere map[string]string, args ...string) *olmV0 {
	t.Helper()
	installOLMv0(t)
	o := &olmV0{address: system.FreeAddress(t)}
	o.world = newWorld(t, shared, append(args, "--grpc-bind-address", o.address, "--olm-v0")...)
	o.dns = newServiceProxy(t, func(host string) string {
		if address, ok := elsewhere[host]; ok {
			return address
		}
		return o.address
	})
	return o
}

func installOLMv0(t *testing.T) {
	t.Helper()
	for _, name := range crds.AssetNames() {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		crd := &unstructured.Unstructured{}
		must.Succeed(t, yaml.Unmarshal(crds.MustAsset(name), &crd.Object))
		must.Succeed(t, shared.Create(t.Context(), crd))
		t.Cleanup(func() {
			must.Succeed(t, shared.Delete(context.Background(), crd)) // and its objects
			eventually.Succeeds(t, "the CRD is gone", func() error {
				if err := shared.Get(context.Background(), client.ObjectKeyFromObject(crd), crd); !apierrors.IsNotFound(err) {
					return errors.Join(errors.New("it is not"), err)
				}
				return nil
			})
		})
	}
	must.Succeed(t, shared.EstablishCRDs(t.Context()))
}

// newServiceProxy starts a SOCKS proxy (RFC 1928), in place of the cluster's DNS and Services: resolve returns the address for a
// host. It returns its own address.
func newServiceProxy(t *testing.T, resolve func(host string) string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = proxySOCKS(conn, resolve)
			}()
		}
	}()
	return listener.Addr().String()
}

func proxySOCKS(conn net.Conn, resolve func(host string) string) error {
	greeting := make([]byte, 3) // version, one method, no authentication
	if _, err := io.ReadFull(conn, greeting); err != nil {
		return err
	}
	if _, err := conn.Write([]byte{5, 0}); err != nil {
		return err
	}
	request := make([]byte, 5) // version, connect, reserved, type of the address (name), its length
	if _, err := io.ReadFull(conn, request); err != nil || request[3] != 3 {
		return errors.Join(err, errors.New("the client does not name a host"))
	}
	host := make([]byte, int(request[4])+2)
	if _, err := io.ReadFull(conn, host); err != nil {
		return err
	}
	name, port := string(host[:request[4]]), binary.BigEndian.Uint16(host[request[4]:])
	if port != 50051 {
		return fmt.Errorf("port %d", port)
	}
	to, err := net.Dial("tcp", resolve(name))
	if err != nil {
		return err
	}
	defer to.Close()
	if _, err := conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0}); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(to, conn)
		to.Close()
	}()
	_, err = io.Copy(conn, to)
	return err
}

// start starts a program of hack/olmv0.
func (o *olmV0) startProgram(t *testing.T, variable, program string, args ...string) (questions io.Writer, answers *bufio.Reader) {
	t.Helper()
	var log logBuffer
	cmd := exec.CommandContext(t.Context(), needed(t, variable, "hack/olmv0/build.sh "+program), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+o.Kubeconfig, "GRPC_PROXY=socks5://"+o.dns)
	cmd.Stderr = &log
	in, err := cmd.StdinPipe()
	must.Succeed(t, err)
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // killed when the test has ended
		if t.Failed() {
			t.Logf("the last log lines of %s:\n%s", program, log.tail(40))
		}
	})
	return in, bufio.NewReader(out)
}

// startCatalogOperator starts OLM v0's catalog-operator. The CRD that it installs is deleted with the test.
func (o *olmV0) startCatalogOperator(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		_, err := o.Kubectl(context.Background(), "delete", "crd", "demos.example.com", "--ignore-not-found")
		must.Succeed(t, err)
	})
	o.startProgram(t, "OLM_V0_CATALOG_OPERATOR", "catalog-operator", "--namespace", olmNamespace, "--writeStatusName", "")
}

var v0CatalogKind = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "CatalogSource"}

// v0Catalog returns the CatalogSource of OLM v0, nil if there is none.
func (o *olmV0) v0Catalog(t *testing.T, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	object := system.NewObject(v0CatalogKind, name)
	err := o.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must.Succeed(t, err)
	return object
}

// service returns a Service, nil if there is none.
func (o *olmV0) service(t *testing.T, namespace, name string) *corev1.Service {
	t.Helper()
	s := &corev1.Service{}
	err := o.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must.Succeed(t, err)
	return s
}

// offer pushes an image as the catalog of a name, and offers it to OLM v0 in namespaces.
func (o *olmV0) offer(t *testing.T, name string, files map[string][]byte, namespaces ...any) {
	t.Helper()
	ref, digest := o.registry.push(t, name, filesImage(t, files))
	o.createCatalog(t, name, ref, func(c *unstructured.Unstructured) {
		c.Object["spec"].(map[string]any)["olmv0"] = map[string]any{"namespaces": namespaces}
	})
	o.waitReady(t, name, digest)
}

func (o *olmV0) waitOffered(t *testing.T, name, status, reason string) (message string) {
	t.Helper()
	o.eventuallyCatalog(t, name, "OLMv0Synced "+status, func(c *unstructured.Unstructured) error {
		got, _ := conditionOf(c, "OLMv0Synced")
		message = got.message
		if got.status != status || got.reason != reason {
			return fmt.Errorf("it is %v", got)
		}
		return nil
	})
	return message
}

// waitConnected waits until catalog-operator is connected to a catalog.
func (o *olmV0) waitConnected(t *testing.T, name string) {
	t.Helper()
	eventually.Succeeds(t, "catalog-operator is connected to "+name, func() error {
		state, _, _ := unstructured.NestedString(o.v0Catalog(t, olmNamespace, name).Object, "status", "connectionState", "lastObservedState")
		if state != "READY" {
			return fmt.Errorf("its state is %q", state)
		}
		return nil
	})
}

// demo returns a catalog whose package demo has one bundle, which carries its objects.
func demo(t *testing.T, version string) map[string][]byte {
	t.Helper()
	var properties []string
	for _, name := range []string{"csv.yaml", "crd.yaml"} {
		manifest := strings.ReplaceAll(readText(t, "testdata/install/bundle/manifests/"+name), "1.2.3", version)
		object, err := yaml.YAMLToJSON([]byte(manifest))
		must.Succeed(t, err)
		properties = append(properties, fmt.Sprintf(`{"type":"olm.bundle.object","value":{"data":%q}}`, base64.StdEncoding.EncodeToString(object)))
	}
	return map[string][]byte{"demo.json": fmt.Appendf(nil, `
		{"schema":"olm.package","name":"demo","defaultChannel":"stable"}
		{"schema":"olm.channel","package":"demo","name":"stable","entries":[{"name":"demo.v%s"}]}
		{"schema":"olm.bundle","package":"demo","name":"demo.v%[1]s","properties":[
			{"type":"olm.package","value":{"packageName":"demo","version":%[1]q}},
			{"type":"olm.gvk","value":{"group":"example.com","version":"v1","kind":"Demo"}},%[2]s]}`, version, strings.Join(properties, ","))}
}

// subscribe subscribes to package demo in a new namespace, and returns the ClusterServiceVersion that OLM v0 creates for it.
func (o *olmV0) subscribe(t *testing.T, namespace, catalog string) (csv string) {
	t.Helper()
	must.Succeed(t, o.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	create := func(kind, version string, spec map[string]any) *unstructured.Unstructured {
		object := system.NewObject(schema.GroupVersionKind{Group: "operators.coreos.com", Version: version, Kind: kind}, "demo")
		object.SetNamespace(namespace)
		object.Object["spec"] = spec
		must.Succeed(t, o.Create(t.Context(), object))
		return object
	}
	group := create("OperatorGroup", "v1", map[string]any{})
	group.Object["status"] = map[string]any{"lastUpdated": "2026-01-01T00:00:00Z", "namespaces": []any{""}} // as olm-operator does
	must.Succeed(t, o.Status().Update(t.Context(), group))
	create("Subscription", "v1alpha1", map[string]any{
		"name": "demo", "channel": "stable", "source": catalog, "sourceNamespace": olmNamespace,
	})
	began := time.Now()
	eventually.Succeeds(t, "OLM v0 creates a ClusterServiceVersion in "+namespace, func() error {
		list := system.NewList(schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "ClusterServiceVersion"})
		if err := o.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return errors.New("there is none")
		}
		csv = list.Items[0].GetName()
		return nil
	})
	t.Logf("%s: %s after %v", namespace, csv, time.Since(began).Round(100*time.Millisecond))
	return csv
}

// TestOLMv0 has OLM v0's own catalog-operator install operators from two catalogs, and resolve new content of one of them.
func TestOLMv0(t *testing.T) {
	o := newOLMv0(t, nil, "--leader-elect") // it asks for other replicas
	o.offer(t, "one", demo(t, "1.2.3"), olmNamespace)
	o.offer(t, "two", demo(t, "2.0.0"), olmNamespace)
	o.waitOffered(t, "one", "True", "Synced")
	o.waitOffered(t, "two", "True", "Synced")
	o.startCatalogOperator(t)
	o.waitConnected(t, "one")
	o.waitConnected(t, "two")
	for catalog, want := range map[string]string{"one": "demo.v1.2.3", "two": "demo.v2.0.0"} {
		if got := o.subscribe(t, "v0-"+catalog, catalog); got != want {
			t.Errorf("OLM v0 installs %s of catalog %s, want %s", got, catalog, want)
		}
	}
	_, digest := o.registry.push(t, "one", filesImage(t, demo(t, "1.3.0")))
	o.requestPoll(t, "one", "now")
	o.waitReady(t, "one", digest)
	served := time.Now()
	if got, want := o.subscribe(t, "v0-again", "one"), "demo.v1.3.0"; got != want {
		t.Errorf("OLM v0 installs %s %v after the new content was served, want %s", got, time.Since(served), want)
	}
}

// TestOffered checks the objects that offer a catalog to OLM v0, through all changes of spec.olmv0.
func TestOffered(t *testing.T) {
	o := newOLMv0(t, nil, "--grpc-service", "catalogd-grpc", "--cluster-domain", "example.internal")
	o.offer(t, "one", demo(t, "1.2.3"), olmNamespace)
	o.waitOffered(t, "one", "True", "Synced")
	o.patchCatalog(t, "one", `{"spec":{"displayName":"One","publisher":"Us","description":"The first","priority":7,
		"icon":{"base64data":"eA==","mediatype":"image/svg+xml"}}}`)
	eventually.Succeeds(t, "the CatalogSource of OLM v0 follows", func() error {
		catalog := o.v0Catalog(t, olmNamespace, "one")
		if catalog == nil {
			return errors.New("there is none")
		}
		want := map[string]any{
			"sourceType": "grpc", "address": "one.olm.svc:50051", "displayName": "One", "publisher": "Us", "description": "The first",
			"priority": int64(7), "icon": map[string]any{"base64data": "eA==", "mediatype": "image/svg+xml"},
		}
		if diff := cmp.Diff(want, catalog.Object["spec"]); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	service := o.service(t, olmNamespace, "one")
	if got := service.Spec.ExternalName; service.Spec.Type != corev1.ServiceTypeExternalName || got != "catalogd-grpc.catalogd-system.svc.example.internal" {
		t.Errorf("the Service leads to %s", got)
	}

	// What others set stays, and what they made is not touched.
	v0 := o.v0Catalog(t, olmNamespace, "one")
	must.Succeed(t, o.Patch(t.Context(), v0, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"secrets":["pull"],"address":"x"}}`))))
	must.Succeed(t, o.Patch(t.Context(), service, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"externalName":"x.example"}}`))))
	o.patchCatalog(t, "one", `{"spec":{"priority":8}}`)
	eventually.Succeeds(t, "the address is restored", func() error {
		if got := o.service(t, olmNamespace, "one").Spec.ExternalName; got == "x.example" {
			return fmt.Errorf("the Service leads to %s", got)
		}
		spec := o.v0Catalog(t, olmNamespace, "one").Object["spec"].(map[string]any)
		if spec["address"] != "one.olm.svc:50051" || fmt.Sprint(spec["secrets"]) != "[pull]" || spec["priority"] != int64(8) {
			return fmt.Errorf("it has %v", spec)
		}
		return nil
	})
	o.patchCatalog(t, "one", `{"spec":{"availability":"Unavailable"}}`)
	eventually.Holds(t, "a catalog that is not served is not offered", func() bool {
		return o.v0Catalog(t, olmNamespace, "one") == nil && o.service(t, olmNamespace, "one") == nil
	})
	foreign := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: olmNamespace},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "foreign.example"},
	}
	must.Succeed(t, o.Create(t.Context(), foreign))
	o.patchCatalog(t, "one", `{"spec":{"availability":"Available"}}`)
	message := o.waitOffered(t, "one", "False", "NameTaken")
	if want := "There is a Service one in namespace olm, which catalogd did not make: delete it"; !strings.HasPrefix(message, want) {
		t.Errorf("the condition says %s", message)
	}
	if o.v0Catalog(t, olmNamespace, "one") != nil {
		t.Error("the catalog is offered all the same")
	}
	must.Succeed(t, o.Delete(t.Context(), foreign))
	o.waitOffered(t, "one", "True", "Synced")
	must.Succeed(t, o.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unboundNamespace}}))
	o.patchCatalog(t, "one", `{"spec":{"olmv0":{"namespaces":["olm","unbound"]}}}`)
	message = o.waitOffered(t, "one", "False", "Forbidden")
	if want := "bind ClusterRole catalogd-olm-v0 to its ServiceAccount there"; !strings.Contains(message, want) {
		t.Errorf("the condition says %s", message)
	}
	if o.v0Catalog(t, olmNamespace, "one") == nil {
		t.Error("the catalog is no longer offered where it can be")
	}
	o.patchCatalog(t, "one", `{"spec":{"olmv0":null}}`)
	eventually.Holds(t, "the objects are removed", func() bool {
		return o.v0Catalog(t, olmNamespace, "one") == nil && o.service(t, olmNamespace, "one") == nil
	})
	o.patchCatalog(t, "one", `{"spec":{"olmv0":{"namespaces":["olm"]}}}`)
	o.waitOffered(t, "one", "True", "Synced")
	must.Succeed(t, o.Delete(t.Context(), system.NewObject(system.CatalogKind, "one")))
	eventually.Holds(t, "the objects go with the catalog", func() bool {
		return o.v0Catalog(t, olmNamespace, "one") == nil && o.service(t, olmNamespace, "one") == nil
	})
}

// TestPackageManifests compares the PackageManifests of OLM v0's packageserver library from catalogd and from `opm serve`.
func TestPackageManifests(t *testing.T) {
	dir := withoutSlashes(t, sampleCatalog)
	if community := os.Getenv("COMMUNITY_CATALOG"); community != "" {
		dir = community
	}
	opm := system.FreeAddress(t)
	serveByOPMAt(t, dir, opm)
	o := newOLMv0(t, map[string]string{"opm.olm.svc": opm})
	ref, digest := o.registry.push(t, "ours", catalogImage(t, dir))
	o.createCatalog(t, "ours", ref, func(c *unstructured.Unstructured) {
		c.Object["spec"].(map[string]any)["olmv0"] = map[string]any{"namespaces": []any{olmNamespace}}
	})
	o.waitReady(t, "ours", digest)
	o.waitOffered(t, "ours", "True", "Synced")
	theirs := system.NewObject(v0CatalogKind, "opm")
	theirs.SetNamespace(olmNamespace)
	theirs.Object["spec"] = map[string]any{"sourceType": "grpc", "address": "opm.olm.svc:50051"}
	must.Succeed(t, o.Create(t.Context(), theirs))
	o.startCatalogOperator(t)
	o.waitConnected(t, "ours")
	o.waitConnected(t, "opm")
	questions, answers := o.startProgram(t, "OLM_V0_PACKAGES", "packages")
	manifests := func(catalog string) (out []map[string]any) {
		_, err := fmt.Fprintln(questions, olmNamespace, catalog)
		must.Succeed(t, err)
		line, err := answers.ReadString('\n')
		must.Succeed(t, err)
		must.Succeed(t, json.Unmarshal([]byte(line), &out))
		for _, manifest := range out {
			delete(manifest, "creationTimestamp") // of the CatalogSource
			delete(manifest, "labels")            // with its name
			status := manifest["Status"].(map[string]any)
			delete(status, "CatalogSource")
			for _, channel := range status["Channels"].([]any) {
				images, _, _ := unstructured.NestedSlice(channel.(map[string]any), "CurrentCSVDesc", "relatedImages")
				slices.SortFunc(images, func(a, b any) int { return strings.Compare(a.(string), b.(string)) }) // packageserver: any order
				must.Succeed(t, unstructured.SetNestedSlice(channel.(map[string]any), images, "CurrentCSVDesc", "relatedImages"))
			}
		}
		return out
	}
	packages := len(packagesIn(t, dir))
	eventually.Succeeds(t, "packageserver has all packages", func() error {
		if ours, theirs := len(manifests("ours")), len(manifests("opm")); ours < packages || theirs < packages {
			return fmt.Errorf("it has %d of catalogd and %d of opm, want %d", ours, theirs, packages)
		}
		return nil
	})
	if diff := cmp.Diff(manifests("opm"), manifests("ours")); diff != "" {
		t.Errorf("PackageManifests (-opm +catalogd):\n%.10000s", diff)
	}
}

func packagesIn(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	for _, p := range readConfig(t, dir).Packages {
		names = append(names, p.Name)
	}
	return names
}

// TestPluginKeepsOLM has catalogd serve a CatalogSource of OLM v0 in place of its pod, which never runs here, and then gives it
// back. A Subscription stays as it is.
func TestPluginKeepsOLM(t *testing.T) {
	o := newOLMv0(t, nil)
	o.startCatalogOperator(t)
	ref, _ := o.registry.push(t, "kept", filesImage(t, demo(t, "1.2.3")))
	source := system.NewObject(v0CatalogKind, "kept")
	source.SetNamespace(olmNamespace)
	spec := map[string]any{
		"sourceType": "grpc", "image": ref, "displayName": "Kept", "priority": int64(3),
		"updateStrategy": map[string]any{"registryPoll": map[string]any{"interval": "24h0m0s"}},
	}
	source.Object["spec"] = spec
	must.Succeed(t, o.Create(t.Context(), source))
	isPods := func() bool {
		s := o.service(t, olmNamespace, "kept")
		return s != nil && s.Spec.Type != corev1.ServiceTypeExternalName
	}
	eventually.Holds(t, "OLM v0 makes a Service for its pod", isPods)
	o.plugin(t, "migrate", "--keep-olm", "--undo", "-n", olmNamespace, "kept").fails(t, 1, "it was not taken over with --keep-olm")
	o.plugin(t, "migrate", "--keep-olm", "-n", olmNamespace, "absent").fails(t, 3, "it does not exist")
	o.plugin(t, "migrate", "--keep-olm", "--to", "clustercatalog", "x").fails(t, 1, "keep-olm")

	out := o.plugin(t, "migrate", "--keep-olm", "-n", olmNamespace, "kept").must(t)
	if want := "catalogd serves CatalogSource kept of OLM v0 in namespace olm\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	if s := o.service(t, olmNamespace, "kept"); s == nil || s.Spec.Type != corev1.ServiceTypeExternalName {
		t.Errorf("the Service is %v", s)
	}
	pods := &corev1.PodList{}
	must.Succeed(t, o.List(t.Context(), pods, client.InNamespace(olmNamespace), client.MatchingLabels{"olm.catalogSource": "kept"}))
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			t.Errorf("pod %s is left", pod.Name)
		}
	}
	o.waitConnected(t, "kept")
	if got := o.subscribe(t, "v0-kept", "kept"); got != "demo.v1.2.3" {
		t.Errorf("OLM v0 installs %s", got)
	}
	described := o.plugin(t, "describe", "kept").must(t)
	if want := "namespace olm: offered; OLM v0's connection is READY"; !strings.Contains(described, want) {
		t.Errorf("describe lacks %q:\n%s", want, described)
	}
	o.plugin(t, "migrate", "--keep-olm", "-n", olmNamespace, "kept").must(t) // again

	o.plugin(t, "migrate", "--keep-olm", "--undo", "-n", olmNamespace, "kept").must(t)
	eventually.Holds(t, "OLM v0 makes its Service again", isPods)
	source = o.v0Catalog(t, olmNamespace, "kept")
	if diff := cmp.Diff(spec, source.Object["spec"]); diff != "" || len(source.GetOwnerReferences()) > 0 {
		t.Errorf("owners %v, spec (-before +after):\n%s", source.GetOwnerReferences(), diff)
	}
	must.Succeed(t, o.Delete(t.Context(), system.NewObject(system.CatalogKind, "kept")))
	eventually.Succeeds(t, "catalogd's catalog is gone", func() error { return o.deleted(t, "kept") })
	if o.v0Catalog(t, olmNamespace, "kept") == nil {
		t.Error("the CatalogSource of OLM v0 went with catalogd's")
	}
}

// TestPluginPushesForOLMv0 has OLM v0 make a pod of the CatalogSource that `push --olm-v0` prints, and runs what the pod would:
// opm, on the directory that its init container copies from the image.
func TestPluginPushesForOLMv0(t *testing.T) {
	o := newOLMv0(t, nil)
	o.startCatalogOperator(t)
	ref := o.registry.address + "/pushed:v1"
	printed := o.plugin(t, "push", withoutSlashes(t, sampleCatalog), ref, "--olm-v0").must(t)
	apply := o.kubectl(t, "apply", "-n", olmNamespace, "-f", "-")
	apply.Stdin = strings.NewReader(printed)
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var pod corev1.Pod
	eventually.Succeeds(t, "OLM v0 makes a pod", func() error {
		pods := &corev1.PodList{}
		if err := o.List(t.Context(), pods, client.InNamespace(olmNamespace), client.MatchingLabels{"olm.catalogSource": "pushed"}); err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("there are %d", len(pods.Items))
		}
		pod = pods.Items[0]
		return nil
	})
	extract := pod.Spec.InitContainers[1]
	if diff := cmp.Diff([]string{"--catalog.from=/configs", "--catalog.to=/extracted-catalog/catalog"}, extract.Args); diff != "" || extract.Image != ref {
		t.Errorf("the init container extracts from %s (-want +got):\n%s", extract.Image, diff)
	}
	if diff := cmp.Diff([]string{"serve", "/extracted-catalog/catalog"}, pod.Spec.Containers[0].Args); diff != "" {
		t.Errorf("opm's arguments (-want +got):\n%s", diff)
	}
	image, err := crane.Pull(ref, crane.WithContext(t.Context()))
	must.Succeed(t, err)
	dir := t.TempDir()
	untar := exec.CommandContext(t.Context(), "tar", "-x", "-C", dir)
	files := mutate.Extract(image)
	defer files.Close()
	untar.Stdin = files
	must.Succeed(t, untar.Run())
	packages := answersOf(serveByOPM(t, filepath.Join(dir, "configs")).ListPackages(t.Context(), &api.ListPackageRequest{}))
	if want := len(packagesIn(t, filepath.Join(dir, "configs"))); len(packages) != want || want == 0 {
		t.Errorf("opm serves %v, want %d packages", packages, want)
	}
}
