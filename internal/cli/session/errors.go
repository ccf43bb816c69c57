package session

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	case apierrors.IsUnauthorized(err):
		return "authentication to the API server failed: log in again, or check --kubeconfig, --context and --token"
	}
	return err.Error()
}

// forbidden matches the API server's refusal of a verb on our kinds.
var forbidden = regexp.MustCompile(`cannot (\w+) resource "(?:catalogsources|operatorpackages)" in API group "` +
	regexp.QuoteMeta(v1beta1.GroupVersion.Group) + `"`)

// missingRole names the ClusterRole that allows a refused verb.
func missingRole(err error) string {
	found := forbidden.FindStringSubmatch(err.Error())
	switch {
	case found == nil:
		return ""
	case slices.Contains([]string{"get", "list", "watch"}, found[1]):
		return "; ask an administrator for a binding to the ClusterRole catalogd-packages-viewer"
	}
	return "; to change catalogs, ask an administrator for a binding to the ClusterRole catalogd-catalogs-editor"
}

// UnknownGroup is the error text for a cluster without catalogd's CRDs.
var UnknownGroup = fmt.Sprintf("the API server does not have the group %s: install catalogd, or check --context",
	v1beta1.GroupVersion.Group)

// isUnknownGroup reports whether the API server does not know our group, as opposed to an object. It sends that error as plain text.
func isUnknownGroup(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) ||
		!errors.As(err, &status) {
		return false
	}
	asked := status.Status().Details
	return asked.Group == v1beta1.GroupVersion.Group || asked.Kind == "" // empty for metadata, which we request of our group only
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
