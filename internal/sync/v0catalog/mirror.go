// Package v0catalog offers CatalogSources to OLM v0: in each namespace of spec.olmv0 it keeps a CatalogSource of OLM v0 (group
// operators.coreos.com), and the Service by whose name OLM v0 reaches catalogd. That name tells catalogs apart (package olmv0).
package v0catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/source"
)

// +kubebuilder:rbac:groups=operators.coreos.com,resources=catalogsources,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;create;patch;delete

// Port is that of OLM v0's registry API, by convention.
const Port = 50051

// Mirror offers CatalogSources with spec.olmv0 to OLM v0. Its objects are read from the API server, and not watched: rights in
// the namespaces of OLM v0 suffice.
type Mirror struct {
	Enabled bool
	Client  client.Client // writes
	Live    client.Reader
	Target  string // the DNS name of the Service that leads to catalogd's gRPC port
	// Missing names what OLM v0 does not get of the served content of a catalog.
	Missing func(ctx context.Context, catalog string) ([]string, error)
}

// Sync brings the objects of a CatalogSource up to date, and sets a condition and the list of namespaces in s. Before content
// is served there are none, as OLM v0 resolves nothing in a namespace with a catalog that does not answer.
func (m Mirror) Sync(ctx context.Context, object client.Object, s *source.Status) error {
	owner, ok := object.(*v1beta1.CatalogSource)
	if !ok || (owner.Spec.OLMv0 == nil && len(s.OLMv0) == 0) {
		s.SetCondition(v1beta1.OLMv0SyncedCondition, nil)
		return nil
	}
	if !m.Enabled {
		s.SetCondition(v1beta1.OLMv0SyncedCondition, failed(v1beta1.DisabledReason,
			"catalogd does not offer catalogs to OLM v0: run it with --olm-v0, or remove spec.olmv0."))
		return nil
	}
	offered, err := m.offer(ctx, owner, *s)
	s.OLMv0 = offered
	condition, err := m.condition(ctx, owner, *s, err)
	s.SetCondition(v1beta1.OLMv0SyncedCondition, condition)
	return err
}

// offer makes and deletes objects, and returns the namespaces that may have some. It goes on after an error.
func (m Mirror) offer(ctx context.Context, owner *v1beta1.CatalogSource, s source.Status) (offered []string, err error) {
	wanted := namespaces(owner)
	for _, namespace := range s.OLMv0 {
		if slices.Contains(wanted, namespace) {
			continue
		}
		if deleteErr := m.withdraw(ctx, owner, namespace); deleteErr != nil {
			offered, err = append(offered, namespace), errors.Join(err, deleteErr)
		}
	}
	for _, namespace := range wanted {
		exists := slices.Contains(s.OLMv0, namespace)
		if s.URL != "" {
			makeErr := m.keep(ctx, owner, namespace)
			exists, err = exists || !apierrors.IsForbidden(makeErr), errors.Join(err, makeErr) // one of the two may exist
		}
		if exists {
			offered = append(offered, namespace)
		}
	}
	slices.Sort(offered)
	return offered, err
}

// namespaces returns where a CatalogSource is to be offered.
func namespaces(owner *v1beta1.CatalogSource) []string {
	if owner.Spec.OLMv0 == nil || owner.Spec.Availability == v1beta1.AvailabilityUnavailable {
		return nil
	}
	return owner.Spec.OLMv0.Namespaces
}

// Delete deletes all objects of a CatalogSource.
func (m Mirror) Delete(ctx context.Context, object client.Object) error {
	owner, ok := object.(*v1beta1.CatalogSource)
	if !ok || !m.Enabled || owner.Status.OLMv0 == nil {
		return nil
	}
	var errs []error
	for _, namespace := range owner.Status.OLMv0.Namespaces {
		errs = append(errs, m.withdraw(ctx, owner, namespace))
	}
	return errors.Join(errs...)
}

// withdraw deletes the objects of a CatalogSource in a namespace: first what OLM v0 reads.
func (m Mirror) withdraw(ctx context.Context, owner *v1beta1.CatalogSource, namespace string) error {
	for _, have := range []client.Object{&v1alpha1.CatalogSource{}, &corev1.Service{}} {
		err := m.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: owner.Name}, have)
		if err == nil && metav1.IsControlledBy(have, owner) {
			err = m.Client.Delete(ctx, have, client.Preconditions{
				UID: new(have.GetUID()), ResourceVersion: new(have.GetResourceVersion()), // it may have got another owner
			})
		}
		if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return fmt.Errorf("removing %s from namespace %s: %w", owner.Name, namespace, err)
		}
	}
	return nil
}

// takenError is about an object that catalogd did not make.
type takenError struct{ kind, namespace, name string }

func (e *takenError) Error() string {
	return fmt.Sprintf("%s %s in namespace %s, which catalogd did not make", e.kind, e.name, e.namespace)
}

