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
	var status apierrors.APIStatus
	failed, lost := errors.AsType[*url.Error](err)
	if lost = lost && e.isAPIServer(failed.URL); lost {
		text, _ = cmdutil.StandardErrorMessage(failed) // as kubectl has it
	}
	if (lost || errors.As(err, &status)) && e.isByDefault() {
		return fmt.Sprintf("no kubeconfig says where the cluster is, so %s was asked: export KUBECONFIG=FILE, or give --kubeconfig FILE (%s)", e.apiServer.Host, text)
	}
	return text
}

func (e *env) isAPIServer(asked string) bool {
	u, err := url.Parse(asked)
	return err == nil && e.apiServer != nil && u.Host == e.apiServer.Host
}

// isByDefault tells whether the API server was asked that is for want of another.
func (e *env) isByDefault() bool {
	config, err := e.kube.ToRawKubeConfigLoader().RawConfig()
	return err == nil && len(config.Clusters) == 0 && *e.kube.APIServer == "" && e.apiServer != nil && e.apiServer.Host == "localhost:8080"
}

// selectorError says what is wrong with --selector or --field-selector, if that is what the API server does not understand. It selects by fields.
func selectorError(err error, fields string) error {
	switch {
	case err == nil || !apierrors.IsBadRequest(err):
		return err
	case strings.Contains(err.Error(), "field label not supported"):
		return usagef("--field-selector: %w; use %s", err, fields)
	case strings.Contains(err.Error(), "invalid selector"):
		return usagef("--field-selector: %w", err)
	}
	return usagef("--selector: %w", err)
}
