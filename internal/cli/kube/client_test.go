package kube

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/testing/controlplane"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

var (
	ours   *Client
	theirs client.Client // the reference
)

func TestMain(m *testing.M) {
	controlplane.Main(m, filepath.Join("..", "..", ".."), func(p *controlplane.Plane) (err error) {
		scheme := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{
			v1beta1.AddToScheme, olmv1.AddToScheme, corev1.AddToScheme, authenticationv1.AddToScheme,
		} {
			err = errors.Join(err, add(scheme))
		}
		if err != nil {
			return err
		}
		if ours, err = New(p.Admin, scheme); err != nil {
			return err
		}
		mapper := meta.NewDefaultRESTMapper(nil) // without discovery, which has errors of its own
		mapper.Add(v1beta1.GroupVersion.WithKind("CatalogSource"), meta.RESTScopeRoot)
		mapper.Add(olmv1.GroupVersion.WithKind("ClusterCatalog"), meta.RESTScopeRoot)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
		theirs, err = client.New(p.Admin, client.Options{Scheme: scheme, Mapper: mapper})
		return err
	})
}

func configMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: labels}, Data: map[string]string{"a": "1", "b": "2"},
	}
}

func catalogSource(name string) *v1beta1.CatalogSource {
	return &v1beta1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": name}},
		Spec:       v1beta1.CatalogSourceSpec{Image: "registry.example/catalog:v1"},
	}
}

func create(t *testing.T, object Object) {
	t.Helper()
	must.Succeed(t, ours.Create(t.Context(), object, metav1.CreateOptions{FieldManager: "test"}))
}

func unstructuredOf(kind string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(kind))
	return u
}

// Get and List give the same objects and errors as the client of controller-runtime.
func TestReadsEqualControllerRuntime(t *testing.T) {
	t.Parallel()
	create(t, catalogSource("read"))
	create(t, configMap("read", map[string]string{"test": "read"}))
	metadata := func() Object {
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		return m
	}
	for name, tt := range map[string]struct {
		object func() Object
		key    types.NamespacedName
	}{
		"cluster-scoped": {func() Object { return &v1beta1.CatalogSource{} }, types.NamespacedName{Name: "read"}},
		"namespaced":     {func() Object { return &corev1.ConfigMap{} }, types.NamespacedName{Namespace: "default", Name: "read"}},
		"unstructured":   {func() Object { return unstructuredOf("CatalogSource") }, types.NamespacedName{Name: "read"}},
		"metadata":       {metadata, types.NamespacedName{Namespace: "default", Name: "read"}},
		"absent":         {func() Object { return &v1beta1.CatalogSource{} }, types.NamespacedName{Name: "absent"}},
		"absent kind":    {func() Object { return &olmv1.ClusterCatalog{} }, types.NamespacedName{Name: "absent"}},
		"without name":   {func() Object { return &v1beta1.CatalogSource{} }, types.NamespacedName{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := tt.object(), tt.object()
			errGot, errWant := ours.Get(t.Context(), tt.key, got), theirs.Get(t.Context(), tt.key, want)
			if diff := cmp.Diff(statusOf(errWant), statusOf(errGot)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, got, withoutKind); errWant == nil && diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
	selected := metav1.ListOptions{LabelSelector: "test=read"}
	for name, tt := range map[string]struct{ got, want List }{
		"cluster-scoped": {&v1beta1.CatalogSourceList{}, &v1beta1.CatalogSourceList{}},
		"namespaced":     {&corev1.ConfigMapList{}, &corev1.ConfigMapList{}},
		"absent kind":    {&olmv1.ClusterCatalogList{}, &olmv1.ClusterCatalogList{}},
	} {
		t.Run("list "+name, func(t *testing.T) {
			errGot := ours.List(t.Context(), "", tt.got, selected)
			errWant := theirs.List(t.Context(), tt.want.(client.ObjectList), &client.ListOptions{Raw: &selected})
			if diff := cmp.Diff(statusOf(errWant), statusOf(errGot)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			tt.want.SetResourceVersion(tt.got.GetResourceVersion()) // of the whole database
			if diff := cmp.Diff(tt.want, tt.got, withoutKind); errWant == nil && diff != "" {
				t.Errorf("list (-want +got):\n%s", diff)
			}
		})
	}
}

// withoutKind ignores the kinds of typed objects: our client keeps them, and controller-runtime's does not.
var withoutKind = cmpopts.IgnoreTypes(metav1.TypeMeta{})

// statusOf returns the API server's response in an error, as its text and its fields decide what the plugin says.
func statusOf(err error) any {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status):
		return status.Status()
	}
	return err.Error()
}

func TestGetReplacesObject(t *testing.T) {
	t.Parallel()
	create(t, configMap("replaced", nil))
	into := configMap("replaced", map[string]string{"stale": "label"})
	into.Data["stale"] = "data"
	must.Succeed(t, ours.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "replaced"}, into))
	if diff := cmp.Diff(configMap("replaced", nil).Data, into.Data); diff != "" || into.Labels != nil {
		t.Errorf("data (-want +got):\n%s\nlabels %v", diff, into.Labels)
	}
}