// keep makes the objects of a CatalogSource in a namespace as they should be: first the Service, so that OLM v0 finds it.
func (m Mirror) keep(ctx context.Context, owner *v1beta1.CatalogSource, namespace string) error {
	service := &corev1.Service{}
	err := m.ensure(ctx, owner, namespace, "Service", service, func() {
		service.Spec.Type, service.Spec.ExternalName = corev1.ServiceTypeExternalName, m.Target
		service.Spec.Ports = []corev1.ServicePort{{
			Name: "grpc", Protocol: corev1.ProtocolTCP, Port: Port, TargetPort: intstr.FromInt32(Port),
		}}
	})
	if err != nil {
		return err
	}
	catalog := &v1alpha1.CatalogSource{}
	return m.ensure(ctx, owner, namespace, "CatalogSource of OLM v0", catalog, func() {
		spec := &catalog.Spec
		spec.SourceType, spec.Address, spec.Image = v1alpha1.SourceTypeGrpc, Address(owner.Name, namespace), ""
		spec.UpdateStrategy = nil
		spec.DisplayName, spec.Description, spec.Publisher = owner.Spec.DisplayName, owner.Spec.Description, owner.Spec.Publisher
		spec.Priority, spec.Icon = int(owner.Spec.Priority), v1alpha1.Icon{}
		if icon := owner.Spec.Icon; icon != nil {
			spec.Icon = v1alpha1.Icon{Data: icon.Base64Data, MediaType: icon.MediaType}
		}
	})
}

// Address returns the address of a catalog for OLM v0.
func Address(catalog, namespace string) string {
	return fmt.Sprintf("%s.%s.svc:%d", catalog, namespace, Port)
}

// ensure reads an object into have, which set makes as it should be, and writes it if that changed it. What set leaves stays,
// such as spec.secrets.
func (m Mirror) ensure(
	ctx context.Context, owner *v1beta1.CatalogSource, namespace, kind string, have client.Object, set func(),
) error {
	err := m.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: owner.Name}, have)
	switch {
	case apierrors.IsNotFound(err):
		have.SetNamespace(namespace)
		have.SetName(owner.Name)
		have.SetOwnerReferences([]metav1.OwnerReference{
			*metav1.NewControllerRef(owner, v1beta1.GroupVersion.WithKind("CatalogSource")),
		})
		set()
		err = m.Client.Create(ctx, have, client.FieldOwner(v1beta1.FieldManager))
	case err == nil && !metav1.IsControlledBy(have, owner):
		return &takenError{kind, namespace, owner.Name}
	case err == nil:
		before := have.DeepCopyObject().(client.Object)
		set()
		if equality.Semantic.DeepEqual(before, have) {
			return nil
		}
		err = m.Client.Patch(ctx, have, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
			client.FieldOwner(v1beta1.FieldManager))
	}
	if err != nil {
		return fmt.Errorf("writing %s %s in namespace %s: %w", kind, owner.Name, namespace, err)
	}
	return nil
}

func failed(reason, message string) *metav1.Condition {
	return &metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// condition returns the condition after offer returned an error, and an error that is to be retried.
func (m Mirror) condition(
	ctx context.Context, owner *v1beta1.CatalogSource, s source.Status, err error,
) (*metav1.Condition, error) {
	taken, isTaken := errors.AsType[*takenError](err)
	switch {
	case isTaken:
		return failed(v1beta1.NameTakenReason, fmt.Sprintf("There is a %v: delete it, or create this catalog under another name. "+
			"To take a catalog of OLM v0 over, run kubectl catalog migrate --keep-olm %s -n %s.", taken, taken.name, taken.namespace)), err
	case apierrors.IsForbidden(err):
		return failed(v1beta1.ForbiddenReason, fmt.Sprintf("catalogd may not write in a namespace of spec.olmv0: bind ClusterRole "+
			"catalogd-olm-v0 to its ServiceAccount there, as config/components/olm-v0 does in namespace olm. %v.", err)), err
	case err != nil:
		return failed(v1beta1.SyncFailedReason, err.Error()), err
	case owner.Spec.OLMv0 == nil:
		return nil, nil
	case s.URL == "":
		return failed(v1beta1.UnavailableReason, "The catalog is not served."), nil
	}
	missing, err := m.Missing(ctx, owner.Name)
	if err != nil {
		return failed(v1beta1.SyncFailedReason, err.Error()), nil // the pass reports the error
	}
	where := "OLM v0 can use the catalog in namespaces " + strings.Join(namespaces(owner), ", ") + "."
	condition := &metav1.Condition{Status: metav1.ConditionTrue, Reason: v1beta1.SyncedReason, Message: where}
	if more := len(missing) - maxNamed; more > 0 {
		missing = append(missing[:maxNamed], fmt.Sprintf("%d others", more))
	}
	if len(missing) > 0 {
		condition.Reason, condition.Message = v1beta1.IncompleteReason, where+" It does not get: "+strings.Join(missing, "; ")+"."
	}
	return condition, nil
}

// maxNamed limits the packages and bundles that a condition names.
const maxNamed = 10
