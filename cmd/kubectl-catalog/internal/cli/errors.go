package cli

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/operator-catalogs/catalogd/cmd/kubectl-catalog/internal/content"
)

// Exit codes of the plugin.
const (
	exitDone     = 0
	exitFailure  = 1
	exitUsage    = 2 // the command line is wrong
	exitNotFound = 3 // what was asked for does not exist
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

// exitCode is that of a command that ended with err. started tells whether the command began, or the command line was wrong already.
func exitCode(ctx context.Context, err error, started bool) int {
	var usage usageError
	var notFound notFoundError
	switch {
	case err == nil:
		return exitDone
	case ctx.Err() != nil:
		return exitFailure
	case !started || errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &notFound):
		return exitNotFound
	}
	return exitFailure
}

// explain adds to an error of a library what a person can do about it.
func explain(err error) string {
	var usage usageError
	switch {
	case errors.As(err, &usage):
		return err.Error()
	case apierrors.IsForbidden(err):
		return err.Error() + "; an admin can bind the ClusterRole catalogd-cli-user to you"
	case apierrors.IsUnauthorized(err):
		return "the API server does not know who you are: log in again, or see --kubeconfig, --context and --token"
	}
	return err.Error()
}

// missing tells a catalog that does not exist from other errors.
func missing(err error, catalog string) error {
	if apierrors.IsNotFound(err) {
		return notFoundf("there is no catalog %q: kubectl catalog list shows those there are", catalog)
	}
	if content.IsNotFound(err) {
		return notFoundError{err}
	}
	return err
}
