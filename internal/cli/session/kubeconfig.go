package session

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

// kubeconfigError makes an unusable kubeconfig a usage error if a flag caused it.
func (s *Session) kubeconfigError(err error) error {
	named := *s.kube.Context + *s.kube.ClusterName + *s.kube.AuthInfoName
	switch {
	case *s.kube.KubeConfig != "" && errors.Is(err, fs.ErrNotExist):
		return exit.NotFoundf("--kubeconfig: file %q not found", *s.kube.KubeConfig)
	case named != "" && strings.Contains(err.Error(), "does not exist"): // client-go has no type for all of these
		return exit.Usagef("%w: see kubectl config view", err)
	}
	return err
}

// Explain returns the text of an error, with the remedy if a library's error has none.
func (s *Session) Explain(err error) string {
	text := explain(err)
	server := s.apiServer.Load()
	if server == nil {
		return text
	}
	failed, unreachable := errors.AsType[*url.Error](err)
	if unreachable = unreachable && isAt(failed.URL, server); unreachable {
		text, _ = cmdutil.StandardErrorMessage(failed) // kubectl's sentence
	}
	var status apierrors.APIStatus
	if (unreachable || errors.As(err, &status)) && server.Host == "localhost:8080" && s.hasNoServer() {
		return fmt.Sprintf("no kubeconfig found, so %s was tried: set KUBECONFIG or --kubeconfig (%s)", server.Host, text)
	}
	return text
}

func isAt(address string, server *url.URL) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host == server.Host
}

// hasNoServer reports whether neither a flag nor a kubeconfig names an API server.
func (s *Session) hasNoServer() bool {
	config, err := s.Kubeconfig()
	return err == nil && len(config.Clusters) == 0 && *s.kube.APIServer == ""
}

// SelectorError makes the API server's error about an unknown field of --field-selector a usage error that lists the valid fields.
func SelectorError(err error, valid string) error {
	if err != nil && apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "field label not supported") {
		return exit.Usagef("--field-selector: %w; valid fields are %s", err, valid)
	}
	return err
}
