package template

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	alphatemplate "github.com/operator-framework/operator-registry/alpha/template"

	"github.com/operator-catalogs/catalogd/internal/authoring"
	"github.com/operator-catalogs/catalogd/internal/authoring/render"
)

// Renderer renders bundle images in the format render.Objects. It is a render.Renderer.
type Renderer interface {
	Try(ctx context.Context, refs []string) (map[string]render.Result, error)
}

// Job is a catalog to render.
type Job struct {
	Template *Template
	Format   render.Format
}

// Render renders catalogs, in the order of jobs. It pulls each bundle once, and returns the bundles too. It renders all catalogs or
// fails; then the error names each place of an image that cannot be rendered. A catalog with an error of package authoring fails.
func Render(ctx context.Context, r Renderer, jobs []Job) ([]*declcfg.DeclarativeConfig, map[string]render.Result, error) {
	var refs []string
	for _, job := range jobs {
		refs = append(refs, job.Template.Images()...)
	}
	bundles, err := r.Try(ctx, refs)
	if err != nil {
		return nil, nil, err
	}
	if err := failures(jobs, bundles); err != nil {
		return nil, nil, err
	}
	catalogs := make([]*declcfg.DeclarativeConfig, len(jobs))
	rendered := map[Job]*declcfg.DeclarativeConfig{}
	for i, job := range jobs {
		if rendered[job] == nil {
			if rendered[job], err = job.render(ctx, bundles); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", job.Template.File, err)
			}
		}
		catalogs[i] = rendered[job]
	}
	return catalogs, bundles, nil
}

// failures returns the errors of the images with their places in the templates.
func failures(jobs []Job, bundles map[string]render.Result) error {
	var errs []error
	seen := map[*Template]bool{}
	for _, job := range jobs {
		if seen[job.Template] {
			continue
		}
		seen[job.Template] = true
		for _, image := range job.Template.images {
			if err := bundles[image.ref].Err; err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", job.Template.File, image.at, err))
			}
		}
	}
	return errors.Join(errs...)
}

// render renders a template and lints the catalog, as opm renders invalid ones too.
func (j Job) render(ctx context.Context, rendered map[string]render.Result) (*declcfg.DeclarativeConfig, error) {
	bundles := map[string]declcfg.Bundle{}
	for _, ref := range j.Template.Images() {
		b := rendered[ref].Bundle.Bundle
		b.Properties = append([]property.Property(nil), b.Properties...) // Apply changes them
		if err := j.Format.Apply(&b); err != nil {
			return nil, fmt.Errorf("%s: %w", j.Template.place(ref), err)
		}
		bundles[ref] = b
	}
	catalog, err := j.Template.catalog(ctx, bundles)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := declcfg.WriteJSON(*catalog, &text); err != nil {
		return nil, err
	}
	faults, err := authoring.NewErrors(ctx, nil, text.Bytes())
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, f := range faults {
		lines = append(lines, "\n  "+f.Message+" ("+f.Rule+")")
	}
	if len(lines) > 0 {
		return nil, errors.New("the rendered catalog would have errors:" + strings.Join(lines, ""))
	}
	return catalog, nil
}

// catalog renders the template with operator-registry. A basic template needs no more than its entries, of which that would change
// large numbers.
func (t *Template) catalog(ctx context.Context, bundles map[string]declcfg.Bundle) (*declcfg.DeclarativeConfig, error) {
	if t.Schema == Basic {
		catalog, err := declcfg.LoadSlice(t.entries)
		if err != nil {
			return nil, err
		}
		for i, b := range catalog.Bundles {
			catalog.Bundles[i] = bundles[b.Image]
		}
		return catalog, nil
	}
	if t.Schema == Semver {
		if err := t.checkVersions(bundles); err != nil {
			return nil, err
		}
	}
	one := func(_ context.Context, ref string) (*declcfg.DeclarativeConfig, error) {
		return &declcfg.DeclarativeConfig{Bundles: []declcfg.Bundle{bundles[ref]}}, nil
	}
	of, text, err := alphatemplate.NewRegistry().CreateTemplateBySchema(bytes.NewReader(t.text), one)
	if err != nil {
		return nil, err
	}
	return of.Render(ctx, text)
}

// checkVersions reports bundles that a semver template cannot put into order, as opm's errors do not name the entries.
func (t *Template) checkVersions(bundles map[string]declcfg.Bundle) error {
	type place struct{ at, pkg, version string }
	var first place
	seen := map[string]place{}
	for _, image := range t.images {
		props, err := property.Parse(bundles[image.ref].Properties)
		if err != nil || len(props.Packages) != 1 {
			return fmt.Errorf("%s: the bundle must have one property olm.package", image.at)
		}
		this := place{image.at, props.Packages[0].PackageName, props.Packages[0].Version}
		if first.at == "" {
			first = this
		}
		if this.pkg != first.pkg {
			return fmt.Errorf("%s is of package %q, and %s is of package %q: use a template for each package", first.at, first.pkg, this.at,
				this.pkg)
		}
		version, err := semver.Parse(this.version)
		if err != nil {
			return fmt.Errorf("%s: version %q of the bundle is not a semantic version: %w", image.at, this.version, err)
		}
		version.Build = nil
		stream, _, _ := strings.Cut(image.at, ".")
		key := stream + " " + version.String()
		switch other, ok := seen[key]; {
		case ok && other.version == this.version:
			return fmt.Errorf("%s and %s have the same version %s: remove one of them", other.at, this.at, this.version)
		case ok:
			return fmt.Errorf("%s and %s have the versions %s and %s, which differ only in build metadata and thus have no order: remove one of "+
				"them", other.at, this.at, other.version, this.version)
		}
		seen[key] = this
	}
	return nil
}
