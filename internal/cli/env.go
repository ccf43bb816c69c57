package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	olmv0 "github.com/operator-catalogs/catalogd/internal/cli/migrate"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// The account that may read the content for who uses the plugin, and for whom its tokens are made: see docs/design/013.
const (
	account  = "catalogd-cli"
	audience = "catalogd.operatorframework.io"
)

// tokenSeconds is how long a token for catalogd is good: as short as the API server allows.
const tokenSeconds = 600

// env is what commands work with: the streams, the terminal, the cluster.
type env struct {
	genericiooptions.IOStreams
	stdout, stderr *term.Terminal
	kube           *genericclioptions.ConfigFlags
	version        string
	unpolled       bool                    // whether it was said that polls are not known
	started        bool                    // whether the command line was understood, and a command began
	apiServer      atomic.Pointer[url.URL] // once a command has to do with it

	serverURL string
	serverCA  string
	namespace string // catalogd's, where it cannot be seen from the catalogs

	mu     sync.Mutex
	opened map[string]*content.Service // by where they are: a token for one is good for all its catalogs, and as long as a command takes
}

func newEnv(streams genericiooptions.IOStreams, getenv func(string) string, version string) *env {
	return &env{
		IOStreams: streams,
		stdout:    term.New(streams.Out, getenv),
		stderr:    term.New(streams.ErrOut, getenv),
		kube:      genericclioptions.NewConfigFlags(true),
		version:   version,
	}
}

// addFlags adds the flags that all commands have: those of kubectl, and where the content service is.
func (e *env) addFlags(flags *pflag.FlagSet) {
	e.kube.AddFlags(flags)
	flags.StringVar(&e.serverURL, "server-url", "", "`URL` of catalogd's content service, to call it directly with your own credentials (default: where status.urls of the catalogs says, through the API server)")
	flags.StringVar(&e.serverCA, "server-ca", "", "`file` with the authorities that a content service called directly is to be signed by (default: those of this system)")
	flags.StringVar(&e.namespace, "catalogd-namespace", "catalogd-system", "`namespace` of catalogd, where the catalogs do not tell")
}

// start is called when the command line is understood.
func (e *env) start() error {
	if _, err := clientcmd.ParseTimeout(*e.kube.Timeout); err != nil {
		return usagef("--request-timeout %q: %w", *e.kube.Timeout, err)
	}
	e.started = true
	return nil
}

func (e *env) config() (*rest.Config, error) {
	config, err := e.kube.ToRESTConfig()
	if err != nil {
		return nil, e.misled(err)
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	e.apiServer.Store(server)
	config.UserAgent = e.userAgent()
	config.QPS = -1 // one person's commands
	return config, nil
}

func (e *env) userAgent() string { return "kubectl-catalog/" + e.version }

// scheme has the kinds that the plugin reads and writes.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme, discoveryv1.AddToScheme, authenticationv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()

// mapper knows the resources of these kinds, so that the API server need not be asked for all it has.
var mapper = func() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"CatalogSource", "OperatorPackage"} {
		m.Add(v1beta1.GroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	for _, kind := range []string{"ServiceAccount", "Secret", "ConfigMap", "Pod"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	m.Add(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), meta.RESTScopeNamespace)
	m.Add(eventsv1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	m.Add(olmv0.CatalogSource, meta.RESTScopeNamespace)
	return m
}()

// client returns a client of the API server.
func (e *env) client() (client.WithWatch, error) {
	config, err := e.config()
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper})
}

// service returns the content service that serves a catalog.
func (e *env) service(ctx context.Context, catalog string) (*content.Service, error) {
	if e.serverURL != "" {
		return e.direct()
	}
	c, err := e.catalog(ctx, catalog)
	if err != nil {
		return nil, err
	}
	if c.Status.URLs == nil {
		return nil, fmt.Errorf("nothing of catalog %q is served yet: %s", catalog, ready(c).Message)
	}
	return e.open(c.Status.URLs.Base, catalog)
}

