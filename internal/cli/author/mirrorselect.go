package author

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/authoring"
	"github.com/operator-catalogs/catalogd/internal/authoring/depend"
	"github.com/operator-catalogs/catalogd/internal/authoring/export"
	"github.com/operator-catalogs/catalogd/internal/authoring/mirror"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/subset"
)

// catalogPart is the selected part of a catalog.
type catalogPart struct {
	dir    string // with its blobs
	images []*mirror.Image
}

// selectPart writes the selected part of a catalog to a directory in temp, and returns its images.
func selectPart(ctx context.Context, s *session.Session, req mirrorRequest, temp string) (part *catalogPart, err error) {
	source, err := openForMirror(ctx, s, req, temp)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	progress := s.Stderr.Progress()
	defer progress.End()
	showStage(s, progress, "Reading "+req.catalog)
	content, err := source.Content(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req.catalog, err)
	}
	selected, closure, err := selectRules(content, req)
	if err != nil {
		return nil, err
	}
	part = &catalogPart{dir: filepath.Join(temp, "catalog")}
	refs, err := writePart(content, selected, part.dir)
	if err != nil {
		return nil, err
	}
	if err := checkPart(ctx, s, content, selected, part.dir, req.force); err != nil {
		return nil, err
	}
	progress.End()
	for _, p := range selected.Unreadable {
		s.Stderr.Warnf("package %q is copied whole, because it cannot be filtered: %s", p.Package, p.Reason)
	}
	for _, c := range closure.Choices {
		fmt.Fprintf(s.Stderr, "added for %s\n", output.Line(c.String()))
	}
	for _, u := range closure.Unmet {
		s.Stderr.Warnf("not added: %s", u)
	}
	part.images, err = mirror.ParseReferences(refs, req.access(s).Name()...)
	return part, err
}

// openForMirror opens a catalog of the cluster, a directory, a file or an image.
func openForMirror(ctx context.Context, s *session.Session, req mirrorRequest, temp string) (*authoring.Source, error) {
	if !catalogRef.MatchString(req.catalog) {
		return openSource(ctx, s, req.catalog, req.insecure)
	}
	source, err := openServed(ctx, s, req, temp)
	if _, statErr := os.Stat(req.catalog); err != nil && statErr == nil {
		err = fmt.Errorf("%w; for the local file or directory, use ./%s", err, req.catalog)
	}
	return source, err
}

// openServed exports a catalog of the cluster to a file, and opens that.
func openServed(ctx context.Context, s *session.Session, req mirrorRequest, temp string) (*authoring.Source, error) {
	catalog, version, err := lookup.CutVersion(s, req.catalog)
	if err != nil {
		return nil, err
	}
	served := exportRequest{catalog: catalog, version: version, to: filepath.Join(temp, "served.json")}
	if !req.closure { // which may need any package
		for _, r := range req.rules {
			served.rules = append(served.rules, subset.Include{Package: r.Package})
		}
	}
	if _, err := exportCatalog(ctx, s, served); err != nil {
		return nil, err
	}
	return authoring.Open(ctx, served.to, req.access(s))
}

// selectRules applies the rules of a command line, and with them those of the dependencies.
func selectRules(content *authoring.Content, req mirrorRequest) (*subset.Selection, depend.Result, error) {
	filter := subset.Filter{Include: req.rules}
	selected, err := filter.Select(content)
	if err == nil && len(selected.Unmatched) > 0 {
		err = exit.NotFoundf("not found in %s: %s", req.catalog, subset.List(selected.Unmatched))
	}
	if wrong, ok := errors.AsType[*subset.Error](err); ok && len(wrong.Kept) > 0 {
		err = exit.Usagef("%w: specify --default-channel %s=CHANNEL, one of %s", err, wrong.Package, strings.Join(wrong.Kept, ", "))
	}
	if err != nil || !req.closure {
		return selected, depend.Result{}, err
	}
	closure, err := closureOf(content, selected)
	if err != nil || len(filter.Include) == 0 { // then all is selected
		return selected, closure, err
	}
	for _, c := range closure.Choices {
		added := subset.Include{Package: c.Package, Channels: []string{c.Channel}, MinVersion: c.Version, MaxVersion: c.Version}
		filter.Include = append(filter.Include, added)
	}
	selected, err = filter.Select(content)
	return selected, closure, err
}