func TestListSelectsNamespaceAndLabels(t *testing.T) {
	t.Parallel()
	create(t, configMap("listed", map[string]string{"list": "yes"}))
	create(t, configMap("unlisted", nil))
	for name, want := range map[string]int{"default": 1, "": 1, "kube-system": 0} {
		var metadata metav1.PartialObjectMetadataList
		metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
		var untyped unstructured.UnstructuredList
		untyped.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
		must.Succeed(t, ours.List(t.Context(), name, &metadata, metav1.ListOptions{LabelSelector: "list=yes"}))
		must.Succeed(t, ours.List(t.Context(), name, &untyped, metav1.ListOptions{LabelSelector: "list=yes"}))
		if len(metadata.Items) != want || len(untyped.Items) != want {
			t.Errorf("namespace %q: got %d and %d items, want %d", name, len(metadata.Items), len(untyped.Items), want)
		}
		if want == 1 && (metadata.Items[0].Name != "listed" || untyped.Items[0].GetKind() != "ConfigMap") {
			t.Errorf("namespace %q: got %v and %v", name, metadata.Items, untyped.Items)
		}
	}
}

func TestPatch(t *testing.T) {
	t.Parallel()
	object := configMap("patched", nil)
	create(t, object)
	version := object.ResourceVersion
	patch := func(text string, opts metav1.PatchOptions) error {
		return ours.Patch(t.Context(), object, []byte(text), opts)
	}
	must.Succeed(t, patch(`{"data":{"a":null,"c":"3"}}`, metav1.PatchOptions{FieldManager: "patcher"}))
	if diff := cmp.Diff(map[string]string{"b": "2", "c": "3"}, object.Data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	managers := map[string]bool{}
	for _, m := range object.ManagedFields {
		managers[m.Manager] = true
	}
	if diff := cmp.Diff(map[string]bool{"test": true, "patcher": true}, managers); diff != "" {
		t.Errorf("field managers (-want +got):\n%s", diff)
	}
	if err := patch(`{"metadata":{"resourceVersion":"`+version+`"}}`, metav1.PatchOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a patch of an old version: got %v, want a conflict", err)
	}
	must.Succeed(t, patch(`{"data":{"d":"4"}}`, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}))
	has := &corev1.ConfigMap{}
	must.Succeed(t, ours.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "patched"}, has))
	if object.Data["d"] != "4" || has.Data["d"] != "" {
		t.Errorf("a dry run returned %v and stored %v", object.Data, has.Data)
	}
}

func TestCreateRefusals(t *testing.T) {
	t.Parallel()
	create(t, catalogSource("refused"))
	if err := ours.Create(t.Context(), catalogSource("refused"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("the same again: got %v, want already exists", err)
	}
	invalid := catalogSource("invalid")
	invalid.Spec.Image = ""
	err := ours.Create(t.Context(), invalid, metav1.CreateOptions{})
	want := theirs.Create(t.Context(), invalid.DeepCopy())
	if diff := cmp.Diff(statusOf(want), statusOf(err)); !apierrors.IsInvalid(err) || diff != "" {
		t.Errorf("invalid object: got %v (-want +got):\n%s", err, diff)
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"deleted", "kept", "all-1", "all-2"} {
		create(t, configMap(name, map[string]string{"delete": name[:3]}))
	}
	object, other := configMap("deleted", nil), types.UID("another")
	err := ours.Delete(t.Context(), object, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	if !apierrors.IsConflict(err) {
		t.Errorf("another UID: got %v, want a conflict", err)
	}
	must.Succeed(t, ours.Delete(t.Context(), object, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
	must.Succeed(t, ours.Delete(t.Context(), object, metav1.DeleteOptions{}))
	if err := ours.Delete(t.Context(), object, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("deleted again: got %v, want not found", err)
	}
	must.Succeed(t, ours.DeleteAll(t.Context(), "default", &corev1.ConfigMap{}, metav1.ListOptions{LabelSelector: "delete=all"}))
	var left corev1.ConfigMapList
	must.Succeed(t, ours.List(t.Context(), "default", &left, metav1.ListOptions{LabelSelector: "delete"}))
	if len(left.Items) != 1 || left.Items[0].Name != "kept" {
		t.Errorf("left: %v", left.Items)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	var list v1beta1.CatalogSourceList
	opts := metav1.ListOptions{FieldSelector: "metadata.name=watched"}
	must.Succeed(t, ours.List(t.Context(), "", &list, opts))
	opts.ResourceVersion = list.ResourceVersion
	events, err := ours.Watch(t.Context(), "", &list, opts)
	must.Succeed(t, err)
	defer events.Stop()
	object := catalogSource("watched")
	create(t, object)
	must.Succeed(t, ours.Delete(t.Context(), object, metav1.DeleteOptions{}))
	for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
		event := <-events.ResultChan()
		got, ok := event.Object.(*v1beta1.CatalogSource)
		if event.Type != want || !ok || got.Name != "watched" {
			t.Fatalf("got %s of %T, want %s of the CatalogSource", event.Type, event.Object, want)
		}
	}
	unknown, err := ours.Watch(t.Context(), "", &olmv1.ClusterCatalogList{}, metav1.ListOptions{})
	if err == nil {
		unknown.Stop()
	}
	if !apierrors.IsNotFound(err) {
		t.Errorf("watch of an absent kind: got %v, want not found", err)
	}
}

func TestCreateToken(t *testing.T) {
	t.Parallel()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "token", Namespace: "default"}}
	create(t, account)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"here"}}}
	must.Succeed(t, ours.CreateToken(t.Context(), account, request))
	if request.Status.Token == "" {
		t.Error("the token is empty")
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	got, err := ours.Versions(t.Context(), v1beta1.GroupName)
	must.Succeed(t, err)
	if diff := cmp.Diff([]string{v1beta1.GroupVersion.Version}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := ours.Versions(t.Context(), "unknown.example"); !apierrors.IsNotFound(err) {
		t.Errorf("unknown group: got %v, want not found", err)
	}
}
