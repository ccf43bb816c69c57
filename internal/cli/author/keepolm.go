package author

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/follow"
	"github.com/operator-catalogs/catalogd/internal/cli/kube"
	"github.com/operator-catalogs/catalogd/internal/cli/migrate"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// savedSpec is the annotation of a CatalogSource of OLM v0 with the spec that it had before catalogd served it.
const savedSpec = v1beta1.GroupName + "/olm-v0-spec"

// A keepRequest names CatalogSources of OLM v0 that catalogd is to serve under the same name, or no longer.
type keepRequest struct {
	names   []string
	keep    bool
	undo    bool
	timeout time.Duration
}

// keeper changes one CatalogSource of OLM v0. Each step finds what is done already, so that an interrupted command can be
// repeated.
type keeper struct {
	*session.Session
	api       *kube.Client
	namespace string
	name      string
	timeout   time.Duration
}

func (r *keepRequest) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&r.keep, "keep-olm", false, "serve CatalogSources of OLM v0 in place of their pods")
	flags.BoolVar(&r.undo, "undo", false, "with --keep-olm: let OLM v0 serve them again")
	flags.DurationVar(&r.timeout, "timeout", 10*time.Minute, "with --keep-olm: limit of each wait")
	for _, other := range []string{"to", "filename", "from-cluster"} {
		cmd.MarkFlagsMutuallyExclusive("keep-olm", other)
	}
}

func (r *keepRequest) run(cmd *cobra.Command, s *session.Session) error {
	if !r.keep {
		return exit.Usagef("--undo requires --keep-olm")
	}
	if len(r.names) == 0 {
		return exit.Usagef("specify the CatalogSources of OLM v0, by name; --namespace is theirs")
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	namespace, err := s.Namespace()
	if err != nil {
		return err
	}
	for _, name := range r.names {
		k := keeper{s, api, namespace, name, r.timeout}
		do := k.takeOver
		if r.undo {
			do = k.giveBack
		}
		if err := do(cmd.Context()); err != nil {
			return fmt.Errorf("CatalogSource %s of OLM v0 in namespace %s: %w", name, namespace, err)
		}
	}
	return nil
}

// source reads the CatalogSource of OLM v0.
func (k keeper) source(ctx context.Context) (*unstructured.Unstructured, error) {
	source := &unstructured.Unstructured{}
	source.SetGroupVersionKind(migrate.CatalogSource)
	err := k.api.Get(ctx, types.NamespacedName{Namespace: k.namespace, Name: k.name}, source)
	if apierrors.IsNotFound(err) {
		return nil, exit.NotFoundf("it does not exist")
	}
	return source, err
}

// takeOver makes catalogd serve a CatalogSource of OLM v0. OLM v0's pod serves it until catalogd does.
func (k keeper) takeOver(ctx context.Context) error {
	source, err := k.source(ctx)
	if err != nil {
		return err
	}
	m := migrate.Migrate([]unstructured.Unstructured{*source})[0]
	_, taken := source.GetAnnotations()[savedSpec]
	if err := k.check(source, m); err != nil && !taken {
		return err
	}
	catalog := &v1beta1.CatalogSource{}
	err = k.api.Get(ctx, types.NamespacedName{Name: k.name}, catalog)
	if apierrors.IsNotFound(err) && !taken {
		catalog, err = k.create(ctx, m)
	}
	if err != nil {
		return err
	}
	if catalog.Spec.OLMv0 == nil || !slices.Contains(catalog.Spec.OLMv0.Namespaces, k.namespace) {
		return fmt.Errorf("catalogd has another catalog %s, whose spec.olmv0 does not name the namespace: remove it, or add the namespace", k.name)
	}
	if err := k.await(ctx, v1beta1.ServingCondition); err != nil {
		return fmt.Errorf("%w; OLM v0 still serves it by itself; to undo this, run: kubectl catalog remove %s", err, k.name)
	}
	if !taken {
		if err := k.redirect(ctx, source, catalog); err != nil {
			return err
		}
	}
	if err := k.replacePod(ctx, source); err != nil {
		return err
	}
	fmt.Fprintf(k.Stdout, "catalogd serves CatalogSource %s of OLM v0 in namespace %s\n", k.name, k.namespace)
	return nil
}

// replacePod removes the pod, and waits until catalogd's Service is there and OLM v0 uses it.
func (k keeper) replacePod(ctx context.Context, source *unstructured.Unstructured) error {
	if err := k.removePod(ctx, source); err != nil {
		return err
	}
	if err := k.poke(ctx); err != nil {
		return err
	}
	if err := k.settle(ctx, source); err != nil { // before the condition: OLM v0 may have made its Service again
		return err
	}
	return k.await(ctx, v1beta1.OLMv0SyncedCondition)
}

// create creates a CatalogSource of catalogd.
func (k keeper) create(ctx context.Context, m *migrate.Migration) (*v1beta1.CatalogSource, error) {
	if len(m.Secrets) > 0 {
		return nil, fmt.Errorf("it has spec.secrets, which catalogd reads in its own namespace: first create CatalogSource %s of catalogd, "+
			"with what kubectl catalog migrate --from-cluster -n %s prints, and spec.olmv0.namespaces: [%[2]s]", k.name, k.namespace)
	}
	m.To.Spec.OLMv0 = &v1beta1.OLMv0{Namespaces: []string{k.namespace}}
	for _, note := range m.Notes {
		fmt.Fprintf(k.Stderr, "- %s\n", output.Line(note))
	}
	return &m.To, k.api.Create(ctx, &m.To, metav1.CreateOptions{FieldManager: session.FieldManager})
}

// check returns why a CatalogSource cannot be taken over.
func (k keeper) check(source *unstructured.Unstructured, m *migrate.Migration) error {
	owner := metav1.GetControllerOf(source)
	switch {
	case owner != nil:
		return fmt.Errorf("%s %s owns it, and would restore it: change that instead", owner.Kind, owner.Name)
	case m.Failed != "":
		return errors.New(m.Failed)
	case m.To.Name != k.name:
		return fmt.Errorf("catalogd cannot keep its name, as names of its catalogs are DNS labels: convert it without --keep-olm")
	}
	return nil
}

// change changes an object, again if another program changed it meanwhile, as OLM v0 and catalogd do for statuses.
func (k keeper) change(ctx context.Context, object kube.Object, change func() error) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := k.api.Get(ctx, keyOf(object), object); err != nil {
			return err
		}
		before := object.DeepCopyObject().(kube.Object)
		before.SetResourceVersion("") // so that the patch requires this version
		if err := change(); err != nil {
			return err
		}
		patch, err := mergePatch(before, object)
		if err != nil {
			return err
		}
		return k.api.Patch(ctx, object, patch, metav1.PatchOptions{FieldManager: session.FieldManager})
	})
}