// closureOf finds what the selected bundles require.
func closureOf(content *authoring.Content, selected *subset.Selection) (depend.Result, error) {
	var catalog depend.Catalog
	type id struct{ pkg, name string }
	kept := map[id]bool{}
	for i := range content.Len() {
		text, err := content.JSON(i)
		if err != nil {
			return depend.Result{}, err
		}
		b, err := scan.ParseBlob(text)
		if err == nil {
			err = catalog.Add(b)
		}
		if err != nil {
			return depend.Result{}, err
		}
		if b.Schema == fbc.SchemaBundle && selected.Keeps(i) {
			kept[id{b.Package, b.Name}] = true
		}
	}
	return catalog.Close(func(pkg, bundle string) bool { return kept[id{pkg, bundle}] }), nil
}

// writePart writes the selected blobs to a new directory, and returns the images of their bundles.
func writePart(content *authoring.Content, selected *subset.Selection, dir string) (refs []mirror.Reference, err error) {
	to, err := export.ToPath(dir, false)
	if err != nil {
		return nil, err
	}
	defer to.Abort()
	for i := range content.Len() {
		if !selected.Keeps(i) {
			continue
		}
		text, err := content.JSON(i)
		if err != nil {
			return nil, err
		}
		b := content.Blob(i)
		if b.Schema == fbc.SchemaBundle {
			found, err := mirror.ReferencesOf(text)
			if err != nil {
				return nil, err
			}
			refs = append(refs, found...)
		}
		if text, err = selected.Apply(i, text); err != nil {
			return nil, err
		}
		pkg, _ := fbc.PackageOf(b.Schema, b.Package, b.Name)
		if err := to.Put(pkg, text); err != nil {
			return nil, err
		}
	}
	return refs, to.Commit()
}

// checkPart lints the selected part. Errors that the whole catalog has too are warnings.
func checkPart(ctx context.Context, s *session.Session, content *authoring.Content, selected *subset.Selection, dir string, force bool) error {
	report, err := lint(ctx, s, dir, false)
	if err != nil || report.Errors() == 0 {
		return err
	}
	var before, after bytes.Buffer
	packages := map[string]bool{}
	for i := range content.Len() {
		b := content.Blob(i)
		pkg, _ := fbc.PackageOf(b.Schema, b.Package, b.Name)
		packages[pkg] = packages[pkg] || selected.Keeps(i)
	}
	for i := range content.Len() {
		b := content.Blob(i)
		pkg, _ := fbc.PackageOf(b.Schema, b.Package, b.Name)
		if !packages[pkg] {
			continue
		}
		text, err := content.JSON(i)
		if err != nil {
			return err
		}
		before.Write(append(text, '\n'))
		if !selected.Keeps(i) {
			continue
		}
		if text, err = selected.Apply(i, bytes.TrimSuffix(text, []byte("\n"))); err != nil {
			return err
		}
		after.Write(append(text, '\n'))
	}
	added, err := authoring.NewErrors(ctx, before.Bytes(), after.Bytes())
	if err != nil {
		return err
	}
	var lines []string
	for _, f := range added {
		lines = append(lines, "  "+output.Line(f.Message)+" ("+f.Rule+")")
	}
	switch {
	case len(added) > 0 && !force:
		return fmt.Errorf("the selected part would have new errors; select more, or use --force:\n%s", strings.Join(slices.Compact(lines), "\n"))
	default:
		s.Stderr.Warnf("the catalog has %s: kubectl catalog lint shows them", output.Counted(report.Errors(), "error", "errors"))
		return nil
	}
}
