package author

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/operator-catalogs/catalogd/internal/authoring/edit"
	"github.com/operator-catalogs/catalogd/internal/authoring/render"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// An initRequest is a parsed command line of init.
type initRequest struct {
	name, channel     string
	description, icon string // files
	to                string
	dryRun            bool
}

func newInitCommand(s *session.Session) *cobra.Command {
	var req initRequest
	cmd := &cobra.Command{
		Use:   "init PACKAGE",
		Short: "Begin a package of a catalog in files",
		Long: `Create a package: print its olm.package blob, or add it to a catalog with -o. A missing directory is
created. The command fails if the package already exists. Add bundles with kubectl catalog bundle add.`,
		Example: `  kubectl catalog init foo --channel stable --icon logo.svg --description README.md -o my-catalog
  kubectl catalog init foo --channel stable`,
	}
	flags := cmd.Flags()
	flags.StringVarP(&req.channel, "channel", "c", "", "the default `channel`")
	flags.StringVarP(&req.description, "description", "d", "", "a `file` with the description, in Markdown")
	flags.StringVarP(&req.icon, "icon", "i", "", "a `file` with the icon: SVG, PNG, JPEG or GIF")
	flags.StringVarP(&req.to, "output", "o", "yaml", "the `directory, file or template` to add it to; json, yaml: standard output")
	flags.BoolVar(&req.dryRun, "dry-run", false, "print the differences, and write nothing")
	lookup.CompleteNoFiles(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) != 1:
			return exit.Usagef("specify a package: kubectl catalog init PACKAGE --channel CHANNEL")
		case req.channel == "":
			return exit.Usagef("specify the default channel: --channel NAME")
		}
		if err := checkNames(args[0], req.channel); err != nil {
			return err
		}
		req.name = args[0]
		blob, err := req.blob()
		if err != nil {
			return err
		}
		if _, err := os.Stat(req.to); req.dryRun && errors.Is(err, fs.ErrNotExist) {
			req.to = "yaml"
		}
		if isStream(req.to) {
			sink, err := openSink(s.Stdout, req.to, false)
			if err != nil {
				return err
			}
			return errors.Join(sink.Put(req.name, blob), sink.Commit())
		}
		return addPackage(cmd.Context(), s, req, blob)
	}
	return cmd
}

// checkNames returns an error for names that lint refuses.
func checkNames(pkg string, channels ...string) error {
	if faults := validation.IsDNS1123Label(pkg); len(faults) > 0 {
		return exit.Usagef("package name %q is invalid: %s", pkg, faults[0])
	}
	for _, name := range channels {
		if name == "" || strings.ContainsFunc(name, unicode.IsSpace) {
			return exit.Usagef("channel name %q is invalid: it must not be empty or contain white space", name)
		}
	}
	return nil
}

// addPackage adds a package to a catalog, which is invalid until it has a channel.
func addPackage(ctx context.Context, s *session.Session, req initRequest, blob []byte) error {
	if err := createCatalog(req.to); err != nil {
		return err
	}
	r, end, err := (&bundleFlags{}).renderer(s)
	if err != nil {
		return err
	}
	defer end()
	change := func(c *edit.Catalog) error { return c.AddPackage(req.name, blob) }
	if err := runEdits(ctx, s, r, req.dryRun, catalogChange{ref: req.to, change: change, incomplete: true}); err != nil || req.dryRun {
		return err
	}
	fmt.Fprintf(s.Stderr, "to add its first bundle: kubectl catalog bundle add %s IMAGE --channel %s\n", req.to, req.channel)
	return nil
}

// createCatalog makes the directory or the file of a catalog, if it does not exist.
func createCatalog(name string) error {
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return os.WriteFile(name, nil, 0o666)
	}
	return os.MkdirAll(name, 0o777)
}

func (r initRequest) blob() ([]byte, error) {
	pkg := declcfg.Package{Schema: declcfg.SchemaPackage, Name: r.name, DefaultChannel: r.channel}
	if r.description != "" {
		text, err := os.ReadFile(r.description)
		if err != nil {
			return nil, fmt.Errorf("reading the description: %w", err)
		}
		pkg.Description = string(text)
	}
	if r.icon != "" {
		data, err := os.ReadFile(r.icon)
		if err != nil {
			return nil, fmt.Errorf("reading the icon: %w", err)
		}
		pkg.Icon = &declcfg.Icon{Data: data, MediaType: mediaTypeOf(data)}
		if !strings.HasPrefix(pkg.Icon.MediaType, "image/") {
			return nil, fmt.Errorf("%s is not an image: specify an SVG, PNG, JPEG or GIF file", r.icon)
		}
	}
	return render.Encode(pkg)
}

func mediaTypeOf(data []byte) string {
	found := http.DetectContentType(data)
	if (strings.HasPrefix(found, "text/xml") || strings.HasPrefix(found, "text/plain")) && bytes.Contains(data, []byte("<svg")) {
		return "image/svg+xml"
	}
	return found
}
