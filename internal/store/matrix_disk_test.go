package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// lossyDisk is a model of a file system that keeps only synced changes through a crash. It sees every operation before
// it is done (Options.step), and decides from which one on none is done: then the process is as good as dead.
//
// It guarantees the minimum of POSIX, less than ext4 or XFS do: the content of a file as of its last sync; the entries
// of a directory as of its last sync, so either end of a rename between directories may survive without the other;
// nothing of a file or a directory that no durable directory has. A failed sync may have lost earlier writes for good
// (https://lwn.net/Articles/752063/).
type lossyDisk struct {
	dir     string                     // the real one, on which the process works
	stop    func(int, operation) error // asked for the error that operation i fails with, from 0; nil: it is done
	mu      sync.Mutex
	count   int // operations asked for so far
	root    *node
	pending []*change // made, and not durable yet
	written *node     // by the last operation, if that was a write
	before  int64     // the size of it before that
}

// node is a file or a directory.
type node struct {
	isDir   bool
	entries map[string]*node // of a directory, as the process sees it
	durable map[string]*node // and as it is after a crash

	data   []byte // of a file that is not durable as it is: what the process wrote
	synced []byte // what is durable of it
	dirty  bool
	lost   bool // a sync of it failed
}

// change is an entry of a directory that was created, removed, or both by a rename within it.
type change struct {
	dir       *node
	drop, add string
	node      *node   // to be found at add
	after     *change // of a rename between directories: what makes the entry that replaces the one to drop
	unit      string  // changes of one unit survive together: those in the stage, which is emptied anyway
}

func (c *change) apply(entries map[string]*node) {
	delete(entries, c.drop)
	if c.add != "" {
		entries[c.add] = c.node
	}
}

func newDir() *node {
	return &node{isDir: true, entries: map[string]*node{}, durable: map[string]*node{}}
}

// newLossyDisk returns a model in which the content of a directory is durable.
func newLossyDisk(t *testing.T, dir string) *lossyDisk {
	t.Helper()
	d := &lossyDisk{dir: dir, root: newDir(), stop: func(int, operation) error { return nil }}
	tree := readTree(t, dir)
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		n := &node{synced: tree[name]}
		if tree[name] == nil {
			n = newDir()
		}
		parent := d.root
		if up := path.Dir(name); up != "." {
			_, _, parent = d.find(up)
		}
		parent.entries[path.Base(name)] = n
		parent.durable[path.Base(name)] = n
	}
	return d
}

// find returns the position of a name; nothing if its directory is missing. It also records files that were created
// without an operation, such as unpacked ones.
func (d *lossyDisk) find(name string) (dir *node, base string, n *node) {
	dir, n = nil, d.root
	at := "."
	for _, base = range strings.Split(path.Clean(name), "/") {
		if base == "." {
			return nil, base, n
		}
		if n == nil || !n.isDir {
			return nil, base, nil
		}
		at = path.Join(at, base)
		dir, n = n, n.entries[base]
		if n == nil && isOutside(at) {
			n = d.takeNote(dir, at)
		}
	}
	return dir, base, n
}

// isOutside reports whether a name need not survive and is written without operations.
func isOutside(name string) bool {
	elem := strings.Split(name, "/")
	unpacked := len(elem) > 3 && elem[0] == stageDir && elem[2] == "files"
	return unpacked || name == lockFile || path.Dir(name) == refusedDir
}

func (d *lossyDisk) takeNote(dir *node, name string) *node {
	info, err := os.Lstat(filepath.Join(d.dir, name))
	if err != nil {
		return nil
	}
	n := &node{dirty: true}
	if info.IsDir() {
		n = newDir()
	}
	d.change(name, &change{dir: dir, add: path.Base(name), node: n})
	return n
}

// change applies a change to a name.
func (d *lossyDisk) change(name string, c *change) *change {
	if strings.HasPrefix(name, stageDir+"/") {
		c.unit = stageDir
	}
	c.apply(c.dir.entries)
	d.pending = append(d.pending, c)
	return c
}

