package system

import (
	"fmt"
	"net/http/httputil"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ForwardTo returns what passes requests on to the API server of a kubeconfig, as the user that this names: so whoever asks has the
// rights of that user.
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
		FlushInterval: -1, // watches tell of each event at once
	}, nil
}

// WriteKubeconfig writes how to reach an API server that asks for no credentials.
func WriteKubeconfig(file, server string) error {
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"e2e": {Server: server}},
		Contexts:       map[string]*clientcmdapi.Context{"e2e": {Cluster: "e2e"}},
		CurrentContext: "e2e",
	}, file)
}
