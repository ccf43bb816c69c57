package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// Severity is how bad a Fault is.
type Severity string

// An error has catalogd refuse the image, or leave out the package as not sound. A warning is about what is sound and could be better, or is not
// published though it is sound.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Fault is one thing that is wrong with a catalog.
type Fault struct {
	File     string   `json:"file,omitempty"` // of a directory, as it can be opened from here; of an image, within its catalog
	Line     int      `json:"line,omitempty"` // 1 is the first; 0 where the fault is in no line
	Column   int      `json:"column,omitempty"`
	Severity Severity `json:"severity"`
	Rule     string   `json:"rule"`              // one of Rules
	Package  string   `json:"package,omitempty"` // the package that it is about
	Message  string   `json:"message"`           // what is wrong, and what to do about it; one line
}

// Report is what Lint found, and what catalogd would do with the catalog.
type Report struct {
	Source   string  `json:"source"`   // the directory, or the image by digest
	Files    int     `json:"files"`    // that were read
	Blobs    int     `json:"blobs"`    // in them
	Packages int     `json:"packages"` // of which there are blobs
	Faults   []Fault `json:"faults"`   // sorted by file and line

	// Refused tells that catalogd would take nothing of an image with this catalog. Else it serves all, and makes no OperatorPackage of what
	// is in Invalid, and in Hidden because no channel has a ClusterServiceVersion at its head.
	Refused bool     `json:"refused"`
	Invalid []string `json:"invalid,omitempty"`
	Hidden  []string `json:"hidden,omitempty"`
}

// Errors counts the faults that are errors.
func (r *Report) Errors() int {
	n := 0
	for _, f := range r.Faults {
		if f.Severity == Error {
			n++
		}
	}
	return n
}

// linter gathers faults. Those about blobs get their lines at the end, when each file is read once more for all of them.
type linter struct {
	catalog *catalog
	report  Report
	placed  []Fault // have their lines
	pending []pending
	tags    tags
}

// pending is a Fault of a blob, of which the line has to be found.
type pending struct {
	Fault
	blob *blob
	path []any // leads to what is at fault in the blob: keys and indexes
}

// Hides tells that because of it catalogd publishes nothing of a package, or of all, that is sound.
func (f Fault) Hides() bool { return f.Rule == "package-no-csv" || f.Rule == "no-package" }

// Lint finds all that is wrong with a catalog. The verdicts are catalogd's: of a package that it finds sound there are no errors, and
// of one that it does not, at least one. An error tells that the catalog could not be read, for no fault of its own.
func Lint(ctx context.Context, s *Source) (*Report, error) {
	l := &linter{report: Report{Source: cmp.Or(s.Dir, s.Image)}}
	if s.refused != nil {
		l.report.Refused = true
		l.report.Faults = []Fault{{Severity: Error, Rule: "image", Message: oneLine(s.refused)}}
		return &l.report, nil
	}
	c, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	l.catalog = c
	l.readingFaults()
	groups := c.groups()
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := l.checkGroup(name, groups[name]); err != nil {
			return nil, err
		}
	}
	l.warnOfTags()
	l.checkNotEmpty()
	found, err := l.place()
	if err != nil {
		return nil, err
	}
	l.report.Files, l.report.Blobs = c.files, len(c.blobs)
	l.report.Faults = append([]Fault{}, found...) // never null in JSON
	for i := range l.report.Faults {
		f := &l.report.Faults[i]
		f.Message = printable(f.Message)
		if s.base != "" && f.File != "" {
			f.File = filepath.ToSlash(filepath.Join(s.base, filepath.FromSlash(f.File)))
		}
	}
	return &l.report, nil
}

// readingFaults tells what the catalog cannot be read for. Each of them has catalogd refuse the image: nobody knows what is missing.
func (l *linter) readingFaults() {
	for name, why := range l.catalog.odd {
		l.placed = append(l.placed, Fault{File: name, Severity: Error, Rule: "not-a-file", Message: "this " + why})
	}
	for _, e := range l.catalog.faults {
		l.placed = append(l.placed, Fault{File: e.Path, Line: lineOf(e), Severity: Error, Rule: readingRule(e), Message: withoutLine(e)})
	}
	if l.catalog.all == 0 && len(l.placed) == 0 {
		l.report.Refused = true
		l.placed = append(l.placed, Fault{Severity: Error, Rule: "empty", Message: "there is no file; give the directory that a catalog image has at /configs"})
	}
	l.report.Refused = l.report.Refused || len(l.catalog.odd)+len(l.catalog.faults) > 0
}

