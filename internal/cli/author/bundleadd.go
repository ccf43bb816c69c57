package author

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/internal/authoring/edit"
	"github.com/operator-catalogs/catalogd/internal/authoring/render"
	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// An addRequest is a parsed command line of bundle add.
type addRequest struct {
	dir           string
	images        []string
	bundles       bundleFlags
	channels      []string
	mode          string
	given         placement
	overwrite     bool
	releaseConfig string
	dryRun        bool
}

// placement is where a bundle goes, as the user or a release-config.yaml says.
type placement struct {
	Replaces  string   `json:"replaces"`
	Skips     []string `json:"skips"`
	SkipRange string   `json:"skipRange"`
}

func (p placement) isEmpty() bool { return p.Replaces == "" && len(p.Skips) == 0 && p.SkipRange == "" }

func newAddCommand(s *session.Session) *cobra.Command {
	var req addRequest
	cmd := &cobra.Command{
		Use:   "add DIR BUNDLE...",
		Short: "Add bundles to a catalog in files",
		Long: `Add bundles to a catalog: a directory, a file or a template. The blob of each bundle goes behind the
last one of its package; a template gets its image only. A package that is new gets the icon and the
description of the bundle. All bundles are added, or none.

The channels are those of --channel, or else those that the bundle names. --mode decides which bundle
of the channel it replaces:

  head              the head of the channel; this is the default
  replaces          spec.replaces and spec.skips of the CSV. Bundles that the new head does not lead
                    to are removed
  semver            the next lower version; the next higher version replaces it
  semver-skippatch  as semver, and it skips all lower versions of its minor version

The last three are those of opm index add. --replaces, --skips and --skip-range set the place of one
bundle instead. In a semver template, the channels are candidate, fast and stable.

A name or a version that the package already has is an error. --overwrite replaces a bundle of the
same name, if it is the head of its channels.

--release-config FILE adds one bundle to several templates in DIR: FILE lists them with their channels
and the place of the bundle, as release-config.yaml of operator-pipelines does.` + renderNote + editNote,
		Example: `  kubectl catalog bundle add my-catalog quay.io/example/foo-bundle:v1.1.0 --channel stable
  kubectl catalog bundle add my-catalog ./bundle --as quay.io/example/foo-bundle:v1.1.0 --mode semver
  kubectl catalog bundle add template.yaml quay.io/example/foo-bundle:v1.1.0 --replaces foo.v1.0.0 --dry-run`,
		ValidArgsFunction: completePath,
	}
	req.bundles.register(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&req.channels, "channel", nil, "add to this `channel`; may be repeated")
	flags.StringVar(&req.mode, "mode", string(channel.ModeHead), "what the bundle replaces: "+strings.Join(channel.Modes, ", "))
	flags.StringVar(&req.given.Replaces, "replaces", "", "the `bundle` that it replaces")
	flags.StringSliceVar(&req.given.Skips, "skips", nil, "a `bundle` that it skips; may be repeated")
	flags.StringVar(&req.given.SkipRange, "skip-range", "", "the `range` of versions that it skips")
	flags.BoolVar(&req.overwrite, "overwrite", false, "replace a head of the same name")
	flags.StringVar(&req.releaseConfig, "release-config", "", "a `file` with templates, channels and the place of the bundle")
	flags.BoolVar(&req.dryRun, "dry-run", false, "print the differences, and write nothing")
	lookup.CompleteValues(cmd, "mode", channel.Modes...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := req.parse(cmd, args); err != nil {
			return err
		}
		return addBundles(cmd.Context(), s, req)
	}
	return cmd
}

func (r *addRequest) parse(cmd *cobra.Command, args []string) error {
	if len(args) < 2 {
		return exit.Usagef("specify a directory or a file, and a bundle: %s", cmd.UseLine())
	}
	r.dir, r.images = args[0], args[1:]
	isGiven := !r.given.isEmpty()
	switch {
	case !slices.Contains(channel.Modes, r.mode):
		return exit.Usagef("invalid value %q of --mode; valid values are %s", r.mode, strings.Join(channel.Modes, ", "))
	case isGiven && cmd.Flags().Changed("mode"):
		return exit.Usagef("specify --mode, or --replaces, --skips and --skip-range, not both")
	case (isGiven || r.releaseConfig != "") && len(r.images) > 1:
		return exit.Usagef("specify one bundle: --replaces, --skips, --skip-range and --release-config are about one")
	case r.releaseConfig != "" && (isGiven || len(r.channels) > 0):
		return exit.Usagef("specify --release-config or the channels and the place of the bundle, not both")
	}
	if isGiven {
		r.mode = string(channel.ModeGiven)
	}
	return nil
}

