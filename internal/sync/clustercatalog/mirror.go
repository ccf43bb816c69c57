package clustercatalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/sync/fault"
)

// Mirror keeps a ClusterCatalog for each CatalogSource with spec.olmv1: it has the CatalogSource's name, image, priority and
// status. Nothing but Mirror reads or writes it.
type Mirror struct {
	Kind    Kind
	Enabled bool // whether catalogd maintains ClusterCatalogs
	Client  client.Client
	Live    client.Reader
}

// Sync brings the ClusterCatalog of a CatalogSource up to date with the status s, and sets a condition in s.
func (m Mirror) Sync(ctx context.Context, object client.Object, s *source.Status) error {
	condition, err := m.report(ctx, object, *s)
	s.SetCondition(v1beta1.ClusterCatalogSyncedCondition, condition)
	return err
}

// report returns nil if there is to be no ClusterCatalog.
func (m Mirror) report(ctx context.Context, object client.Object, s source.Status) (*metav1.Condition, error) {
	owner, ok := object.(*v1beta1.CatalogSource)
	switch {
	case !ok:
		return nil, nil
	case !owner.Spec.OLMv1 && m.Enabled:
		return nil, m.Delete(ctx, owner)
	case !owner.Spec.OLMv1:
		return nil, nil
	case !m.Enabled:
		return failed(v1beta1.DisabledReason, "catalogd does not maintain ClusterCatalogs: run it with --cluster-catalogs, and apply their "+
			"CRD, or remove spec.olmv1."), nil
	}
	err := m.sync(ctx, m.Client, owner, s)
	if apierrors.IsAlreadyExists(err) || (apierrors.IsConflict(err) && !fault.IsContest(err)) { // the cache is behind
		err = m.sync(ctx, m.Live, owner, s)
	}
	rival, isRival := errors.AsType[*rivalError](err)
	switch {
	case errors.Is(err, errNameTaken):
		return failed(v1beta1.NameTakenReason, fmt.Sprintf("There is a ClusterCatalog %s that catalogd did not make: delete it, or "+
			"create this catalog under another name.", owner.Name)), nil
	case isRival:
		return failed(v1beta1.ContestedReason, rival.text+". Remove it, or remove spec.olmv1."), nil
	case fault.IsContest(err):
		return failed(v1beta1.ContestedReason, fmt.Sprintf("Another program writes the status of ClusterCatalog %s: remove that "+
			"program, then delete the ClusterCatalog; catalogd creates it again.", owner.Name)), nil
	case err != nil:
		return failed(v1beta1.SyncFailedReason, err.Error()), err
	}
	return &metav1.Condition{
		Status: metav1.ConditionTrue, Reason: v1beta1.SyncedReason,
		Message: fmt.Sprintf("ClusterCatalog %s is up to date.", owner.Name),
	}, nil
}