// checkNotEmpty is about a catalog that nothing is published of. Where there are other faults they say why.
func (l *linter) checkNotEmpty() {
	if l.report.Packages > 0 || len(l.placed) > 0 {
		return
	}
	message := "there is no package in it, so catalogd would publish nothing"
	if l.catalog.files == 0 {
		message += "; does an .indexignore name all of its files?"
	}
	l.placed = append(l.placed, Fault{Severity: Warning, Rule: "no-package", Message: message})
}

// yamlLine is how the YAML library begins its errors.
var yamlLine = regexp.MustCompile(`^yaml: line ([0-9]+): `)

func lineOf(e *scan.Error) int {
	if said := yamlLine.FindStringSubmatch(e.Err.Error()); e.Line == 0 && said != nil {
		line, _ := strconv.Atoi(said[1]) // of digits only; of too many it is nobody's line
		return line
	}
	return e.Line
}

// withoutLine is what is wrong, without the line, which the fault tells by itself.
func withoutLine(e *scan.Error) string {
	return yamlLine.ReplaceAllString(oneLine(e.Err), "the YAML cannot be read: ")
}

func readingRule(e *scan.Error) string {
	switch {
	case errors.Is(e, scan.ErrNoSchema):
		return "no-schema"
	case errors.Is(e, scan.ErrBlobTooLarge):
		return "blob-size"
	case path.Base(e.Path) == ".indexignore":
		return "indexignore"
	default:
		return "syntax"
	}
}

// checkGroup checks the blobs of a package.
func (l *linter) checkGroup(name string, g *group) error {
	l.customSchemas(g.blobs)
	if !g.required {
		return nil
	}
	l.report.Packages++
	partial := l.isPartial(name, g.blobs)
	p := &pkg{linter: l, name: name, partial: partial}
	if err := p.read(g.blobs); err != nil {
		return err
	}
	p.check()
	sound, invalid, err := l.catalog.load(name, g.blobs)
	switch {
	case err != nil:
		return err
	case invalid == nil:
		return p.warn(sound)
	case !partial: // else what is missing may be in what cannot be read
		l.report.Invalid = append(l.report.Invalid, name)
		if len(p.faults) == 0 {
			p.fault(g.blobs[0], "package-invalid", nil, "%s", invalid.Reason)
		}
	}
	l.pending = append(l.pending, p.faults...)
	return nil
}

// load asks for the verdict of catalogd.
func (c *catalog) load(name string, blobs []*blob) (sound *fbc.Package, invalid *fbc.InvalidPackageError, err error) {
	defer func() {
		if r := recover(); r != nil { // of a rule; catalogd has the same verdict of that
			invalid, err = &fbc.InvalidPackageError{Name: name, Reason: fmt.Sprintf("validation failed: %v", r)}, nil
		}
	}()
	sound, err = fbc.LoadPackage(name, c.texts(blobs))
	if invalid, ok := errors.AsType[*fbc.InvalidPackageError](err); ok {
		return nil, invalid, nil
	}
	return sound, nil, err
}

// isPartial tells whether blobs of a package may be missing because a file cannot be read: one that has others of them, that lies beside
// one of those, or that has the name of the package.
func (l *linter) isPartial(name string, blobs []*blob) bool {
	for file := range l.catalog.broken {
		dir := path.Dir(file)
		if path.Base(dir) == name || path.Base(file) == name+path.Ext(file) {
			return true
		}
		if slices.ContainsFunc(blobs, func(b *blob) bool { return path.Dir(b.file) == dir }) {
			return true
		}
	}
	return false
}

// customSchemas warns of schemas that only OLM may give a meaning, and to which it gives none.
func (l *linter) customSchemas(blobs []*blob) {
	for _, b := range blobs {
		if fbc.IsCustom(b.schema) && len(b.schema) > len("olm.") && b.schema[:len("olm.")] == "olm." {
			l.pending = append(l.pending, pending{blob: b, path: []any{"schema"}, Fault: Fault{
				Severity: Warning, Rule: "unknown-schema", Package: b.pkg,
				Message: fmt.Sprintf("OLM has no schema %s, and names that begin with \"olm.\" are its own: correct the name, or choose one of your own domain", quote(b.schema)),
			}})
		}
	}
}
