//go:build !windows

package catalogimage

import "os"

// TempFile returns a file that is gone once it is closed, or the program ends in whatever way: it has no name any more.
func TempFile() (*os.File, error) {
	file, err := os.CreateTemp("", "kubectl-catalog-")
	if err != nil {
		return nil, err
	}
	return file, os.Remove(file.Name())
}
