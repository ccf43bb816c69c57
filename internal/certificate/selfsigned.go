package certificate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	retryutil "k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
)

const (
	secretName    = "catalogd-serving-ca" // kubectl-operator looks for ca.crt in Secrets whose names begin with catalogd
	configMapName = "catalogd-ca"
)

// The CA is polled. Deadlines are weeks ahead, so minutes do not matter; a poll is two small reads, keeps no Secret in memory
// as a watch would, and needs no state.
const (
	pollInterval = 5 * time.Minute
	firstRetry   = time.Second // after a failure; doubled for each further one, up to maxRetry
	maxRetry     = time.Minute
	pollTimeout  = 30 * time.Second
)

// RBAC cannot limit create to names, because the name is unknown at authorization.
// +kubebuilder:rbac:groups="",namespace=catalogd-system,resources=secrets;configmaps,verbs=create
// +kubebuilder:rbac:groups="",namespace=catalogd-system,resources=secrets,resourceNames=catalogd-serving-ca,verbs=update
// +kubebuilder:rbac:groups="",namespace=catalogd-system,resources=configmaps,resourceNames=catalogd-ca,verbs=update

// Client reads and writes Secrets and ConfigMaps; a CoreV1Client is one.
type Client interface {
	corev1client.SecretsGetter
	corev1client.ConfigMapsGetter
}

// SelfSigned issues serving certificates with a CA of catalogd; see the package comment. It has no certificate until Run has
// reached the API server.
type SelfSigned struct {
	Client    Client
	Namespace string   // catalogd's own
	Names     []string // DNS names and IP addresses that clients use; kubectl-operator uses localhost
	Clock     clock.Clock
	Logger    *slog.Logger

	serving atomic.Pointer[tls.Certificate] // nil: none yet
	signing *authority                      // as last read; used by Run only
}

// GetCertificate returns the serving certificate, for tls.Config.
func (s *SelfSigned) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if serving := s.serving.Load(); serving != nil {
		return serving, nil
	}
	return nil, fmt.Errorf("no serving certificate yet: the CA in Secret %s/%s could not be read from the API server; "+
		"with --tls-cert-file and --tls-private-key-file none is needed", s.Namespace, secretName)
}

// Run maintains the CA, the published bundle and the serving certificate until ctx ends. It then returns nil. It logs and
// retries failures.
func (s *SelfSigned) Run(ctx context.Context) error {
	retry := firstRetry
	for {
		wait := pollInterval
		if err := s.reconcile(ctx); err == nil {
			retry = firstRetry
		} else if ctx.Err() == nil {
			s.Logger.Error("reconciling the CA of the serving certificate failed", "error", err, "retryIn", retry)
			wait, retry = retry, min(2*retry, maxRetry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.Clock.After(wait):
		}
	}
}

// reconcile does what is due. If the API server fails, the last known CA still signs.
func (s *SelfSigned) reconcile(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	err := retryutil.OnError(retryutil.DefaultBackoff, isConflict, func() error { return s.update(ctx) })
	return errors.Join(err, s.renew())
}

// isConflict reports whether another replica has written meanwhile, so that a retry starts from its state.
func isConflict(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// update brings the Secret and the ConfigMap up to date. Of concurrent replicas one writes and the others get a conflict. The
// ConfigMap is read before the Secret, so that a replica with an outdated Secret cannot restore an older bundle. After a crash
// between the two writes the next poll completes them.
func (s *SelfSigned) update(ctx context.Context) error {
	published, err := s.Client.ConfigMaps(s.Namespace).Get(ctx, configMapName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return s.failed("reading ConfigMap", configMapName, err)
	}
	if apierrors.IsNotFound(err) {
		published = nil
	}
	held, err := s.updateSecret(ctx)
	if err != nil {
		return err
	}
	s.signing = held.signing
	return s.publish(ctx, published, string(held.bundle()))
}

// updateSecret reads the Secret and writes it if it is absent or outdated.
func (s *SelfSigned) updateSecret(ctx context.Context) (*authorities, error) {
	secrets := s.Client.Secrets(s.Namespace)
	secret, err := secrets.Get(ctx, secretName, metav1.GetOptions{})
	absent := apierrors.IsNotFound(err)
	if absent {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName}, Type: corev1.SecretTypeTLS}
	} else if err != nil {
		return nil, s.failed("reading Secret", secretName, err)
	}
	held, problems := parseAuthorities(secret.Data)
	if held.signing != nil {
		s.signing = held.signing // it still signs if the Secret cannot be written
	}
	done, err := held.advance(s.Clock.Now())
	if err != nil {
		return nil, err
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	changed, err := held.store(secret.Data)
	switch {
	case err != nil:
		return nil, err
	case !changed:
		return &held, nil
	case absent:
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	default:
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{}) // conflicts if the Secret has changed since the read
	}
	if err != nil {
		return nil, s.failed("writing Secret", secretName, err)
	}
	if !absent && len(problems) > 0 {
		s.Logger.Warn("replaced a damaged CA of the serving certificate", "secret", s.Namespace+"/"+secretName, "problems", problems)
	}
	s.Logger.Info("wrote the CA of the serving certificate",
		"secret", s.Namespace+"/"+secretName, "done", done, "notAfter", held.signing.cert.NotAfter)
	return &held, nil
}

// publish writes the ConfigMap if it is outdated. published is its current state, nil if it does not exist.
func (s *SelfSigned) publish(ctx context.Context, published *corev1.ConfigMap, bundle string) (err error) {
	configMaps := s.Client.ConfigMaps(s.Namespace)
	switch {
	case published == nil:
		_, err = configMaps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: configMapName},
			Data:       map[string]string{bundleKey: bundle},
		}, metav1.CreateOptions{})
	case published.Data[bundleKey] != bundle:
		published = published.DeepCopy()
		if published.Data == nil {
			published.Data = map[string]string{}
		}
		published.Data[bundleKey] = bundle
		delete(published.BinaryData, bundleKey) // a key can be in one of them only
		_, err = configMaps.Update(ctx, published, metav1.UpdateOptions{})
	}
	if err != nil {
		return s.failed("writing ConfigMap", configMapName, err)
	}
	return nil
}

func (s *SelfSigned) failed(what, name string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%s %s/%s: %w (the account of catalogd needs the Role in config/rbac; or use --tls-cert-file and "+
			"--tls-private-key-file)",
			what, s.Namespace, name, err)
	}
	return fmt.Errorf("%s %s/%s: %w", what, s.Namespace, name, err)
}

// renew issues a new serving certificate if that is due or another CA signs.
func (s *SelfSigned) renew() error {
	if s.signing == nil {
		return nil // update failed
	}
	now := s.Clock.Now()
	serving := s.serving.Load()
	if serving != nil && string(serving.Leaf.AuthorityKeyId) == string(s.signing.cert.SubjectKeyId) && !needsRenewal(serving, now) {
		return nil
	}
	serving, err := s.signing.issue(s.Names, now)
	if err != nil {
		return err
	}
	s.serving.Store(serving)
	s.Logger.Info("issued a serving certificate", "names", s.Names, "notAfter", serving.Leaf.NotAfter)
	return nil
}
