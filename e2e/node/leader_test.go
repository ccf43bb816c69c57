package node

import (
	"context"
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// leader returns the replica that holds the lease.
func (i *installation) leader(ctx context.Context) (*corev1.Pod, error) {
	lease := &coordinationv1.Lease{}
	if err := i.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, lease); err != nil {
		return nil, err
	}
	pods, err := i.pods(ctx)
	if err != nil {
		return nil, err
	}
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	for _, pod := range pods {
		if strings.HasPrefix(holder, pod.Name+"_") && pod.DeletionTimestamp == nil { // the identity is the host name and a unique suffix
			return &pod, nil
		}
	}
	return nil, fmt.Errorf("the lease is held by %q, which is no replica", holder)
}

// TestLeaderDeleted deletes the Pod of the leader: another replica leads, and the Pod is recreated.
func TestLeaderDeleted(t *testing.T) {
	former, err := installed.leader(t.Context())
	must.Succeed(t, err)
	whileReading(t, func() {
		must.Succeed(t, installed.Delete(t.Context(), former))
		waitUntil(t, "another replica leads", func(ctx context.Context) error {
			now, err := installed.leader(ctx)
			if err == nil && now.UID == former.UID {
				err = fmt.Errorf("%s still leads", former.Name)
			}
			return err
		})
		waitUntil(t, "the deleted Pod is replaced", replaced(former.Name, former.UID))
	})
}
