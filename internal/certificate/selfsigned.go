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

// When the authority is looked at again. Everything that falls due does so weeks ahead, so minutes do not matter; a poll is
// two small reads, holds no Secret in memory as a watch would, and needs nothing to be right about when it last ran.
const (
	lookAgain  = 5 * time.Minute
	firstRetry = time.Second // after a failure; each further one waits twice as long, up to a minute
	lastRetry  = time.Minute
	callTime   = 30 * time.Second // that one look may take
)

// create cannot be limited to names; Kubernetes does not know the name yet when it decides.
// +kubebuilder:rbac:groups="",namespace=catalogd-system,resources=secrets;configmaps,verbs=create
// +kubebuilder:rbac:groups="",namespace=catalogd-system,resources=secrets,resourceNames=catalogd-serving-ca,verbs=update
// +kubebuilder:rbac:groups="",namespace=catalogd-system,resources=configmaps,resourceNames=catalogd-ca,verbs=update

// Client reads and writes Secrets and ConfigMaps; CoreV1() of a Kubernetes clientset is one.
type Client interface {
	corev1client.SecretsGetter
	corev1client.ConfigMapsGetter
}

// SelfSignedConfig is what a SelfSigned works with.
type SelfSignedConfig struct {
	Client    Client
	Namespace string   // catalogd's own
	Names     []string // DNS names and IP addresses by which clients call; kubectl-operator calls localhost
	Clock     clock.Clock
	Logger    *slog.Logger
}

// SelfSigned makes serving certificates by an authority of catalogd's own; see the package comment.
type SelfSigned struct {
	SelfSignedConfig
	serving atomic.Pointer[tls.Certificate] // nil: none yet
	signing *authority                      // as read last; of Run only
}

// NewSelfSigned returns a SelfSigned that has no certificate until Run has reached the API server.
func NewSelfSigned(cfg SelfSignedConfig) *SelfSigned { return &SelfSigned{SelfSignedConfig: cfg} }

// GetCertificate returns the serving certificate, for tls.Config.
func (s *SelfSigned) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if serving := s.serving.Load(); serving != nil {
		return serving, nil
	}
	return nil, fmt.Errorf("there is no serving certificate yet: the API server could not be asked for the authority in Secret %s/%s; "+
		"with --tls-cert-file and --tls-private-key-file none is needed", s.Namespace, secretName)
}

// Run keeps the authority, what is published of it, and the serving certificate as they have to be, until ctx ends, and then
// returns nil. Failures are logged and tried again.
func (s *SelfSigned) Run(ctx context.Context) error {
	retry := firstRetry
	for {
		wait := lookAgain
		if err := s.look(ctx); err == nil {
			retry = firstRetry
		} else if ctx.Err() == nil {
			s.Logger.Error("the authority of the serving certificate could not be seen to", "error", err, "retryIn", retry)
			wait, retry = retry, min(2*retry, lastRetry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.Clock.After(wait):
		}
	}
}

// look does all that is due. Where the API server fails, the authority as it was read last still signs.
func (s *SelfSigned) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err := retryutil.OnError(retryutil.DefaultBackoff, lost, func() error { return s.agree(ctx) })
	return errors.Join(err, s.renew())
}

// lost tells whether another replica was quicker to write: its work is what to go on from.
func lost(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// agree brings the Secret and the ConfigMap to what they have to be now. Of replicas that do so at once, one writes, and the
// others fail as lost tells. The ConfigMap is read before the Secret: whoever read an older Secret than was published fails
// to write the ConfigMap, and cannot put back an older bundle. A crash between the two writes is made good by the next look.
func (s *SelfSigned) agree(ctx context.Context) error {
	published, err := s.Client.ConfigMaps(s.Namespace).Get(ctx, configMapName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return s.failed("reading ConfigMap", configMapName, err)
	}
	if apierrors.IsNotFound(err) {
		published = nil
	}
	held, err := s.hold(ctx)
	if err != nil {
		return err
	}
	s.signing = held.signing
	return s.publish(ctx, published, string(held.bundle()))
}

// hold reads the Secret, and writes it if it is absent, or not as it has to be now.
func (s *SelfSigned) hold(ctx context.Context) (*authorities, error) {
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
		s.signing = held.signing // it goes on to, should the Secret not let itself be written
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
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{}) // its resource version is that which was read
	}
	if err != nil {
		return nil, s.failed("writing Secret", secretName, err)
	}
	if !absent && len(problems) > 0 {
		s.Logger.Warn("the authority of the serving certificate was damaged", "secret", s.Namespace+"/"+secretName, "problems", problems)
	}
	s.Logger.Info("wrote the authority of the serving certificate", "secret", s.Namespace+"/"+secretName, "done", done, "notAfter", held.signing.cert.NotAfter)
	return &held, nil
}

// publish writes the ConfigMap if it is not as it has to be. published is how it stands, nil if it does not.
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
		delete(published.BinaryData, bundleKey) // a key may be in one of them only
		_, err = configMaps.Update(ctx, published, metav1.UpdateOptions{})
	}
	if err != nil {
		return s.failed("writing ConfigMap", configMapName, err)
	}
	return nil
}

func (s *SelfSigned) failed(what, name string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%s %s/%s: %w (config/rbac has the Role that catalogd's account needs; or use --tls-cert-file and --tls-private-key-file)", what, s.Namespace, name, err)
	}
	return fmt.Errorf("%s %s/%s: %w", what, s.Namespace, name, err)
}

// renew makes the serving certificate anew if it is due, or another authority signs.
func (s *SelfSigned) renew() error {
	if s.signing == nil {
		return nil // agree failed, and said so
	}
	now := s.Clock.Now()
	serving := s.serving.Load()
	if serving != nil && string(serving.Leaf.AuthorityKeyId) == string(s.signing.cert.SubjectKeyId) && !outworn(serving, now) {
		return nil
	}
	serving, err := s.signing.issue(s.Names, now)
	if err != nil {
		return err
	}
	s.serving.Store(serving)
	s.Logger.Info("made a serving certificate", "names", s.Names, "notAfter", serving.Leaf.NotAfter)
	return nil
}
