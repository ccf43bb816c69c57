//go:build unix

package ui

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/operator-catalogs/catalogd/internal/catalogimage"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/serve"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// Intervals of following a directory.
const (
	pollInterval = time.Second
	maxQueries   = 64 // concurrent queries
)

// directory is a catalog in files. The code of the daemon stores and serves it, so the page is the same as on a cluster.
type directory struct {
	session *session.Session
	from    string
	catalog string // its name
	temp    string
	store   *store.Store
	api     http.Handler           // the content service
	state   string                 // of the files when they were last read
	failure atomic.Pointer[string] // of the last read; nil: none
	done    chan struct{}
	ended   chan struct{}
}

// openDirectory reads a directory or file.
func openDirectory(ctx context.Context, s *session.Session, from string) (_ *directory, err error) {
	absolute, err := filepath.Abs(from)
	if err == nil {
		_, err = os.Stat(absolute)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.NotFoundf("directory or file %s not found", from)
	}
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "kubectl-catalog-ui-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for the page: %w", err)
	}
	d := &directory{session: s, from: from, catalog: catalogName(absolute), temp: temp, done: make(chan struct{}), ended: make(chan struct{})}
	defer func() {
		if err != nil {
			close(d.ended) // nothing follows it
			err = errors.Join(err, d.close())
		}
	}()
	log := logger(s)
	if d.store, err = store.Open(temp, store.Options{Logger: log, CacheBytes: 64 << 20, Grace: time.Minute}); err != nil {
		return nil, fmt.Errorf("preparing the page: %w", err)
	}
	d.api = serve.New(serve.Config{
		Catalogs: d.store, Limits: limit.New(maxQueries), Version: s.Version, Done: d.done, Logger: log,
		Polls:    func(string) (last, next time.Time) { return last, next },
		Priority: func(string) int32 { return 0 },
		Awaited:  func(string) serve.Awaited { return serve.Awaited{} },
		Expected: func() []string { return nil },
	})
	if d.state, err = d.fingerprint(); err == nil {
		err = d.read(ctx)
	}
	if info, statErr := os.Stat(filepath.Join(absolute, "configs")); err != nil && statErr == nil && info.IsDir() {
		err = fmt.Errorf("%w; if the catalog is in a subdirectory, use %s", err, filepath.Join(from, "configs"))
	}
	return d, err
}

func (d *directory) close() error {
	close(d.done)
	<-d.ended
	var err error
	if d.store != nil {
		err = d.store.Close()
	}
	return errors.Join(err, os.RemoveAll(d.temp))
}

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// catalogName returns a valid catalog name for a path. Directories of catalogs are usually called "configs"; for these, it uses the
// name of the parent.
func catalogName(absolute string) string {
	base := filepath.Base(absolute)
	if parent := filepath.Base(filepath.Dir(absolute)); base == "configs" && parent != base {
		base = parent
	}
	const longest = 50
	base = strings.Trim(notInName.ReplaceAllString(strings.ToLower(base), "-"), "-")
	return strings.Trim("preview-"+base[:min(len(base), longest)], "-")
}

// files opens the files, as kubectl catalog push does.
func (d *directory) files() (*os.Root, fs.FS, error) { return catalogimage.Open(d.from) }

// read stores and serves the current content of the files.
func (d *directory) read(ctx context.Context) (err error) {
	root, files, err := d.files()
	if err != nil {
		return err
	}
	defer root.Close()
	stage, err := d.store.Stage(d.catalog, d.from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.Discard()) }()
	sum := sha256.New()
	if err := copyFiles(stage.Root(), files, sum); err != nil {
		return fmt.Errorf("reading %s: %w", d.from, err)
	}
	digest := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	if _, err := stage.Commit(ctx, store.Source{Image: d.from, Digest: digest}); err != nil {
		return fmt.Errorf("reading %s: %w; kubectl catalog lint %[1]s reports all errors", d.from, err)
	}
	return d.store.Sweep()
}

// copyFiles copies files, and hashes their names and content.
func copyFiles(to *os.Root, files fs.FS, sum io.Writer) error {
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case entry.IsDir():
			return to.Mkdir(name, 0o700)
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s %s", name, catalogimage.UnsupportedType(entry.Type()))
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d ", path.Clean(name), len(content))
		_, _ = sum.Write(content) // of a hash: never fails
		return to.WriteFile(name, content, 0o600)
	})
}

// fingerprint returns the names, sizes and modification times of the files.
func (d *directory) fingerprint() (string, error) {
	root, files, err := d.files()
	if err != nil {
		return "", err
	}
	defer root.Close()
	var b strings.Builder
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			fmt.Fprintf(&b, "%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	return b.String(), err
}

// follow reads the files again when they change, until close. While they are invalid, the page shows the previous content.
func (d *directory) follow(ctx context.Context) {
	defer close(d.ended)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-d.done:
			return
		case <-ctx.Done():
			return
		case <-ticker.C:
			d.refresh(ctx)
		}
	}
}

// problem returns the error of the last read; "" if it succeeded.
func (d *directory) problem() string {
	if text := d.failure.Load(); text != nil {
		return *text
	}
	return ""
}

func (d *directory) refresh(ctx context.Context) {
	state, err := d.fingerprint()
	if err != nil { // read returns it too, unless a file was just removed
		state = err.Error()
	}
	if state == d.state {
		return
	}
	d.state = state
	err = d.read(ctx)
	if ctx.Err() != nil { // the command ends
		return
	}
	if err != nil {
		text := err.Error()
		d.failure.Store(&text)
		d.session.Stderr.Warnf("%v; the page shows the previous content", err)
		return
	}
	d.failure.Store(nil)
	fmt.Fprintf(d.session.Stderr, "%s changed; the page shows the new content\n", d.from)
}
