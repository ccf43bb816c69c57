package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
)

// Exit codes of the plugin.
const (
	exitDone     = 0
	exitFailure  = 1
	exitUsage    = 2 // the command line is wrong
	exitNotFound = 3 // what was asked for does not exist
	exitTrouble  = 4 // failure, where 1 is an answer

	exitInterrupted = 130 // as shells have it for SIGINT
)

// A usageError says what is wrong with the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// A notFoundError says that what was asked for does not exist.
type notFoundError struct{ error }

func notFoundf(format string, args ...any) error {
	return notFoundError{fmt.Errorf(format, args...)}
}

// A silentError is an exit code and no more: what there is to say was said.
type silentError struct{ error }

// A troubleError is a failure of a command whose exit code 1 is an answer.
type troubleError struct{ error }

func (e troubleError) Unwrap() error { return e.error }

// inTrouble tells failures from the answer, which is silent, for such a command. Others have exit codes of their own.
func inTrouble(err error) error {
	var silent silentError
	if err == nil || errors.As(err, &silent) {
		return err
	}
	return troubleError{err}
}

// exitCode is that of a command that ended with err. started tells whether the command began, or the command line was wrong already.
func exitCode(ctx context.Context, err error, started bool) int {
	var usage usageError
	var notFound notFoundError
	var trouble troubleError
	switch {
	case err == nil:
		return exitDone
	case ctx.Err() != nil:
		return exitInterrupted
	case !started || errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &notFound):
		return exitNotFound
	case errors.As(err, &trouble):
		return exitTrouble
	}
	return exitFailure
}

// explain adds to an error of a library what a person can do about it.
func explain(err error) string {
	var usage usageError
	switch {
	case errors.As(err, &usage):
		return err.Error()
	case isRefused(err):
		return refusal(err)
	case apierrors.IsForbidden(err):
		return err.Error() + missingRole(err)
	case isNoGroup(err):
		return noGroup
	case apierrors.IsUnauthorized(err):
		return "the API server does not know who you are: log in again, or see --kubeconfig, --context and --token"
	}
	return err.Error()
}

// forbidden matches what the API server says that somebody may not do to objects of our group.
var forbidden = regexp.MustCompile(`cannot (\w+) resource "(?:catalogsources|operatorpackages)" in API group "` + regexp.QuoteMeta(v1beta1.GroupVersion.Group) + `"`)

// missingRole says which role somebody lacks.
func missingRole(err error) string {
	found := forbidden.FindStringSubmatch(err.Error())
	switch {
	case found == nil:
		return ""
	case slices.Contains([]string{"get", "list", "watch"}, found[1]):
		return "; an admin can bind the ClusterRole catalogd-packages-viewer to you"
	}
	return "; to change catalogs needs create, patch and delete on catalogsources: an admin can bind the ClusterRole catalogd-catalogs-editor to you"
}

// noGroup is said of a cluster without catalogd's CRDs.
var noGroup = fmt.Sprintf("the API server knows no group %s: install catalogd, or another --context is meant", v1beta1.GroupVersion.Group)

// isNoGroup tells that the API server does not know our group from that an object does not exist: the former it says in plain text.
func isNoGroup(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) || !errors.As(err, &status) {
		return false
	}
	asked := status.Status().Details
	return asked.Group == v1beta1.GroupVersion.Group || asked.Kind == "" // as it is where only metadata is asked for, which we do of our group alone
}

// isRefused tells whether the API server says what is wrong with an object.
func isRefused(err error) bool {
	return apierrors.IsInvalid(err) || strings.Contains(err.Error(), denied)
}

// denied stands before the sentence of an admission policy or webhook.
const denied = "denied request: "

// givenValue matches what the API server puts before the sentence of a rule: the value at fault, as JSON, if it is short.
var givenValue = regexp.MustCompile(`^Invalid value: (?:"(?:[^"\\]|\\.)*": |\{.*?\}: |[a-z0-9.]+: )?`)

// refusal is what the API server says is wrong with an object, in the words of the rules, of which ours name the field and what to do.
func refusal(err error) string {
	if _, sentence, ok := strings.Cut(err.Error(), denied); ok {
		return sentence
	}
	var sentences []string
	for _, cause := range causes(err) {
		if strings.Contains(cause.Message, "some validation rules were not checked") {
			continue
		}
		sentence := givenValue.ReplaceAllString(cause.Message, "")
		if field := cause.Field[strings.LastIndexByte(cause.Field, '.')+1:]; field != "<nil>" && field != "spec" && !strings.Contains(sentence, field) {
			sentence = cause.Field + ": " + sentence
		}
		sentences = append(sentences, sentence)
	}
	if len(sentences) == 0 {
		return err.Error()
	}
	return strings.Join(sentences, "; ")
}

// causes are what the API server says is wrong with fields of an object.
func causes(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}

// missing tells a catalog that does not exist from other errors.
func missing(err error, catalog string) error {
	if apierrors.IsNotFound(err) && !isNoGroup(err) {
		return notFoundf("there is no catalog %q: kubectl catalog list shows those there are", catalog)
	}
	if content.IsNotFound(err) {
		return notFoundError{err}
	}
	return err
}
