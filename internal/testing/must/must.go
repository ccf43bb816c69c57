// Package must ends a test at an unexpected error.
package must

import "testing"

// Succeed fails the test if err is not nil.
func Succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