func failed(reason, message string) *metav1.Condition {
	return &metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// Delete deletes the ClusterCatalog of a CatalogSource, if there is one.
func (m Mirror) Delete(ctx context.Context, object client.Object) error {
	owner, ok := object.(*v1beta1.CatalogSource)
	if !ok || !m.Enabled {
		return nil
	}
	have, err := read(ctx, m.Client, owner.Name)
	if err != nil || have == nil || !isOf(have, owner) {
		return err
	}
	return client.IgnoreNotFound(m.Client.Delete(ctx, have, client.Preconditions{UID: &have.UID}))
}

// errNameTaken says that the ClusterCatalog of a name is not ours.
var errNameTaken = errors.New("the name is taken")

// sync writes the ClusterCatalog of owner, as far as it differs from the one that from has.
func (m Mirror) sync(ctx context.Context, from client.Reader, owner *v1beta1.CatalogSource, s source.Status) error {
	have, err := read(ctx, from, owner.Name)
	if err != nil {
		return err
	}
	if have != nil && !isOf(have, owner) {
		return errNameTaken
	}
	return m.write(ctx, owner, have, s)
}

// read returns the ClusterCatalog of a name, nil if there is none.
func read(ctx context.Context, from client.Reader, name string) (*olmv1.ClusterCatalog, error) {
	have := &olmv1.ClusterCatalog{}
	err := from.Get(ctx, client.ObjectKey{Name: name}, have)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return have, err
}

func isOf(c *olmv1.ClusterCatalog, owner *v1beta1.CatalogSource) bool {
	return metav1.IsControlledBy(c, owner)
}

// write makes the ClusterCatalog of owner as it should be; have is the current one, nil if there is none. Without an image,
// as that of a template that is not resolved yet, there is nothing to write.
func (m Mirror) write(ctx context.Context, owner *v1beta1.CatalogSource, have *olmv1.ClusterCatalog, s source.Status) error {
	ref, err := name.ParseReference(s.Image)
	if err != nil {
		return nil //nolint:nilerr // the status of the CatalogSource says so
	}
	want := desired(owner, ref)
	if have == nil {
		if err := m.findRival(ctx); err != nil {
			return err
		}
		if err := m.Client.Create(ctx, want, client.FieldOwner(v1beta1.FieldManager)); err != nil {
			return fmt.Errorf("creating ClusterCatalog %s: %w", owner.Name, err)
		}
		have = want.DeepCopy()
	}
	merged := have.DeepCopy()
	merged.Spec, merged.Labels = want.Spec, want.Labels
	if !equality.Semantic.DeepEqual(merged, have) {
		patch := client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{})
		if err := m.Client.Patch(ctx, merged, patch, client.FieldOwner(v1beta1.FieldManager)); err != nil {
			return fmt.Errorf("updating ClusterCatalog %s: %w", owner.Name, err)
		}
	}
	after := merged.DeepCopy()
	setStatus(after, statusFor(s, merged.Generation))
	if equality.Semantic.DeepEqual(after, merged) {
		return nil
	}
	if err := m.findRival(ctx); err != nil {
		return err
	}
	if err := m.Client.Status().Patch(ctx, after, statusPatch{}, client.FieldOwner(v1beta1.FieldManager)); err != nil {
		return fmt.Errorf("updating the status of ClusterCatalog %s: %w", owner.Name, err)
	}
	return nil
}

// rivalError says that OLM v1's own catalogd is here.
type rivalError struct{ text string }

func (e *rivalError) Error() string { return e.text }

func (m Mirror) findRival(ctx context.Context) error {
	rival, err := m.Kind.Rival(ctx, m.Live)
	if err == nil && rival != "" {
		err = &rivalError{rival}
	}
	return err
}

// statusFor returns a status with conditions that are about a generation.
func statusFor(s source.Status, generation int64) source.Status {
	conditions := s.Conditions
	s.Conditions = nil
	for _, condition := range conditions {
		condition.ObservedGeneration = generation
		s.Conditions = append(s.Conditions, condition)
	}
	return s
}

// desired returns the ClusterCatalog of a CatalogSource, without status. Its image always has a tag or a digest, which the API
// server demands.
func desired(owner *v1beta1.CatalogSource, ref name.Reference) *olmv1.ClusterCatalog {
	c := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{
		Name: owner.Name,
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(owner, v1beta1.GroupVersion.WithKind("CatalogSource")),
		},
	}}
	for key, value := range owner.Labels {
		metav1.SetMetaDataLabel(&c.ObjectMeta, key, value)
	}
	metav1.SetMetaDataLabel(&c.ObjectMeta, olmv1.MetadataNameLabel, owner.Name)
	c.Spec = olmv1.ClusterCatalogSpec{
		Source:           olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: ref.Name()}},
		Priority:         owner.Spec.Priority,
		AvailabilityMode: olmv1.AvailabilityModeAvailable,
	}
	if owner.Spec.Availability == v1beta1.AvailabilityUnavailable {
		c.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable
	}
	return c
}
