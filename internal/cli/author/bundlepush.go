package author

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/internal/authoring/render"
	"github.com/operator-catalogs/catalogd/internal/catalogimage"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// annotationsFile is the file with the annotations of a bundle, which are the labels of its image.
const annotationsFile = "metadata/annotations.yaml"

func newBundleInitCommand(s *session.Session) *cobra.Command {
	var pkg, defaultChannel string
	var channels []string
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Create a bundle from a directory of manifests",
		Long: `Create a bundle from a directory of manifests: write metadata/annotations.yaml, which names the
package and the channels. An existing file is not replaced. The result is checked; kubectl catalog
bundle push makes an image of it.`,
		Example: `  kubectl catalog bundle init ./bundle --package foo --channel stable
  kubectl catalog bundle init ./bundle --package foo --channel fast,stable --default-channel stable`,
		ValidArgsFunction: completePath,
	}
	flags := cmd.Flags()
	flags.StringVar(&pkg, "package", "", "the `package` of the bundle")
	flags.StringSliceVar(&channels, "channel", []string{"stable"}, "a `channel` of the bundle; may be repeated")
	flags.StringVar(&defaultChannel, "default-channel", "", "the default `channel` of the package")
	lookup.CompleteNoFiles(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) != 1:
			return exit.Usagef("specify a directory: kubectl catalog bundle init DIR")
		case pkg == "":
			return exit.Usagef("specify the package: --package NAME")
		case defaultChannel != "" && !slices.Contains(channels, defaultChannel):
			return exit.Usagef("--default-channel %q is not one of --channel", defaultChannel)
		}
		if err := checkNames(pkg, channels...); err != nil {
			return err
		}
		return initBundle(s, args[0], render.Annotations(pkg, channels, defaultChannel))
	}
	return cmd
}

// initBundle writes annotations.yaml, and removes it again if the result is not a bundle.
func initBundle(s *session.Session, dir string, annotations map[string]string) (err error) {
	text, err := yaml.Marshal(map[string]any{"annotations": annotations})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "metadata"), 0o777); err != nil {
		return err
	}
	name := filepath.Join(dir, annotationsFile)
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s already exists: edit it, or remove it first", name)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err == nil {
		_, err = checkBundle(dir)
	}
	if err != nil {
		return errors.Join(err, os.Remove(name))
	}
	fmt.Fprintf(s.Stderr, "wrote %s\n", name)
	return nil
}

// checkBundle renders a bundle. What opm ignores is an error.
func checkBundle(dir string) (*render.Bundle, error) {
	r, err := render.New(render.Options{})
	if err != nil {
		return nil, err
	}
	b, err := r.Directory(dir)
	if err == nil && len(b.Warnings) > 0 {
		err = fmt.Errorf("the bundle in %s is invalid:\n  %s", dir, strings.Join(b.Warnings, "\n  "))
	}
	return b, err
}

func newBundlePushCommand(s *session.Session) *cobra.Command {
	var req pushRequest
	cmd := &cobra.Command{
		Use:   "push DIR IMAGE",
		Short: "Build a bundle image from a directory and push it",
		Long: `Build a bundle image from a directory with manifests and metadata, and push it. Its labels are the
annotations of metadata/annotations.yaml. A bundle that opm would read only in part is not pushed.

The image is reproducible, and an index for four architectures, as in kubectl catalog push. The command
prints the image with its digest, for kubectl catalog bundle add.`,
		Example: `  kubectl catalog bundle push ./bundle quay.io/example/foo-bundle:v1.0.0
  kubectl catalog bundle push ./bundle quay.io/example/foo-bundle:v1.0.0 --dry-run=client`,
		ValidArgsFunction: completePath,
	}
	req.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := req.parse(cmd, args); err != nil {
			return err
		}
		result, err := pushBundle(cmd.Context(), s, req)
		if err != nil {
			return err
		}
		return result.report(s, req.format)
	}
	return cmd
}

func pushBundle(ctx context.Context, s *session.Session, req pushRequest) (*pushed, error) {
	if _, err := checkBundle(req.dir); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(req.dir, annotationsFile))
	if err != nil {
		return nil, err
	}
	var metadata struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := yaml.Unmarshal(text, &metadata); err != nil {
		return nil, fmt.Errorf("parsing %s: %w", annotationsFile, err)
	}
	result, err := pushIndex(ctx, s, req, func(dir string) (v1.ImageIndex, error) {
		return catalogimage.BuildBundle(dir, metadata.Annotations)
	})
	if err == nil {
		result.bundle = true
	}
	return result, err
}
