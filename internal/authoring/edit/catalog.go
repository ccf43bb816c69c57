// Package edit changes file-based catalogs as text. What an edit does not concern stays, byte for byte: comments, the order of
// keys, unknown fields, numbers. All changes are made in memory and then written together.
package edit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/authoring/export"
	"github.com/operator-catalogs/catalogd/internal/catalogimage"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/fbc/splice"
)

// maxObject limits a document of a catalog in bytes.
const maxObject = scan.DefaultMaxBlobBytes

// Catalog is a catalog in memory, or the entries of a template.
type Catalog struct {
	root     *os.Root
	files    []*file           // in the order of the catalog
	rendered map[string][]byte // bundles of a template, by image
	template string            // its schema; empty for a catalog
	single   bool              // whether it is a file instead of a directory
}

// file is a file of a catalog.
type file struct {
	name         string
	catalog      *Catalog
	before, text []byte // before is nil for a new file
	isJSON       bool
	docs         []*doc
}

// doc is a document of a file, or an entry of a template: a blob with its place.
type doc struct {
	scan.Blob
	file       *file
	start, end int           // in YAML with the separator before it, and all that follows up to the next one
	list       *splice.Value // the entries of the template, and the place among them
	at         int
}

// Change is a change of a file. Before is nil if it is new, and After if it is removed.
type Change struct {
	File          string
	Before, After []byte
}

// Open reads a directory or a file. The caller must call Close.
func Open(ref string) (*Catalog, error) {
	root, files, err := catalogimage.Open(ref)
	if err != nil {
		return nil, err
	}
	c := &Catalog{root: root}
	if info, err := os.Stat(ref); err == nil {
		c.single = info.Mode().IsRegular()
	}
	if err := c.read(files); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if err := c.detectTemplate(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", ref, err), root.Close())
	}
	return c, nil
}

// Close frees the catalog. It writes nothing.
func (c *Catalog) Close() error { return c.root.Close() }

func (c *Catalog) read(files fs.FS) error {
	names, err := scan.Files(files)
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		f := &file{name: name, catalog: c, before: text}
		if err := f.set(text); err != nil {
			return err
		}
		c.files = append(c.files, f)
	}
	return nil
}

