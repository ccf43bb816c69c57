package authoring

import (
	"context"
	"os"
	"path/filepath"
)

// NewErrors returns the errors of a catalog that it did not have before. Both are blobs as JSON lines; the faults have no places.
func NewErrors(ctx context.Context, before, after []byte) ([]Fault, error) {
	old, err := errorsIn(ctx, before)
	if err != nil {
		return nil, err
	}
	now, err := errorsIn(ctx, after)
	if err != nil {
		return nil, err
	}
	had := map[Fault]bool{}
	for _, f := range old {
		had[f] = true
	}
	var added []Fault
	for _, f := range now {
		if !had[f] {
			added = append(added, f)
		}
	}
	return added, nil
}

// errorsIn lints blobs.
func errorsIn(ctx context.Context, blobs []byte) (found []Fault, err error) {
	if len(blobs) == 0 {
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "kubectl-catalog-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "catalog.json")
	if err := os.WriteFile(file, blobs, 0o600); err != nil {
		return nil, err
	}
	source, err := Open(ctx, file, Options{})
	if err != nil {
		return nil, err
	}
	defer source.Close()
	report, err := Lint(ctx, source)
	if err != nil {
		return nil, err
	}
	for _, f := range report.Faults {
		if f.Severity == Error {
			f.File, f.Line, f.Column = "", 0, 0
			found = append(found, f)
		}
	}
	return found, nil
}
