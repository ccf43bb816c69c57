package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// Tokens for catalogd are made for this ServiceAccount: see docs/design/013. They expire as soon as the API server allows.
const (
	account      = "catalogd-cli"
	audience     = "catalogd.operatorframework.io"
	tokenSeconds = 600
)

// IsDirect reports whether --server-url replaces the addresses in status.urls.
func (s *Session) IsDirect() bool { return s.serverURL != "" }

// Direct returns the content service of --server-url. It receives the user's own credentials.
func (s *Session) Direct() (*content.Service, error) {
	return s.once("--server-url", s.openDirect) // not by its URL: the same service without these credentials is another
}

// ServiceOf returns the content service that serves a catalog.
func (s *Session) ServiceOf(c *status.Catalog) (*content.Service, error) {
	if c.Status.URLs == nil {
		return nil, fmt.Errorf("catalog %q is not served yet: %s", c.Name, status.Ready(c).Message)
	}
	return s.open(c.Status.URLs.Base, c.Name)
}

// Services returns the content services of all catalogs that catalogd maintains, one for each installation. An unusable address of one
// catalog is only a warning while there are others.
func (s *Session) Services(ctx context.Context) ([]*content.Service, error) {
	if s.IsDirect() {
		service, err := s.Direct()
		return []*content.Service{service}, err
	}
	catalogs, err := s.Catalogs(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]*content.Service{}
	var failed []error
	for i := range catalogs {
		if catalogs[i].Status.URLs == nil || !catalogs[i].IsOurs() {
			continue
		}
		service, err := s.ServiceOf(&catalogs[i])
		if err != nil {
			failed = append(failed, err)
			continue
		}
		found[service.String()] = service
	}
	if err := s.Tolerate(failed, len(found)); err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *content.Service) int {
		return cmp.Compare(a.String(), b.String())
	}), nil
}

// Tolerate prints errors as warnings if something succeeded. Otherwise it returns the first of them.
func (s *Session) Tolerate(failed []error, succeeded int) error {
	if succeeded == 0 && len(failed) > 0 {
		return failed[0]
	}
	for _, err := range failed {
		s.Stderr.Warnf("some catalogs are missing from the result: %v", err)
	}
	return nil
}

// open returns the service at status.urls.base of a catalog.
func (s *Session) open(base, catalog string) (*content.Service, error) {
	at, err := content.ParseAddress(base, catalog)
	if err != nil {
		return nil, fmt.Errorf("reading status.urls.base of catalog %q: %w", catalog, err)
	}
	return s.once(at.URL.String(), func() (*content.Service, error) { return s.openAt(at) })
}

// once opens a service on first use.
func (s *Session) once(address string, open func() (*content.Service, error)) (*content.Service, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.opened[address]; known != nil {
		return known, nil
	}
	service, err := open()
	if err != nil {
		return nil, err
	}
	service.Missing = func(catalogs string) {
		s.Stderr.Warnf("the replica of catalogd that answered does not serve these catalogs yet: %s", catalogs)
	}
	s.opened[address] = service
	return service, nil
}

func (s *Session) openAt(at content.Address) (*content.Service, error) {
	config, err := s.Config()
	if err != nil {
		return nil, err
	}
	namespace := cmp.Or(at.Namespace, s.namespace)
	mint := func(ctx context.Context) (string, error) { return s.token(ctx, namespace) }
	if at.Name != "" {
		return content.Proxied(config, at, mint)
	}
	return content.Direct(config, at, content.Options{CAFile: s.serverCA, Mint: mint})
}

func (s *Session) openDirect() (*content.Service, error) {
	at, err := content.ParseAddress(s.serverURL, "")
	if err != nil {
		return nil, exit.Usagef("--server-url: %w", err)
	}
	config, err := s.Config()
	if err != nil {
		return nil, err
	}
	if config.Impersonate.UserName != "" { // from --as or from the kubeconfig
		return nil, exit.Usagef("--as works only through the API server: omit --server-url")
	}
	at.Name = "" // even if the host looks like a Service
	return content.Direct(config, at, content.Options{CAFile: s.serverCA, Credentials: true})
}

// token requests a token for catalogd from the API server. It is valid for catalogd only.
func (s *Session) token(ctx context.Context, namespace string) (string, error) {
	c, err := s.Client()
	if err != nil {
		return "", err
	}
	to := &corev1.ServiceAccount{}
	to.Name, to.Namespace = account, namespace
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences:         []string{audience},
		ExpirationSeconds: ptr.To[int64](tokenSeconds),
	}}
	if err := c.CreateToken(ctx, to, request); err != nil {
		return "", tokenError(namespace, err)
	}
	return request.Status.Token, nil
}

// tokenError adds the remedy to the API server's refusal of a token, which is about the account, not about a catalog.
func tokenError(namespace string, err error) error {
	err = fmt.Errorf("requesting a token of ServiceAccount %s/%s to authenticate to catalogd: %w", namespace, account, err)
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	remedy := ""
	switch {
	case apierrors.IsForbidden(err):
		remedy = fmt.Sprintf("; to read catalogs through the API server, ask an administrator for a binding "+
			"to the Role catalogd-cli-user in namespace %s", namespace)
	case apierrors.IsNotFound(err):
		remedy = "; the manifests of catalogd create this ServiceAccount"
	}
	return &content.Error{Code: int(status.Status().Code), Message: err.Error() + remedy, APIServer: true}
}
