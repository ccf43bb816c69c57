package authoring

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
	"strings"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// Severity is the severity of a Fault.
type Severity string

// Because of an error, catalogd rejects the image or the package. A warning is about a valid package that could be
// better or is not published.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Fault is a problem of a catalog.
type Fault struct {
	File     string   `json:"file,omitempty"` // path; of an image, within its catalog
	Line     int      `json:"line,omitempty"` // from 1; 0: unknown
	Column   int      `json:"column,omitempty"`
	Severity Severity `json:"severity"`
	Rule     string   `json:"rule"`              // one of Rules
	Package  string   `json:"package,omitempty"` // "": none
	Message  string   `json:"message"`           // problem and remedy in one line
}

// Report is the result of Lint.
type Report struct {
	Source   string  `json:"source"`   // the directory, or the image by digest
	Files    int     `json:"files"`    // that were read
	Blobs    int     `json:"blobs"`    // in them
	Packages int     `json:"packages"` // with blobs
	Faults   []Fault `json:"faults"`   // sorted by file and line

	// Refused is true if catalogd would reject the image. Otherwise it serves all content, without OperatorPackages
	// of invalid packages, and of hidden ones: no channel head has a ClusterServiceVersion.
	Refused bool     `json:"refused"`
	Invalid []string `json:"invalid,omitempty"`
	Hidden  []string `json:"hidden,omitempty"`
}

// Errors returns the number of errors.
func (r *Report) Errors() int {
	n := 0
	for _, f := range r.Faults {
		if f.Severity == Error {
			n++
		}
	}
	return n
}

// linter collects faults. Lines of faults of blobs are located at the end, in one pass over each file.
type linter struct {
	catalog *catalog
	targets []Target
	report  Report
	faults  []pending
	tagged  []pending // bundles of valid packages with image references by tag
}

// pending is a Fault whose severity is not yet set and, if it is about a blob, whose line is not yet located.
type pending struct {
	Fault
	blob *blob
	path []any // keys and indexes that lead to the faulty value
}

func (l *linter) add(f Fault) { l.faults = append(l.faults, pending{Fault: f}) }

// Hides reports whether the fault prevents the publication of a valid package or catalog.
func (f Fault) Hides() bool { return f.Rule == "package-no-csv" || f.Rule == "no-package" }

// Lint returns all faults of a catalog. It finds an error in exactly the packages that catalogd rejects, apart from the rules of
// targets. It returns an error if reading failed for another cause.
func Lint(ctx context.Context, s *Source, targets ...Target) (*Report, error) {
	l := &linter{targets: targets, report: Report{Source: cmp.Or(s.Dir, s.Image)}}
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
	l.addReadFaults()
	groups := c.groups()
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := l.checkGroup(name, groups[name]); err != nil {
			return nil, err
		}
	}
	l.checkTags()
	l.checkNotEmpty()
	found, err := l.locate()
	if err != nil {
		return nil, err
	}
	l.report.Files, l.report.Blobs = c.files, len(c.blobs)
	l.report.Faults = append([]Fault{}, found...) // never null in JSON
	for i := range l.report.Faults {
		f := &l.report.Faults[i]
		f.Message, f.Severity = printable(f.Message), Rules[f.Rule].Severity
		if s.base != "" && f.File != "" {
			f.File = filepath.ToSlash(filepath.Join(s.base, filepath.FromSlash(f.File)))
		}
	}
	return &l.report, nil
}

// addReadFaults adds faults of unreadable files. catalogd rejects the image for each of them.
func (l *linter) addReadFaults() {
	for name, why := range l.catalog.unsupported {
		l.add(Fault{File: name, Rule: "not-a-file", Message: "this " + why})
	}
	for _, e := range l.catalog.faults {
		l.add(Fault{File: e.Path, Line: lineOf(e), Rule: readingRule(e), Message: withoutLine(e)})
	}
	if l.catalog.all == 0 && len(l.faults) == 0 {
		l.add(Fault{Rule: "empty", Message: "no files found; specify the directory that a catalog image has at /configs"})
	}
	l.report.Refused = len(l.faults) > 0
}

// checkNotEmpty warns about a catalog without packages if no other fault explains that.
func (l *linter) checkNotEmpty() {
	if l.report.Packages > 0 || l.report.Refused {
		return
	}
	message := "the catalog has no package, so catalogd would publish nothing"
	if l.catalog.files == 0 {
		message += "; check whether an .indexignore excludes all files"
	}
	l.add(Fault{Rule: "no-package", Message: message})
}

// yamlLine is the prefix of errors of the YAML library.
var yamlLine = regexp.MustCompile(`^yaml: line ([0-9]+): `)

func lineOf(e *scan.Error) int {
	if said := yamlLine.FindStringSubmatch(e.Err.Error()); e.Line == 0 && said != nil {
		line, _ := strconv.Atoi(said[1]) // digits only
		return line
	}
	return e.Line
}

// withoutLine returns the error without its line, which the fault has.
func withoutLine(e *scan.Error) string {
	return yamlLine.ReplaceAllString(oneLine(e.Err), "invalid YAML: ")
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
func (l *linter) checkGroup(name string, g group) error {
	l.customSchemas(g.blobs)
	l.checkSchemas(g.blobs)
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
	valid, invalid, err := l.catalog.load(name, g.blobs)
	switch {
	case err != nil:
		return err
	case invalid == nil:
		p.faults = nil
		err = p.addWarnings(valid)
	case !partial: // missing blobs may be in unreadable files
		l.report.Invalid = append(l.report.Invalid, name)
		if len(p.faults) == 0 {
			p.fault(g.blobs[0], "package-invalid", nil, "%s", invalid.Reason)
		}
	}
	if err == nil {
		err = p.checkTargets(valid)
	}
	l.faults = append(l.faults, p.faults...)
	return err
}

// load validates a package as catalogd does.
func (c *catalog) load(name string, blobs []*blob) (valid *fbc.Package, invalid *fbc.InvalidPackageError, err error) {
	defer func() {
		if r := recover(); r != nil { // catalogd also rejects the package
			invalid, err = &fbc.InvalidPackageError{Name: name, Reason: fmt.Sprintf("validation failed: %v", r)}, nil
		}
	}()
	valid, err = fbc.LoadPackage(name, c.texts(blobs))
	if invalid, ok := errors.AsType[*fbc.InvalidPackageError](err); ok {
		return nil, invalid, nil
	}
	return valid, nil, err
}

// isPartial reports whether blobs of a package may be in an unreadable file: one in the same directory, or one
// with the package's name.
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

// customSchemas warns about unknown schemas with OLM's prefix.
func (l *linter) customSchemas(blobs []*blob) {
	for _, b := range blobs {
		if fbc.IsCustom(b.schema) && strings.HasPrefix(b.schema, "olm.") && b.schema != "olm." {
			l.faults = append(l.faults, newFault(b, b.pkg, "unknown-schema", []any{"schema"},
				"unknown schema %q with the prefix \"olm.\", which is reserved for OLM: correct the name, or use your own domain", b.schema))
		}
	}
}