// mergePatch returns the merge patch that makes an object what it is after a change.
func mergePatch(before, after kube.Object) ([]byte, error) {
	was, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	return jsonpatch.CreateMergePatch(was, is)
}

func keyOf(object kube.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// redirect makes a CatalogSource of OLM v0 lead to catalogd, and saves its spec.
func (k keeper) redirect(ctx context.Context, source *unstructured.Unstructured, catalog *v1beta1.CatalogSource) error {
	return k.change(ctx, source, func() error {
		saved, err := json.Marshal(source.Object["spec"])
		if err != nil {
			return err
		}
		annotations := source.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[savedSpec] = string(saved)
		source.SetAnnotations(annotations)
		source.SetOwnerReferences(append(source.GetOwnerReferences(),
			*metav1.NewControllerRef(catalog, v1beta1.GroupVersion.WithKind("CatalogSource"))))
		spec := source.Object["spec"].(map[string]any)
		for _, field := range []string{"image", "grpcPodConfig", "updateStrategy"} {
			delete(spec, field)
		}
		spec["address"] = fmt.Sprintf("%s.%s.svc:50051", k.name, k.namespace)
		return nil
	})
}

// removePod removes OLM v0's own Service and pods of the catalog, which OLM v0 leaves.
func (k keeper) removePod(ctx context.Context, source *unstructured.Unstructured) error {
	service := &corev1.Service{}
	err := k.api.Get(ctx, types.NamespacedName{Namespace: k.namespace, Name: k.name}, service)
	isOLMs := slices.ContainsFunc(service.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == source.GetUID() })
	if err == nil && isOLMs {
		err = k.api.Delete(ctx, service, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &service.UID}})
	}
	if ignoreNotFound(err) != nil {
		return err
	}
	return k.api.DeleteAll(ctx, k.namespace, &corev1.Pod{}, metav1.ListOptions{LabelSelector: "olm.catalogSource=" + k.name})
}

// olmPatience is how long OLM v0 may take to connect to catalogd. It takes a second; without OLM v0, nothing happens.
const olmPatience = 15 * time.Second

