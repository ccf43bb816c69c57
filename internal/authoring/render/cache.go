package render

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// version changes whenever the same image renders differently, so that old files of the cache are not read. It names the
// operator-registry that reads the manifests.
const version = "1 operator-registry v1.72.0"

// maxAge is how long an unused file of the cache is kept.
const maxAge = 30 * 24 * time.Hour

// DefaultCache returns the directory of the cache: kubectl-catalog/bundles in the cache directory of the user, or "" if there is none.
func DefaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "kubectl-catalog", "bundles")
}

// cache keeps the manifests of images by digest. It is an optimization: its failures are ignored, and a damaged file is not read.
type cache struct{ dir string }

// cached is a file of the cache.
type cached struct {
	Sum       [sha256.Size]byte // of Manifests
	Manifests json.RawMessage
}

func (c cache) path(digest string) string {
	return filepath.Join(c.dir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(version+" "+digest))))
}

func (c cache) get(digest string) (*manifests, bool) {
	if c.dir == "" {
		return nil, false
	}
	data, err := os.ReadFile(c.path(digest))
	if err != nil {
		return nil, false
	}
	var file cached
	var m manifests
	if json.Unmarshal(data, &file) != nil || sha256.Sum256(file.Manifests) != file.Sum || json.Unmarshal(file.Manifests, &m) != nil {
		return nil, false
	}
	now := time.Now()
	_ = os.Chtimes(c.path(digest), now, now)
	return &m, true
}

// put writes a file beside its place, and renames it: readers see all of it or nothing.
func (c cache) put(digest string, m *manifests) {
	if c.dir == "" || os.MkdirAll(c.dir, 0o700) != nil {
		return
	}
	text, err := json.Marshal(m)
	if err != nil {
		return
	}
	data, err := json.Marshal(cached{sha256.Sum256(text), text})
	if err != nil {
		return
	}
	file, err := os.CreateTemp(c.dir, "new-")
	if err != nil {
		return
	}
	_, err = file.Write(data)
	if closed := file.Close(); err != nil || closed != nil || os.Rename(file.Name(), c.path(digest)) != nil {
		_ = os.Remove(file.Name())
	}
}

// prune removes the files that have not been used for 30 days.
func (c cache) prune() {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > maxAge {
			_ = os.Remove(filepath.Join(c.dir, entry.Name()))
		}
	}
}
