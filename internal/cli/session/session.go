// Package session opens the clients of a command: of the API server and of the content services. It knows no command.
package session

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"sync"
	"sync/atomic"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/migrate"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// FieldManager owns the fields that the plugin sets.
const FieldManager = "kubectl-catalog"

// A Session is one run of the plugin: its streams, its flags, and the clients that these lead to.
type Session struct {
	In             io.Reader
	Stdout, Stderr *output.Terminal
	Version        string

	kube      *genericclioptions.ConfigFlags
	serverURL string
	serverCA  string
	namespace string                  // of catalogd, if no catalog names it
	apiServer atomic.Pointer[url.URL] // set on first use

	mu      sync.Mutex
	opened  map[string]*content.Service // by address: one token serves all catalogs of a service
	kinds   map[string]status.Kind      // of catalogs that an argument named with their type
	absence absence                     // of ClusterCatalogs
}

// New returns the session of a run. getenv is os.Getenv.
func New(streams genericiooptions.IOStreams, getenv func(string) string, version string) *Session {
	return &Session{
		In:      streams.In,
		Stdout:  output.New(streams.Out, getenv),
		Stderr:  output.New(streams.ErrOut, getenv),
		kube:    genericclioptions.NewConfigFlags(true),
		Version: version,
		opened:  map[string]*content.Service{},
		kinds:   map[string]status.Kind{},
	}
}

// AddFlags adds the flags of all commands: those of kubectl, and the address of the content service.
func (s *Session) AddFlags(flags *pflag.FlagSet) {
	s.kube.AddFlags(flags)
	flags.StringVar(&s.serverURL, "server-url", "", "`URL` of catalogd's content service, to call it directly "+
		"with your own credentials (default: the address in status.urls, through the API server)")
	flags.StringVar(&s.serverCA, "server-ca", "", "`file` with the certificate authorities of a content service "+
		"that is called directly (default: those of this system)")
	flags.StringVar(&s.namespace, "catalogd-namespace", "catalogd-system", "`namespace` of catalogd, if no catalog names it")
}

// Validate checks the flags of all commands.
func (s *Session) Validate() error {
	if _, err := clientcmd.ParseTimeout(*s.kube.Timeout); err != nil {
		return exit.Usagef("--request-timeout %q: %w", *s.kube.Timeout, err)
	}
	return nil
}

// UserAgent returns the name of the plugin for HTTP requests.
func (s *Session) UserAgent() string { return "kubectl-catalog/" + s.Version }

// Config returns the configuration of clients of the API server.
func (s *Session) Config() (*rest.Config, error) {
	config, err := s.kube.ToRESTConfig()
	if err != nil {
		return nil, s.kubeconfigError(err)
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	s.apiServer.Store(server)
	config.UserAgent = s.UserAgent()
	config.QPS = -1 // a single user needs no limit
	return config, nil
}

// Client returns a client of the API server.
func (s *Session) Client() (client.WithWatch, error) {
	config, err := s.Config()
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: Scheme, Mapper: mapper})
}

// List reads objects from the API server.
func (s *Session) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	return c.List(ctx, list, opts...)
}

// Kubeconfig returns the kubeconfig.
func (s *Session) Kubeconfig() (clientcmdapi.Config, error) {
	return s.kube.ToRawKubeConfigLoader().RawConfig()
}

// Namespace returns the namespace of --namespace or of the kubeconfig's context.
func (s *Session) Namespace() (string, error) {
	namespace, _, err := s.kube.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// ReadFile reads a file, or standard input if the name is "-".
func (s *Session) ReadFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(s.In)
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = exit.NotFoundf("file %q not found", name)
	}
	return text, err
}

// Scheme has the kinds that the plugin reads and writes.
var Scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1beta1.AddToScheme, olmv1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme, discoveryv1.AddToScheme, authenticationv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()

// mapper maps these kinds to resources without discovery.
var mapper = func() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"CatalogSource", "OperatorPackage"} {
		m.Add(v1beta1.GroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	m.Add(olmv1.GroupVersion.WithKind("ClusterCatalog"), meta.RESTScopeRoot)
	for _, kind := range []string{"ServiceAccount", "Secret", "ConfigMap", "Pod", "Service"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	m.Add(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), meta.RESTScopeNamespace)
	m.Add(eventsv1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	m.Add(migrate.CatalogSource, meta.RESTScopeNamespace)
	return m
}()
