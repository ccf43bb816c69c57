package catalogimage

import (
	"crypto/rand"
	"os"
	"path/filepath"
)

// deleteOnClose is FILE_FLAG_DELETE_ON_CLOSE of CreateFile, which os.OpenFile passes on. Windows cannot remove
// open files.
const deleteOnClose = 0x04000000

// TempFile returns a file that is deleted when it is closed or the process ends.
func TempFile() (*os.File, error) {
	name := filepath.Join(os.TempDir(), "kubectl-catalog-"+rand.Text())
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|deleteOnClose, 0o600)
}
