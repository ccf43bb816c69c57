// Command gendocs writes a page of Markdown and a manual page for each command of the plugin: `make generate` runs it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/operator-catalogs/catalogd/internal/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gendocs DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1)
	}
}

// since is the date of all pages. The date of their generation would differ every day.
var since = time.Date(2026, time.November, 22, 0, 0, 0, 0, time.UTC)

// write replaces the content of dir.
func write(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	manual := filepath.Join(dir, "man")
	if err := os.MkdirAll(manual, 0o755); err != nil {
		return err
	}
	root := cli.NewRootCommand()
	if err := doc.GenManTreeFromOpts(root, doc.GenManTreeOptions{
		Header:           &doc.GenManHeader{Section: "1", Source: "catalogd", Manual: "kubectl catalog", Date: &since},
		Path:             manual,
		CommandSeparator: "-",
	}); err != nil {
		return err
	}
	return markdown(root, dir)
}

// markdown is doc.GenMarkdownTree with the flags of all commands on the page of the root command only.
func markdown(root *cobra.Command, dir string) error {
	var b strings.Builder
	page(&b, root)
	if err := os.WriteFile(filepath.Join(dir, file(root)), []byte(b.String()), 0o644); err != nil {
		return err
	}
	for _, cmd := range root.Commands() {
		if !cmd.IsAvailableCommand() {
			continue
		}
		if err := markdown(cmd, dir); err != nil {
			return err
		}
	}
	return nil
}

func file(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "_") + ".md"
}

func page(b *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(b, "# %s\n\n%s\n\n", cmd.CommandPath(), cmd.Short)
	if cmd.Long != "" {
		fmt.Fprintf(b, "%s\n\n", cmd.Long)
	}
	if cmd.Runnable() {
		fmt.Fprintf(b, "```\n%s\n```\n\n", cmd.UseLine())
	}
	if cmd.HasExample() {
		fmt.Fprintf(b, "## Examples\n\n```sh\n%s\n```\n\n", strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n"))
	}
	flags := cmd.NonInheritedFlags()
	if flags.HasAvailableFlags() {
		fmt.Fprintf(b, "## Flags\n\n```\n%s```\n\n", flags.FlagUsages())
	}
	if cmd.HasParent() {
		fmt.Fprintf(b, "Flags that every command has: [%s](%s).\n", cmd.Parent().CommandPath(), file(cmd.Parent()))
		return
	}
	b.WriteString("## Commands\n\n| command | does |\n|---|---|\n")
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			fmt.Fprintf(b, "| [%s](%s) | %s |\n", c.Name(), file(c), c.Short)
		}
	}
}
