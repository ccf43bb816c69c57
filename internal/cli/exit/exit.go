// Package exit maps errors to the exit codes of the plugin.
package exit

import (
	"context"
	"errors"
	"fmt"
)

// Exit codes.
const (
	OK          = 0
	Failure     = 1
	Usage       = 2   // the command line is invalid
	NotFound    = 3   // a named object does not exist
	Trouble     = 4   // a failure of a command whose exit code 1 is a result
	Interrupted = 130 // as in shells, for SIGINT
)

type (
	usageError    struct{ error }
	notFoundError struct{ error }
	silentError   struct{ error }
	troubleError  struct{ error }
)

func (e troubleError) Unwrap() error { return e.error }

// Usagef returns an error of the command line.
func Usagef(format string, args ...any) error { return AsUsage(fmt.Errorf(format, args...)) }

// AsUsage makes err an error of the command line.
func AsUsage(err error) error { return usageError{err} }

// IsUsage reports whether err is an error of the command line.
func IsUsage(err error) bool { return is[usageError](err) }

// NotFoundf returns the error of an object that does not exist.
func NotFoundf(format string, args ...any) error { return AsNotFound(fmt.Errorf(format, args...)) }

// AsNotFound makes err the error of an object that does not exist.
func AsNotFound(err error) error { return notFoundError{err} }

// IsNotFound reports whether err is the error of an object that does not exist.
func IsNotFound(err error) bool { return is[notFoundError](err) }

// Silent makes err an error that is not printed, because its text is already on the screen.
func Silent(err error) error { return silentError{err} }

// IsSilent reports whether err is not printed.
func IsSilent(err error) bool { return is[silentError](err) }

// AsTrouble marks a failure of a command whose exit code 1 is a result. The result itself is a silent error and stays as it is.
func AsTrouble(err error) error {
	if err == nil || IsSilent(err) {
		return err
	}
	return troubleError{err}
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// Code returns the exit code for err. started reports whether the command line was valid and the command began.
func Code(ctx context.Context, err error, started bool) int {
	switch {
	case err == nil:
		return OK
	case ctx.Err() != nil:
		return Interrupted
	case !started || IsUsage(err):
		return Usage
	case IsNotFound(err):
		return NotFound
	case is[troubleError](err):
		return Trouble
	}
	return Failure
}