// set replaces the text of a file.
func (f *file) set(text []byte) error {
	f.text, f.docs = text, nil
	begin := bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), " \t\r\n")
	f.isJSON = bytes.HasPrefix(begin, []byte("{"))
	var err error
	if f.isJSON {
		err = f.readJSON()
	}
	if !f.isJSON || err != nil && path.Ext(f.name) != ".json" { // YAML can begin with a bracket too
		f.docs, f.isJSON = nil, false
		err = f.readYAML()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

func (f *file) add(compact []byte, start, end int) error {
	blob, err := scan.ParseBlob(bytes.Clone(compact))
	if err != nil {
		return err
	}
	d := &doc{Blob: blob, file: f, start: start, end: end}
	if f.catalog != nil && f.catalog.template != "" && blob.Schema == f.catalog.template {
		return f.addTemplate(d)
	}
	f.docs = append(f.docs, d)
	return nil
}

func (f *file) readJSON() error {
	base := len(f.text) - len(bytes.TrimPrefix(f.text, []byte("\xef\xbb\xbf")))
	dec := json.NewDecoder(bytes.NewReader(f.text[base:]))
	for {
		var raw json.RawMessage
		if err := dec.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("it is not JSON: %w; kubectl catalog lint shows the line", err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			return err
		}
		end := base + int(dec.InputOffset())
		if err := f.add(compact.Bytes(), end-len(raw), end); err != nil {
			return err
		}
	}
}

func (f *file) readYAML() error {
	for start := 0; start < len(f.text); {
		end := nextSeparator(f.text, start)
		objects := 0
		err := scan.Objects(f.text[start:end], maxObject, func(compact []byte) error {
			objects++
			return f.add(compact, start, end)
		})
		if err == nil && objects > 1 {
			err = splice.ErrUnsupported
		}
		if err != nil {
			return fmt.Errorf("document at line %d: %w", 1+bytes.Count(f.text[:start], []byte("\n")), err)
		}
		start = end
	}
	return nil
}

// nextSeparator returns the place of the next document of YAML behind the one that begins at start.
func nextSeparator(text []byte, start int) int {
	for at := splice.LineEnd(text, start) + 1; at < len(text); at = splice.LineEnd(text, at) + 1 {
		line := text[at:splice.LineEnd(text, at)]
		if bytes.HasPrefix(line, []byte("---")) && (len(line) == 3 || line[3] == ' ' || line[3] == '\t' || line[3] == '\r') {
			return at
		}
	}
	return len(text)
}

// docs returns the documents of all files that match.
func (c *Catalog) docs(matches func(*doc) bool) (out []*doc) {
	for _, f := range c.files {
		for _, d := range f.docs {
			if matches(d) {
				out = append(out, d)
			}
		}
	}
	return out
}

// packageOf returns the package that a blob belongs to.
func (d *doc) packageOf() string {
	if d.Schema == "olm.package" {
		return d.Name
	}
	return d.Package
}

// tree parses the document.
func (d *doc) tree() (*splice.Value, error) {
	if d.list != nil {
		return d.list.Items[d.at].Value, nil
	}
	v, err := d.parse()
	if err == nil && v.Kind != splice.Object {
		err = errors.New("it is not an object")
	}
	if err != nil {
		line := 1 + bytes.Count(d.file.text[:d.start], []byte("\n"))
		return nil, fmt.Errorf("%s:%d: %s %q: %w", d.file.name, line, d.Schema, d.Name, err)
	}
	return v, nil
}

func (d *doc) parse() (*splice.Value, error) {
	if d.file.isJSON {
		return splice.ParseJSON(d.file.text, d.start)
	}
	return splice.ParseYAML(d.file.text, d.start, d.end)
}

// remove removes documents.
func remove(docs ...*doc) error {
	if len(docs) > 0 && docs[0].list != nil {
		return removeFromTemplate(docs)
	}
	byFile := map[*file][]splice.Patch{}
	for _, d := range docs {
		byFile[d.file] = append(byFile[d.file], d.removal())
	}
	for f, patches := range byFile {
		if err := f.set(splice.Apply(f.text, patches...)); err != nil {
			return err
		}
	}
	return nil
}

// removal returns the patch that removes a document.
func (d *doc) removal() splice.Patch {
	start, end := d.start, d.end
	if d.file.isJSON {
		end = endOfBlanks(d.file.text, end)
	} else if start == 0 {
		start = endOfComments(d.file.text[:end])
	}
	return splice.Patch{Start: start, End: end, Text: ""}
}

// endOfBlanks returns the place behind the newline that follows.
func endOfBlanks(text []byte, at int) int {
	rest := text[at:]
	trimmed := bytes.TrimLeft(rest, " \t\r")
	if bytes.HasPrefix(trimmed, []byte("\n")) {
		return at + len(rest) - len(trimmed) + 1
	}
	return at
}

// endOfComments returns the end of the comments at the beginning of a file, if an empty line or a separator ends them: they are
// about the file.
func endOfComments(text []byte) int {
	for at := 0; at < len(text); at = splice.LineEnd(text, at) + 1 {
		switch line := bytes.TrimSpace(text[at:splice.LineEnd(text, at)]); {
		case len(line) == 0:
			return splice.LineEnd(text, at) + 1
		case line[0] != '#':
			return 0
		}
	}
	return 0
}

// insert inserts a blob behind a document, in the syntax of its file.
func insert(behind *doc, blob []byte) error {
	f := behind.file
	if behind.list != nil {
		s, err := splice.InsertItem(f.text, behind.list, behind.at, blob)
		if err != nil {
			return err
		}
		return f.set(splice.Apply(f.text, s))
	}
	if f.isJSON {
		text := string(blob)
		if first := bytes.IndexByte(f.text[behind.start:behind.end], '\n'); first >= 0 {
			inner := f.text[behind.start+first+1 : behind.end]
			var out bytes.Buffer
			if err := json.Indent(&out, blob, "", string(inner[:len(inner)-len(bytes.TrimLeft(inner, " \t"))])); err != nil {
				return err
			}
			text = out.String()
		}
		return f.set(splice.Apply(f.text, splice.Patch{Start: behind.end, End: behind.end, Text: "\n" + text}))
	}
	block, err := export.YAML(blob)
	if err != nil {
		return err
	}
	text := string(block)
	if behind.end > 0 && f.text[behind.end-1] != '\n' {
		text = "\n" + text
	}
	return f.set(splice.Apply(f.text, splice.Patch{Start: behind.end, End: behind.end, Text: text}))
}

// Changes returns the files that differ from those on disk.
func (c *Catalog) Changes() (changes []Change) {
	for _, f := range c.files {
		change := Change{f.name, f.before, f.text}
		if f.before != nil && len(f.docs) == 0 && len(bytes.TrimSpace(f.text)) == 0 {
			change.After = nil
		}
		if !bytes.Equal(f.before, f.text) {
			changes = append(changes, change)
		}
	}
	return changes
}

// Write writes all changes. Each file is replaced as a whole, once all new texts are on the disk.
func (c *Catalog) Write() (err error) {
	suffix := fmt.Sprintf(".kubectl-catalog.%d.tmp", os.Getpid())
	changes := c.Changes()
	for _, change := range changes {
		if change.After == nil {
			continue
		}
		defer func() {
			if err != nil {
				_ = c.root.Remove(change.File + suffix)
			}
		}()
		if err := c.stage(change, suffix); err != nil {
			return fmt.Errorf("writing %s: %w", change.File, err)
		}
	}
	if err := c.checkUnchanged(changes); err != nil {
		return err
	}
	for _, change := range changes {
		if change.After == nil {
			err = c.removeFile(change.File)
		} else {
			err = c.root.Rename(change.File+suffix, change.File)
		}
		if err != nil {
			return fmt.Errorf("replacing %s: %w", change.File, err)
		}
	}
	return nil
}

// checkUnchanged returns an error if another program changed a file since it was read.
func (c *Catalog) checkUnchanged(changes []Change) error {
	for _, change := range changes {
		now, err := c.root.ReadFile(change.File)
		if errors.Is(err, fs.ErrNotExist) && change.Before == nil {
			continue
		}
		if err != nil {
			return err
		}
		if change.Before == nil || !bytes.Equal(now, change.Before) {
			return fmt.Errorf("%s was changed by another program meanwhile, so nothing is written: run the command again", change.File)
		}
	}
	return nil
}

// removeFile removes a file, and the directories that it leaves empty.
func (c *Catalog) removeFile(name string) error {
	if err := c.root.Remove(name); err != nil {
		return err
	}
	for dir := path.Dir(name); dir != "." && c.root.Remove(dir) == nil; dir = path.Dir(dir) {
		continue
	}
	return nil
}

func (c *Catalog) stage(change Change, suffix string) error {
	mode := fs.FileMode(0o666)
	if change.Before == nil {
		if err := c.root.MkdirAll(path.Dir(change.File), 0o777); err != nil {
			return err
		}
	} else {
		info, err := c.root.Lstat(change.File)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			err = errors.New("it is a symbolic link: change the file that it leads to")
		}
		if err != nil {
			return err
		}
		mode = info.Mode().Perm()
	}
	out, err := c.root.OpenFile(change.File+suffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = out.Write(change.After)
	if change.Before != nil {
		err = errors.Join(err, out.Chmod(mode)) // the umask does not apply
	}
	return errors.Join(err, out.Sync(), out.Close())
}

// Clone returns the catalog as it was read. It must not be changed or closed.
func (c *Catalog) Clone() *Catalog {
	old := &Catalog{root: c.root, rendered: c.rendered, template: c.template, single: c.single}
	for _, f := range c.files {
		old.files = append(old.files, &file{name: f.name, catalog: old, before: f.before, text: f.text, docs: f.docs})
	}
	return old
}

// ChangedPackages returns the packages whose blobs changed. Those without blobs are not among them.
func (c *Catalog) ChangedPackages() map[string]bool {
	changed, left := map[string]bool{}, map[string]bool{}
	for _, d := range c.docs(func(*doc) bool { return true }) {
		left[d.packageOf()] = true
	}
	for _, f := range c.files {
		if bytes.Equal(f.before, f.text) {
			continue
		}
		was := &file{name: f.name, catalog: c}
		if was.set(f.before) != nil {
			continue // it was read before
		}
		count := map[string]int{}
		for _, d := range was.docs {
			count[d.packageOf()+"\x00"+string(d.JSON)]++
		}
		for _, d := range f.docs {
			count[d.packageOf()+"\x00"+string(d.JSON)]--
		}
		for key, n := range count {
			if name, _, _ := strings.Cut(key, "\x00"); n != 0 && left[name] {
				changed[name] = true
			}
		}
	}
	return changed
}

// Blobs returns the blobs of packages as JSON lines, in the order of the catalog.
func (c *Catalog) Blobs(packages map[string]bool) []byte {
	var out bytes.Buffer
	for _, d := range c.docs(func(d *doc) bool { return packages[d.packageOf()] }) {
		out.Write(d.JSON)
		out.WriteByte('\n')
	}
	return out.Bytes()
}
