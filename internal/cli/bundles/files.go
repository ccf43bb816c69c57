package bundles

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

func newManifestsCommand(s *session.Session) *cobra.Command {
	var catalog, kind, name, format string
	cmd := &cobra.Command{
		Use:   "manifests PACKAGE[@VERSION]",
		Short: "Print the objects of a bundle",
		Long: `Print the objects of a bundle, in the order of its files, for kubectl and other programs. OLM does
more than apply them: it installs the ClusterServiceVersion and binds its permissions.`,
		Example: `  kubectl catalog bundle manifests shipwright-operator --kind CustomResourceDefinition |
    kubectl apply --dry-run=server -f -
  kubectl catalog bundle manifests shipwright-operator@0.9.0 -o json | jq .metadata.name`,
		Args: oneBundle,
	}
	flags := cmd.Flags()
	flags.StringVar(&kind, "kind", "", "print only objects of this `kind`")
	flags.StringVar(&name, "name", "", "print only objects of this `name`")
	flags.StringVarP(&format, "output", "o", "yaml", "`format`: yaml, or json (one object per line)")
	addCatalogFlag(s, cmd, &catalog)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if format != "yaml" && format != "json" {
			return output.UnknownFormat(format, []string{"yaml", "json"})
		}
		f, err := find(cmd.Context(), s, args[0], catalog)
		if err != nil {
			return err
		}
		objects, err := f.objects(cmd.Context(), kind, name, s.Stderr.Warnf)
		if err != nil {
			return err
		}
		if len(objects) == 0 {
			return exit.NotFoundf("no matching objects in bundle %s", f.Name)
		}
		return printObjects(s.Stdout, objects, format)
	}
	return cmd
}

func printObjects(to *output.Terminal, objects [][]byte, format string) error {
	clean := to.Clean(format == "json")
	for i, object := range objects {
		text := append(object, '\n')
		if format == "yaml" {
			var err error
			if text, err = yaml.JSONToYAML(object); err != nil {
				return err
			}
			if i > 0 {
				text = append([]byte("---\n"), text...)
			}
		}
		if _, err := io.WriteString(to, clean(string(text))); err != nil {
			return err
		}
	}
	return nil
}

func newGetCommand(s *session.Session) *cobra.Command {
	var catalog, directory string
	cmd := &cobra.Command{
		Use:   "get PACKAGE[@VERSION]",
		Short: "Write the files of a bundle to a directory",
		Long: `Write the files of a bundle to a directory, byte for byte: manifests/ and metadata/. Files that exist
are not overwritten. With --directory -, a tar is written to standard output instead.`,
		Example: `  kubectl catalog bundle get shipwright-operator
  kubectl catalog bundle get shipwright-operator@0.9.0 --directory old
  kubectl catalog bundle get shipwright-operator --directory - | tar t`,
		Args: oneBundle,
	}
	cmd.Flags().StringVarP(&directory, "directory", "d", "", "write to this `directory` (default: the name of the bundle)")
	addCatalogFlag(s, cmd, &catalog)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := find(cmd.Context(), s, args[0], catalog)
		if err != nil {
			return err
		}
		if directory == "" {
			if path.Base(f.Name) != f.Name || strings.HasPrefix(f.Name, ".") || strings.HasPrefix(f.Name, "-") || !filepath.IsLocal(f.Name) {
				return exit.Usagef("bundle name %q is not a valid directory name; specify a directory with --directory", f.Name)
			}
			directory = f.Name
		}
		n, err := f.write(cmd.Context(), s, directory)
		if err == nil && directory != "-" {
			_, err = fmt.Fprintf(s.Stdout, "%s written to %s\n", output.Counted(n, "file", "files"), output.Line(directory))
		}
		return err
	}
	return cmd
}

// write writes the files of a bundle to a directory, or a tar to stdout, and returns their number.
func (f *found) write(ctx context.Context, s *session.Session, directory string) (n int, err error) {
	resp, err := f.service.Get(ctx, f.path("content.tar"), nil, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if directory == "-" {
		_, err := io.Copy(s.Stdout, resp.Body)
		return 0, err
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return 0, err
	}
	root, err := os.OpenRoot(directory) // no name leads out of it
	if err != nil {
		return 0, err
	}
	defer root.Close()
	archive := tar.NewReader(resp.Body)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err == nil {
			err = writeFile(root, header.Name, archive)
		}
		if err != nil {
			return n, fmt.Errorf("writing the files of %s to %s: %w", f.Name, directory, err)
		}
		n++
	}
}

func writeFile(root *os.Root, name string, data io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; specify another --directory", name)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(file, data)
	return errors.Join(err, file.Close())
}
