// Package session opens the clients of a command: of the API server and of the content services. It knows no command.
package session

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/kube"
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

	loading    *clientcmd.ClientConfigLoadingRules
	overrides  *clientcmd.ConfigOverrides
	kubeconfig clientcmd.ClientConfig // with the flags applied, or the configuration of a pod if there is none; read on first use
	serverURL  string
	serverCA   string
	namespace  string                  // of catalogd, if no catalog names it
	apiServer  atomic.Pointer[url.URL] // set on first use

	mu      sync.Mutex
	opened  map[string]*content.Service // by address: one token serves all catalogs of a service
	kinds   map[string]status.Kind      // of catalogs that an argument named with their type
	absence absence                     // of ClusterCatalogs
}

// New returns the session of a run. getenv is os.Getenv.
func New(streams genericiooptions.IOStreams, getenv func(string) string, version string) *Session {
	s := &Session{
		In:      streams.In,
		Stdout:  output.New(streams.Out, getenv),
		Stderr:  output.New(streams.ErrOut, getenv),
		Version: version,

		loading:   clientcmd.NewDefaultClientConfigLoadingRules(),
		overrides: &clientcmd.ConfigOverrides{ClusterDefaults: clientcmd.ClusterDefaults},
		opened:    map[string]*content.Service{},
		kinds:     map[string]status.Kind{},
	}
	s.kubeconfig = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(s.loading, s.overrides)
	return s
}

// AddFlags adds the flags of all commands: those of kubectl, and the address of the content service.
func (s *Session) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.loading.ExplicitPath, "kubeconfig", "", "`file` with the kubeconfig of the cluster")
	of := clientcmd.RecommendedConfigOverrideFlags("")
	of.AuthOverrideFlags.Username, of.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{} // kubectl has none
	clientcmd.BindOverrideFlags(s.overrides, flags, of)
	flags.Func("as-user-extra", "`KEY=VALUE` of the user to impersonate; repeatable", s.addUserExtra)
	flags.StringVar(&s.serverURL, "server-url", "", "`URL` of catalogd's content service, to call it directly "+
		"with your own credentials (default: the address in status.urls, through the API server)")
	flags.StringVar(&s.serverCA, "server-ca", "", "`file` with the certificate authorities of a content service "+
		"that is called directly (default: those of this system)")
	flags.StringVar(&s.namespace, "catalogd-namespace", "catalogd-system", "`namespace` of catalogd, if no catalog names it")
}

func (s *Session) addUserExtra(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("write KEY=VALUE")
	}
	extra := &s.overrides.AuthInfo.ImpersonateUserExtra
	if *extra == nil {
		*extra = map[string][]string{}
	}
	(*extra)[key] = append((*extra)[key], value)
	return nil
}

// Validate checks the flags of all commands.
func (s *Session) Validate() error {
	if _, err := clientcmd.ParseTimeout(s.overrides.Timeout); err != nil {
		return exit.Usagef("--request-timeout %q: %w", s.overrides.Timeout, err)
	}
	return nil
}

// UserAgent returns the name of the plugin for HTTP requests.
func (s *Session) UserAgent() string { return "kubectl-catalog/" + s.Version }

// Config returns the configuration of clients of the API server.
func (s *Session) Config() (*rest.Config, error) {
	config, err := s.kubeconfig.ClientConfig()
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
func (s *Session) Client() (*kube.Client, error) {
	config, err := s.Config()
	if err != nil {
		return nil, err
	}
	return kube.New(config, Scheme)
}

// List reads the objects of a namespace, or of all if it is empty, from the API server.
func (s *Session) List(ctx context.Context, namespace string, list kube.List, opts metav1.ListOptions) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	return c.List(ctx, namespace, list, opts)
}

// Kubeconfig returns the kubeconfig.
func (s *Session) Kubeconfig() (clientcmdapi.Config, error) {
	return s.kubeconfig.RawConfig()
}

// Namespace returns the namespace of --namespace or of the kubeconfig's context.
func (s *Session) Namespace() (string, error) {
	namespace, _, err := s.kubeconfig.Namespace()
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
