package system

import (
	"fmt"
	"net/http/httputil"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ForwardTo returns a handler that forwards requests to the API server of a kubeconfig, with the rights of its
// user.
func ForwardTo(kubeconfig string) (*httputil.ReverseProxy, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches send each event immediately
	}, nil
}

// WriteKubeconfig writes the kubeconfig of an API server that needs no credentials.
func WriteKubeconfig(file, server string) error {
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"e2e": {Server: server}},
		Contexts:       map[string]*clientcmdapi.Context{"e2e": {Cluster: "e2e"}},
		CurrentContext: "e2e",
	}, file)
}
