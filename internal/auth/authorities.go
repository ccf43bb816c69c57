package auth

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Where an API server tells its add-ons which authorities sign client certificates; see
// https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/.
const (
	authoritiesNamespace = "kube-system"
	authoritiesName      = "extension-apiserver-authentication"
	authoritiesKey       = "client-ca-file"
)

// How long until the authorities are read again. A new authority is in the ConfigMap long before it signs what people use,
// so that a poll finds it in time, and unlike a watch it leaves no trail of errors while the ConfigMap may not be read.
const (
	readAgain = time.Minute
	retry     = 5 * time.Second // after a read that the API server did not answer
)

// authorities are those of the cluster for client certificates, as read last. It is the CAContentProvider of the
// authenticator. What was read stays while it cannot be read again; what the API server no longer has goes.
type authorities struct {
	client  corev1client.ConfigMapsGetter
	timeout time.Duration // of a read
	logger  *slog.Logger

	// answered is true once the API server said what the authorities are, or that there are none for us.
	answered atomic.Bool
	current  atomic.Pointer[dynamiccertificates.CAContentProvider] // nil: none
	problem  string                                                // why the last read failed, lest it be logged again; of read only
}

func (a *authorities) run(ctx context.Context) {
	for {
		a.read(ctx)
		wait := readAgain
		if !a.answered.Load() {
			wait = retry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// read reads the authorities, and logs a failure once.
func (a *authorities) read(ctx context.Context) {
	err := a.tryRead(ctx)
	if ctx.Err() != nil {
		return
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	switch {
	case problem == a.problem:
	case err != nil:
		a.logger.Warn("the cluster's authorities for client certificates cannot be read; tokens work", "clientCertificatesWork", a.current.Load() != nil, "error", err)
	default:
		a.logger.Info("the cluster's authorities for client certificates can be read again")
	}
	a.problem = problem
}

func (a *authorities) tryRead(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	configMap, err := a.client.ConfigMaps(authoritiesNamespace).Get(ctx, authoritiesName, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		a.answered.Store(true)
		return fmt.Errorf("reading ConfigMap %s/%s: %w (catalogd's account needs Role %[2]s-reader there; config/rbac binds it)", authoritiesNamespace, authoritiesName, err)
	case apierrors.IsNotFound(err):
		a.current.Store(nil)
		a.answered.Store(true)
		return fmt.Errorf("reading ConfigMap %s/%s: %w", authoritiesNamespace, authoritiesName, err)
	case err != nil:
		return fmt.Errorf("reading ConfigMap %s/%s: %w", authoritiesNamespace, authoritiesName, err)
	}
	defer a.answered.Store(true) // not before what was read holds
	bundle := configMap.Data[authoritiesKey]
	if current := a.CurrentCABundleContent(); current != nil && bundle == string(current) {
		return nil
	}
	next, err := dynamiccertificates.NewStaticCAContent(a.Name(), []byte(bundle))
	if err != nil {
		a.current.Store(nil) // nobody stands for those that were read before
		return fmt.Errorf("reading key %s of ConfigMap %s/%s: %w", authoritiesKey, authoritiesNamespace, authoritiesName, err)
	}
	a.current.Store(&next)
	return nil
}

// Name is that of the authorities in messages.
func (a *authorities) Name() string { return "client-ca" }

// AddListener does nothing: the authenticator asks for VerifyOptions each time.
func (a *authorities) AddListener(dynamiccertificates.Listener) {}

// CurrentCABundleContent returns the certificates of the authorities in PEM form; nil: none.
func (a *authorities) CurrentCABundleContent() []byte {
	if current := a.current.Load(); current != nil {
		return (*current).CurrentCABundleContent()
	}
	return nil
}

// VerifyOptions returns how to verify a client certificate, and whether it can be.
func (a *authorities) VerifyOptions() (x509.VerifyOptions, bool) {
	if current := a.current.Load(); current != nil {
		return (*current).VerifyOptions()
	}
	return x509.VerifyOptions{}, false
}
