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
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/cert"
)

// The API server publishes its CA for client certificates there; see
// https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/.
const (
	authoritiesNamespace = "kube-system"
	authoritiesName      = "extension-apiserver-authentication"
	authoritiesKey       = "client-ca-file"
)

// A new CA is published long before it signs certificates, so polling finds it in time. Unlike a watch, polling causes no
// series of errors while reading is forbidden.
const (
	pollInterval  = time.Minute
	retryInterval = 5 * time.Second // until the API server answers for the first time
)

// authorities is the cluster's CA for client certificates, which may be several authorities. While the ConfigMap cannot be
// read, the last known CA stays in use.
type authorities struct {
	client  corev1client.ConfigMapsGetter
	timeout time.Duration // of a read
	logger  *slog.Logger

	answered atomic.Bool                        // the API server answered, if only with a refusal
	current  atomic.Pointer[x509.VerifyOptions] // nil: none
	problem  string                             // the last logged error; used by read only
}

func (a *authorities) run(ctx context.Context) {
	for {
		a.read(ctx)
		wait := pollInterval
		if !a.answered.Load() {
			wait = retryInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// read updates the CA. It logs repeated failures once.
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
		a.logger.Warn("reading the cluster's CA for client certificates failed; tokens work",
			"clientCertificatesWork", a.current.Load() != nil, "error", err)
	default:
		a.logger.Info("reading the cluster's CA for client certificates works again")
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
		return fmt.Errorf("reading ConfigMap %s/%s: %w (the account of catalogd needs Role %[2]s-reader there; config/rbac binds it)",
			authoritiesNamespace, authoritiesName, err)
	case apierrors.IsNotFound(err):
		a.current.Store(nil)
		a.answered.Store(true)
		return fmt.Errorf("reading ConfigMap %s/%s: %w", authoritiesNamespace, authoritiesName, err)
	case err != nil:
		return fmt.Errorf("reading ConfigMap %s/%s: %w", authoritiesNamespace, authoritiesName, err)
	}
	defer a.answered.Store(true) // after current is stored
	roots, err := cert.NewPoolFromBytes([]byte(configMap.Data[authoritiesKey]))
	if err != nil {
		a.current.Store(nil) // the API server no longer publishes the last known CA
		return fmt.Errorf("reading key %s of ConfigMap %s/%s: %w", authoritiesKey, authoritiesNamespace, authoritiesName, err)
	}
	options := x509request.DefaultVerifyOptions()
	options.Roots = roots
	a.current.Store(&options)
	return nil
}

// VerifyOptions returns the options for verifying client certificates, and whether there are any.
func (a *authorities) VerifyOptions() (x509.VerifyOptions, bool) {
	if current := a.current.Load(); current != nil {
		return *current, true
	}
	return x509.VerifyOptions{}, false
}
