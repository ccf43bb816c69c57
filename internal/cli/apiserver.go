package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// misled says of a kubeconfig that cannot be used whether that is by what the command line names.
func (e *env) misled(err error) error {
	named := *e.kube.Context + *e.kube.ClusterName + *e.kube.AuthInfoName
	switch {
	case *e.kube.KubeConfig != "" && errors.Is(err, fs.ErrNotExist):
		return notFoundf("--kubeconfig: there is no file %q", *e.kube.KubeConfig)
	case named != "" && strings.Contains(err.Error(), "does not exist"): // client-go has no type for all of these
		return usagef("%w: kubectl config view shows what the kubeconfig has", err)
	}
	return err
}

// explain is explain, and knows which API server was asked, and why.
func (e *env) explain(err error) string {
	text := explain(err)
	server := e.apiServer.Load()
	if server == nil {
		return text
	}
	failed, lost := errors.AsType[*url.Error](err)
	if lost = lost && isAt(failed.URL, server); lost {
		text, _ = cmdutil.StandardErrorMessage(failed) // as kubectl has it
	}
	var status apierrors.APIStatus
	if (lost || errors.As(err, &status)) && server.Host == "localhost:8080" && e.namesNoServer() {
		return fmt.Sprintf("no kubeconfig says where the cluster is, so %s was asked: export KUBECONFIG=FILE, or give --kubeconfig FILE (%s)", server.Host, text)
	}
	return text
}

func isAt(asked string, server *url.URL) bool {
	u, err := url.Parse(asked)
	return err == nil && u.Host == server.Host
}

// namesNoServer tells whether neither the command line nor a kubeconfig names an API server.
func (e *env) namesNoServer() bool {
	config, err := e.kube.ToRawKubeConfigLoader().RawConfig()
	return err == nil && len(config.Clusters) == 0 && *e.kube.APIServer == ""
}

// selectorError says by which fields the API server selects, if it does not know the one that --field-selector names.
func selectorError(err error, known string) error {
	if err != nil && apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "field label not supported") {
		return usagef("--field-selector: %w; use %s", err, known)
	}
	return err
}