// settle waits until OLM v0 has seen the change: until then it may be at work on the former spec, make a pod and replace the
// Service. Then it restores what catalogd made.
func (k keeper) settle(ctx context.Context, source *unstructured.Unstructured) error {
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, olmPatience, true, func(ctx context.Context) (bool, error) {
		err := k.api.Get(ctx, keyOf(source), source)
		address, _, _ := unstructured.NestedString(source.Object, "spec", "address")
		connected, _, _ := unstructured.NestedString(source.Object, "status", "connectionState", "address")
		return connected == address, err
	})
	if err != nil && (!wait.Interrupted(err) || ctx.Err() != nil) {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, k.timeout, true, func(ctx context.Context) (bool, error) {
		if err := k.removePod(ctx, source); err != nil {
			return false, err
		}
		service := &corev1.Service{}
		err := ignoreNotFound(k.api.Get(ctx, types.NamespacedName{Namespace: k.namespace, Name: k.name}, service))
		if err != nil || service.Spec.Type == corev1.ServiceTypeExternalName {
			return err == nil, err
		}
		return false, k.poke(ctx)
	})
	if err != nil {
		return fmt.Errorf("waiting for catalogd's Service %s: %w", k.name, err)
	}
	return nil
}

// poke makes catalogd look at the catalog now.
func (k keeper) poke(ctx context.Context) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1beta1.PollRequestedAnnotation, time.Now().UTC().Format(time.RFC3339Nano))
	catalog := &v1beta1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: k.name}}
	return k.api.Patch(ctx, catalog, []byte(patch), metav1.PatchOptions{FieldManager: session.FieldManager})
}

// await waits until a condition of catalogd's CatalogSource is True.
func (k keeper) await(ctx context.Context, condition string) error {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	shown := k.Stderr.Progress()
	defer shown.End()
	var last metav1.Condition
	err := follow.One(ctx, k.Session, status.CatalogSource, k.name, func(c *status.Catalog) error {
		if c == nil {
			return exit.NotFoundf("CatalogSource %s of catalogd was deleted", k.name)
		}
		last = status.Condition(c, condition)
		if last.Status == metav1.ConditionTrue {
			return follow.ErrDone
		}
		shown.Show("waiting for "+condition, last.Message)
		return nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the condition %s of catalogd's CatalogSource is not True after %v: %s", condition, k.timeout, output.Line(last.Message))
	}
	return err
}

// giveBack makes OLM v0 serve a CatalogSource by itself again.
func (k keeper) giveBack(ctx context.Context) error {
	source, err := k.source(ctx)
	if err != nil {
		return err
	}
	catalog := &v1beta1.CatalogSource{}
	if err := ignoreNotFound(k.api.Get(ctx, types.NamespacedName{Name: k.name}, catalog)); err != nil {
		return err
	}
	offered := catalog.Spec.OLMv0 != nil && slices.Contains(catalog.Spec.OLMv0.Namespaces, k.namespace)
	saved, taken := source.GetAnnotations()[savedSpec]
	if !taken && !offered {
		return errors.New("it was not taken over with --keep-olm")
	}
	if taken { // first: catalogd deletes what it owns when the namespace is gone
		if err := k.restore(ctx, source, saved); err != nil {
			return err
		}
	}
	if offered {
		err := k.change(ctx, catalog, func() error {
			if offer := catalog.Spec.OLMv0; offer != nil {
				offer.Namespaces = slices.DeleteFunc(offer.Namespaces, func(n string) bool { return n == k.namespace })
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(k.Stdout, "OLM v0 serves CatalogSource %s in namespace %s by itself; catalogd still serves its catalog %s: "+
		"to remove that, run: kubectl catalog remove %[1]s\n", k.name, k.namespace, k.name)
	return nil
}

func (k keeper) restore(ctx context.Context, source *unstructured.Unstructured, saved string) error {
	var spec map[string]any
	if err := json.Unmarshal([]byte(saved), &spec); err != nil {
		return fmt.Errorf("its annotation %s is not JSON: %w", savedSpec, err)
	}
	return k.change(ctx, source, func() error {
		annotations := source.GetAnnotations()
		delete(annotations, savedSpec)
		source.SetAnnotations(annotations)
		source.SetOwnerReferences(slices.DeleteFunc(source.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
			return o.APIVersion == v1beta1.GroupVersion.String() && o.Kind == "CatalogSource"
		}))
		source.Object["spec"] = spec
		return nil
	})
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