func addBundles(ctx context.Context, s *session.Session, req addRequest) error {
	r, end, err := req.bundles.renderer(s)
	if err != nil {
		return err
	}
	defer end()
	rendered, err := bundles(ctx, s, r, req.images)
	if err != nil {
		return err
	}
	end()
	releases, err := req.releases()
	if err != nil {
		return err
	}
	var changes []catalogChange
	for _, release := range releases {
		changes = append(changes, catalogChange{ref: release.file, change: func(c *edit.Catalog) error { return release.add(s, c, req, rendered) }})
	}
	return runEdits(ctx, s, r, req.dryRun, changes...)
}

// A release is a catalog or template that gets the bundles.
type release struct {
	TemplateName   string   `json:"template_name"`
	Channels       []string `json:"channels"`
	DefaultChannel string   `json:"defaultChannel"`
	placement

	file string
}

// releases returns the catalogs to change: DIR, or those of the release-config.yaml.
func (r *addRequest) releases() ([]release, error) {
	if r.releaseConfig == "" {
		return []release{{Channels: r.channels, placement: r.given, file: r.dir}}, nil
	}
	text, err := os.ReadFile(r.releaseConfig)
	if err != nil {
		return nil, err
	}
	var config struct {
		Templates []release `json:"catalog_templates"`
	}
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return nil, fmt.Errorf("parsing %s: %w", r.releaseConfig, err)
	}
	if len(config.Templates) == 0 {
		return nil, fmt.Errorf("%s lists no catalog_templates", r.releaseConfig)
	}
	for i := range config.Templates {
		t := &config.Templates[i]
		if t.TemplateName == "" || len(t.Channels) == 0 || !filepath.IsLocal(t.TemplateName) {
			return nil, fmt.Errorf("%s: catalog_templates[%d] needs a template_name in DIR, and channels", r.releaseConfig, i)
		}
		t.file = filepath.Join(r.dir, "catalog-templates", t.TemplateName)
		if _, err := os.Stat(t.file); errors.Is(err, os.ErrNotExist) {
			t.file = filepath.Join(r.dir, t.TemplateName)
		}
	}
	return config.Templates, nil
}

// add adds bundles to a catalog.
func (r release) add(s *session.Session, c *edit.Catalog, req addRequest, rendered []*render.Bundle) error {
	mode := channel.Mode(req.mode)
	if !r.isEmpty() {
		mode = channel.ModeGiven
	}
	var additions []edit.Addition
	for i, b := range rendered {
		if b.Image == "" {
			return exit.Usagef("%s is a directory, and a catalog names the image of a bundle: specify it with --as", req.images[i])
		}
		a, err := addition(b, r)
		if err != nil {
			return err
		}
		additions = append(additions, a)
	}
	dropped, err := c.Add(additions, mode, req.overwrite)
	for _, name := range dropped {
		fmt.Fprintf(s.Stderr, "removed bundle %s: the new head does not lead to it\n", output.Line(name))
	}
	return err
}

func addition(b *render.Bundle, r release) (edit.Addition, error) {
	a := edit.Addition{
		Package: b.Package, Image: b.Image, Channels: r.Channels,
		Entry: channel.Entry{Name: b.Name, Version: b.Version, Replaces: b.Replaces, Skips: b.Skips, SkipRange: b.SkipRange},
	}
	if len(a.Channels) == 0 {
		a.Channels = b.Channels
	}
	if !r.isEmpty() {
		a.Entry.Replaces, a.Entry.Skips, a.Entry.SkipRange = r.Replaces, r.Skips, r.SkipRange
	}
	var err error
	if a.Blob, err = b.Blob(); err != nil {
		return a, err
	}
	a.NewPackage = func() ([]byte, error) {
		for _, name := range []string{r.DefaultChannel, b.DefaultChannel} {
			if slices.Contains(a.Channels, name) {
				return b.PackageBlob(name)
			}
		}
		if len(a.Channels) != 1 {
			return nil, fmt.Errorf("the package is new and has several channels: create it first with its default channel, "+
				"kubectl catalog init %s --channel CHANNEL", b.Package)
		}
		return b.PackageBlob(a.Channels[0])
	}
	return a, nil
}

// renderTemplate renders the bundles of a template, so that edits know their names.
func renderTemplate(ctx context.Context, r *render.Renderer, c *edit.Catalog) error {
	images := c.Unrendered()
	if len(images) == 0 {
		return nil
	}
	rendered, err := r.Bundles(ctx, images)
	if err != nil {
		return err
	}
	blobs := map[string][]byte{}
	for i, b := range rendered {
		if blobs[images[i]], err = b.Blob(); err != nil {
			return err
		}
	}
	return c.Render(blobs)
}
