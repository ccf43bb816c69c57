package store

import (
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// world is a state in which the next process can find the volume.
type world struct {
	name string
	tree diskTree
}

// worlds returns the states that a crash at this point can leave: all subsets of a few changes, else those that a
// journal leaves, and those without or with only one of them.
func (d *lossyDisk) worlds() []world {
	var out []world
	units := d.units()
	n := len(units)
	add := func(changes string, survives func(unit int) bool, files ...string) {
		entries := d.entries(func(c *change) bool { return survives(slices.Index(units, c.unitName())) })
		for _, f := range files {
			out = append(out, world{changes + ", files " + f, treeOf(d.root, entries, contents()[f])})
		}
	}
	add("all changes are durable", func(int) bool { return true }, "written", "not written", "half written", "zeros")
	add("only synced changes are durable", func(int) bool { return false }, "not written", "written", "half written", "zeros")
	if n <= 4 {
		for set := 1; set < 1<<n-1; set++ {
			add(fmt.Sprintf("the changes %0*b are durable", n, set), func(i int) bool { return set&(1<<(n-1-i)) != 0 }, "written", "not written")
		}
	} else {
		for k := range n {
			add(fmt.Sprintf("the first %d changes of %d are durable", k, n), func(i int) bool { return i < k }, "written", "not written")
			add(fmt.Sprintf("change %d of %d alone is durable", k, n), func(i int) bool { return i == k }, "written", "not written")
			add(fmt.Sprintf("all but change %d of %d are durable", k, n), func(i int) bool { return i != k }, "written", "not written")
		}
	}
	if n := d.written; n != nil && n.dirty && int64(len(n.data)) > d.before {
		whole := n.data
		n.data = whole[:(d.before+int64(len(whole)))/2]
		add("all changes are durable, the last write is torn", func(int) bool { return true }, "written")
		n.data = whole
	}
	return out
}

// contents returns the possible contents of files that were not synced.
func contents() map[string]func(*node) []byte {
	return map[string]func(*node) []byte{
		"written":     (*node).live,
		"not written": func(n *node) []byte { return n.synced },
		"half written": func(n *node) []byte {
			if !n.dirty {
				return n.synced
			}
			return n.data[:len(n.data)/2]
		},
		"zeros": func(n *node) []byte { // as file systems leave that make a file longer before they write to it
			if !n.dirty {
				return n.synced
			}
			return make([]byte, len(n.data))
		},
	}
}

// live returns the content of a file as the process sees it.
func (n *node) live() []byte {
	if n.dirty {
		return n.data
	}
	return n.synced
}

func (c *change) unitName() string {
	if c.unit != "" {
		return c.unit
	}
	return fmt.Sprintf("%p", c)
}

// units returns the changes that survive or not, by name, in the order in which they were made.
func (d *lossyDisk) units() []string {
	var out []string
	for _, c := range d.pending {
		if unit := c.unitName(); !slices.Contains(out, unit) {
			out = append(out, unit)
		}
	}
	return out
}

// entries returns those of each directory if some of the pending changes survive. A rename between directories can
// lose both names only if the removal of the old one is durable.
func (d *lossyDisk) entries(survives func(*change) bool) func(*node) map[string]*node {
	pending := map[*change]bool{} // and whether it survives
	for _, c := range d.pending {
		pending[c] = survives(c)
	}
	changed := map[*node]map[string]*node{}
	for _, c := range d.pending {
		made, found := pending[c.after]
		if !pending[c] || found && !made {
			continue
		}
		if changed[c.dir] == nil {
			changed[c.dir] = maps.Clone(c.dir.durable)
		}
		c.apply(changed[c.dir])
	}
	return func(dir *node) map[string]*node {
		if entries, ok := changed[dir]; ok {
			return entries
		}
		return dir.durable
	}
}

// diskTree is the content of a directory by path: that of files, nil for directories.
type diskTree map[string][]byte

func treeOf(root *node, entries func(*node) map[string]*node, content func(*node) []byte) diskTree {
	out := diskTree{}
	var walk func(*node, string)
	walk = func(dir *node, at string) {
		for base, n := range entries(dir) {
			name := path.Join(at, base)
			out[name] = nil
			if n.isDir {
				walk(n, name)
			} else if out[name] = content(n); out[name] == nil {
				out[name] = []byte{}
			}
		}
	}
	walk(root, "")
	return out
}

func readTree(t *testing.T, dir string) diskTree {
	t.Helper()
	out := diskTree{}
	must.Succeed(t, filepath.WalkDir(dir, func(full string, e fs.DirEntry, err error) error {
		if err != nil || full == dir {
			return err
		}
		name, err := filepath.Rel(dir, full)
		if err != nil {
			return err
		}
		out[name] = nil
		if !e.IsDir() {
			b, err := os.ReadFile(full)
			if err != nil {
				return err
			}
			out[name] = append([]byte{}, b...)
		}
		return nil
	}))
	return out
}

// put creates a directory from a tree.
func (tr diskTree) put(t *testing.T, dir string) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(dir, 0o755))
	for _, name := range slices.Sorted(maps.Keys(tr)) {
		if full := filepath.Join(dir, name); tr[name] == nil {
			must.Succeed(t, os.Mkdir(full, 0o755))
		} else {
			must.Succeed(t, os.WriteFile(full, tr[name], 0o644))
		}
	}
}

// sum is equal for equal trees, ignoring the content of files in the stage, which are never read again.
func (tr diskTree) sum(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, name := range slices.Sorted(maps.Keys(tr)) {
		content := tr[name]
		if strings.HasPrefix(name, stageDir+"/") {
			content = content[:0]
		}
		fmt.Fprintf(&h, "%s %t %d\n", name, tr[name] == nil, len(content))
		_, _ = h.Write(content) // never fails
	}
	return h.Sum64()
}
