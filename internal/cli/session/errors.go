package session

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

// explain adds the remedy to an error of the API server.
func explain(err error) string {
	switch {
	case exit.IsUsage(err):
		return err.Error()
	case IsRefused(err):
		return Refusal(err)
	case apierrors.IsForbidden(err):
		return err.Error() + missingRole(err)
	case isUnknownGroup(err):
		return UnknownGroup
	case isUnknownKind(err, olmv1.GroupName):
		return "the cluster has no ClusterCatalogs: create their CRD (kubectl create -k config/crd/olmv1), or install OLM v1"
	case apierrors.IsUnauthorized(err):
		return "authentication to the API server failed: log in again, or check --kubeconfig, --context and --token"
	}
	return err.Error()
}

// forbidden matches the API server's refusal of a verb on our kinds.
var forbidden = regexp.MustCompile(`cannot (\w+) resource "(?:(?:catalogsources|operatorpackages)" in API group "` +
	regexp.QuoteMeta(v1beta1.GroupName) + `|(clustercatalogs)" in API group "` + regexp.QuoteMeta(olmv1.GroupName) + `)"`)

// missingRole names the ClusterRole that allows a refused verb.
func missingRole(err error) string {
	found := forbidden.FindStringSubmatch(err.Error())
	if found == nil {
		return ""
	}
	viewer, editor := "catalogd-packages-viewer", "catalogd-catalogs-editor"
	if found[2] != "" {
		viewer, editor = "catalogd-cluster-catalogs-viewer", "catalogd-cluster-catalogs-editor"
	}
	if slices.Contains([]string{"get", "list", "watch"}, found[1]) {
		return "; ask an administrator for a binding to the ClusterRole " + viewer
	}
	return "; to change catalogs, ask an administrator for a binding to the ClusterRole " + editor
}

// UnknownGroup is the error text for a cluster without catalogd's CRDs.
var UnknownGroup = fmt.Sprintf("the API server does not have the group %s: install catalogd, or check --context",
	v1beta1.GroupVersion.Group)

// isUnknownGroup reports whether the API server does not know our group, as opposed to an object.
func isUnknownGroup(err error) bool { return isUnknownKind(err, v1beta1.GroupVersion.Group) }

// isUnknownKind reports whether the API server does not know the kind that was requested of a group, as opposed to an object. It sends that
// error as plain text.
func isUnknownKind(err error, group string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) ||
		!errors.As(err, &status) {
		return false
	}
	asked := status.Status().Details
	return asked.Group == group || asked.Kind == "" && group == v1beta1.GroupVersion.Group // empty for metadata, of our group only
}

// IsRefused reports whether the API server refused an object as invalid.
func IsRefused(err error) bool {
	return apierrors.IsInvalid(err) || strings.Contains(err.Error(), denied)
}

// denied precedes the message of an admission policy or webhook.
const denied = "denied request: "

// givenValue matches the prefix that the API server adds to the message of a validation rule: the invalid value as JSON, if
// it is short.
var givenValue = regexp.MustCompile(`^Invalid value: (?:"(?:[^"\\]|\\.)*": |\{.*?\}: |[a-z0-9.]+: )?`)

// Refusal returns the messages of the rules that an object violates. Those of our rules name the field and the remedy.
func Refusal(err error) string {
	if _, message, ok := strings.Cut(err.Error(), denied); ok {
		return message
	}
	var messages []string
	for _, cause := range causes(err) {
		if strings.Contains(cause.Message, "some validation rules were not checked") {
			continue
		}
		message := givenValue.ReplaceAllString(cause.Message, "")
		field := cause.Field[strings.LastIndexByte(cause.Field, '.')+1:]
		if field != "<nil>" && field != "spec" && !strings.Contains(message, field) {
			message = cause.Field + ": " + message
		}
		messages = append(messages, message)
	}
	if len(messages) == 0 {
		return err.Error()
	}
	return strings.Join(messages, "; ")
}

func causes(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}

// CatalogError makes the API server's and the content service's errors about a missing catalog errors of package exit. A precondition on
// the UID that fails means that the catalog is another object now.
func CatalogError(err error, catalog string) error {
	isUID := func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" }
	switch {
	case apierrors.IsInvalid(err) && slices.ContainsFunc(causes(err), isUID):
		return Recreated(catalog)
	case apierrors.IsNotFound(err) && !isUnknownGroup(err):
		return exit.NotFoundf("catalog %q not found; kubectl catalog list shows all catalogs", catalog)
	case content.IsNotFound(err):
		return exit.AsNotFound(err)
	}
	return err
}

// A RecreatedError is the error of a catalog that is another object now.
type RecreatedError struct{ error }

// Recreated returns the error of a catalog that is another object now.
func Recreated(catalog string) error {
	return RecreatedError{fmt.Errorf("catalog %q was deleted and recreated during the request", catalog)}
}

// kubeconfigError makes an unusable kubeconfig a usage error if a flag caused it.
func (s *Session) kubeconfigError(err error) error {
	named := s.overrides.CurrentContext + s.overrides.Context.Cluster + s.overrides.Context.AuthInfo
	switch {
	case s.loading.ExplicitPath != "" && errors.Is(err, fs.ErrNotExist):
		return exit.NotFoundf("--kubeconfig: file %q not found", s.loading.ExplicitPath)
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
		text = fmt.Sprintf("connecting to the API server at %s: %v; check --kubeconfig, --context and --server", server.Host, failed.Err)
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
	return err == nil && len(config.Clusters) == 0 && s.overrides.ClusterInfo.Server == ""
}

// SelectorError makes the API server's error about an unknown field of --field-selector a usage error that lists the valid fields.
func SelectorError(err error, valid string) error {
	if err != nil && apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "field label not supported") {
		return exit.Usagef("--field-selector: %w; valid fields are %s", err, valid)
	}
	return err
}
