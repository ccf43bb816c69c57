//go:build !windows

package catalogimage

import "os"

// TempFile returns a file without a name. It is deleted when it is closed or the process ends.
func TempFile() (*os.File, error) {
	file, err := os.CreateTemp("", "kubectl-catalog-")
	if err != nil {
		return nil, err
	}
	return file, os.Remove(file.Name())
}