// open returns the service at status.urls.base of a catalog.
func (e *env) open(base, catalog string) (*content.Service, error) {
	at, err := content.ParseAddress(base, catalog)
	if err != nil {
		return nil, fmt.Errorf("where catalog %q is served cannot be told: %w", catalog, err)
	}
	return e.once(at.URL.String(), func() (*content.Service, error) { return e.openAt(at) })
}

// once opens a service, unless this command did so already.
func (e *env) once(where string, open func() (*content.Service, error)) (*content.Service, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := e.opened[where]; known != nil {
		return known, nil
	}
	service, err := open()
	if err != nil {
		return nil, err
	}
	if e.opened == nil {
		e.opened = map[string]*content.Service{}
	}
	e.opened[where] = service
	return service, nil
}

func (e *env) openAt(at content.Address) (*content.Service, error) {
	config, err := e.config()
	if err != nil {
		return nil, err
	}
	namespace := cmp.Or(at.Namespace, e.namespace)
	mint := func(ctx context.Context) (string, error) { return e.token(ctx, namespace) }
	if at.Name != "" {
		return e.warning(content.Proxied(config, at, mint))
	}
	authorities, err := e.authorities()
	if err != nil {
		return nil, err
	}
	return e.warning(content.Direct(config, at, content.Options{Authorities: authorities, Mint: mint}))
}

// direct returns the service at --server-url, which is sent the user's own credentials.
func (e *env) direct() (*content.Service, error) {
	return e.once("--server-url", e.openDirect) // no URL, as others there go without these credentials
}

func (e *env) openDirect() (*content.Service, error) {
	at, err := content.ParseAddress(e.serverURL, "")
	if err != nil {
		return nil, usagef("--server-url: %w", err)
	}
	config, err := e.config()
	if err != nil {
		return nil, err
	}
	if config.Impersonate.UserName != "" { // by --as, or by the kubeconfig
		return nil, usagef("--as works through the API server only: leave --server-url out")
	}
	authorities, err := e.authorities()
	if err != nil {
		return nil, err
	}
	at.Name = "" // whatever the host looks like
	return e.warning(content.Direct(config, at, content.Options{Authorities: authorities, Credentials: true}))
}

// warning has a service say what its answers lack.
func (e *env) warning(service *content.Service, err error) (*content.Service, error) {
	if err != nil {
		return nil, err
	}
	service.Missing = func(catalogs string) {
		fmt.Fprintf(e.stderr, "%s the replica of catalogd that answered does not have yet: %s\n", e.stderr.Paint(term.Yellow, "warning:"), term.Line(catalogs))
	}
	return service, nil
}

func (e *env) authorities() ([]byte, error) {
	if e.serverCA == "" {
		return nil, nil
	}
	return os.ReadFile(e.serverCA)
}

// token has the API server make a token for catalogd, which is good for nothing else.
func (e *env) token(ctx context.Context, namespace string) (string, error) {
	c, err := e.client()
	if err != nil {
		return "", err
	}
	to := &corev1.ServiceAccount{}
	to.Name, to.Namespace = account, namespace
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences:         []string{audience},
		ExpirationSeconds: ptr.To[int64](tokenSeconds),
	}}
	if err := c.SubResource("token").Create(ctx, to, request); err != nil {
		return "", noToken(namespace, err)
	}
	return request.Status.Token, nil
}

// noToken is the error of a token that cannot be had. What the API server says of it is about the account, not about a catalog.
func noToken(namespace string, err error) error {
	err = fmt.Errorf("asking the API server for a token of ServiceAccount %s/%s, by which catalogd knows who may read: %w", namespace, account, err)
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	remedy := ""
	switch {
	case apierrors.IsForbidden(err):
		remedy = fmt.Sprintf("; an admin can bind the Role catalogd-cli-user in namespace %s to you, which lets you read catalogs through the API server", namespace)
	case apierrors.IsNotFound(err):
		remedy = "; an admin can create it, as the manifests of catalogd do"
	}
	return &content.Error{Code: int(status.Status().Code), Message: err.Error() + remedy, APIServer: true}
}