// step is Options.step.
func (d *lossyDisk) step(op operation) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
	err := d.stop(d.count-1, op)
	if err == nil {
		d.written = nil
		d.do(op)
		return nil
	}
	if _, _, n := d.find(op.name); op.kind == opSync && n != nil && n.dirty {
		n.lost = true
	}
	return err
}

// do applies an operation to the model before it is done. An operation that will fail does nothing.
func (d *lossyDisk) do(op operation) {
	dir, base, n := d.find(op.name)
	switch op.kind {
	case opMkdir:
		if dir != nil && n == nil {
			d.change(op.name, &change{dir: dir, add: base, node: newDir()})
		}
	case opCreate:
		if dir != nil && n == nil {
			n = &node{}
			d.change(op.name, &change{dir: dir, add: base, node: n})
		}
		if n != nil {
			n.dirty, n.lost = true, false
		}
	case opWrite:
		if info, err := os.Stat(filepath.Join(d.dir, op.name)); n != nil && err == nil {
			n.dirty, d.written, d.before = true, n, info.Size()
		}
	case opSync:
		if n != nil && !n.lost {
			n.synced, n.dirty = d.read(op.name), false
		}
	case opRename:
		d.rename(dir, base, n, op)
	case opRemove:
		if n != nil && d.isEmpty(n, op.name) {
			d.keep(n, op.name)
			d.change(op.name, &change{dir: dir, drop: base})
		}
	case opSyncDir:
		d.syncDir(n)
	}
}

func (d *lossyDisk) rename(dir *node, base string, n *node, op operation) {
	toDir, toBase, target := d.find(op.to)
	if n == nil || toDir == nil || (target != nil && !d.isEmpty(target, op.to)) {
		return
	}
	if target != nil {
		d.keep(target, op.to)
	}
	if dir == toDir {
		d.change(op.name, &change{dir: dir, drop: base, add: toBase, node: n})
		return
	}
	made := d.change(op.to, &change{dir: toDir, add: toBase, node: n})
	d.change(op.name, &change{dir: dir, drop: base, after: made})
}

func (d *lossyDisk) syncDir(dir *node) {
	d.pending = slices.DeleteFunc(d.pending, func(c *change) bool {
		if c.dir == dir {
			c.apply(dir.durable)
		}
		return c.dir == dir
	})
}

// isEmpty reports whether a directory can be removed.
func (d *lossyDisk) isEmpty(n *node, name string) bool {
	entries, _ := os.ReadDir(filepath.Join(d.dir, name)) // of a file: none
	return len(n.entries) == 0 && len(entries) == 0
}

// keep stores the content of a file that loses its name: after a crash it may have the name again.
func (d *lossyDisk) keep(n *node, name string) {
	if !n.isDir && n.dirty {
		n.data = d.read(name)
	}
}

func (d *lossyDisk) read(name string) []byte {
	b, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		panic(err) // of a test's own directory
	}
	return append([]byte{}, b...)
}

// settle reads what the ended process wrote, and finds what it did without operations.
func (d *lossyDisk) settle() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	seen := map[string]bool{}
	errs = append(errs, filepath.WalkDir(d.dir, func(full string, e fs.DirEntry, err error) error {
		if err != nil || full == d.dir {
			return err
		}
		name, _ := filepath.Rel(d.dir, full)
		seen[name] = true
		_, _, n := d.find(name)
		switch {
		case n == nil || n.isDir != e.IsDir():
			errs = append(errs, fmt.Errorf("%s was made without asking", name))
		case n.dirty:
			n.data = d.read(name)
		case !n.isDir && !bytes.Equal(n.synced, d.read(name)):
			errs = append(errs, fmt.Errorf("%s was written without asking", name))
		}
		return nil
	}))
	for name := range treeOf(d.root, func(n *node) map[string]*node { return n.entries }, (*node).live) {
		if !seen[name] {
			errs = append(errs, fmt.Errorf("%s was removed without asking", name))
		}
	}
	return errors.Join(errs...)
}
