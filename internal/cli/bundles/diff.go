package bundles

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/bundle"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

func newDiffCommand(s *session.Session) *cobra.Command {
	var catalog string
	var exitCode bool
	cmd := &cobra.Command{
		Use:   "diff PACKAGE[@VERSION] PACKAGE[@VERSION]",
		Short: "Show what changes on the cluster when one bundle replaces another",
		Long: `Show what changes on the cluster when the second bundle replaces the first: permissions that its
ServiceAccounts gain (+) or lose (-); CRDs and their versions; schema changes that can invalidate
stored objects or drop their fields (!); images, webhooks and install modes.

With --exit-code, the exit code is 0 without differences and 1 with differences. Failures have other
codes: 2 for an invalid command line, 3 if a bundle does not exist, 4 for any other failure.`,
		Example: `  kubectl catalog bundle diff shipwright-operator@0.9.0 shipwright-operator@0.13.0
  kubectl catalog bundle diff shipwright-operator@0.9.0 shipwright-operator -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return exit.Usagef("specify two bundles: kubectl catalog bundle diff PACKAGE@VERSION PACKAGE@VERSION")
		},
	}
	format := output.NewUnnamedFormat(cmd)
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with code 1 if there are differences")
	addCatalogFlag(s, cmd, &catalog)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := compare(cmd.Context(), s, args, catalog)
		switch {
		case err != nil:
		case format.IsTable():
			err = printDifference(s.Stdout, d)
		default:
			err = format.PrintObject(s.Stdout, "BundleDifference", "", d)
		}
		if !exitCode {
			return err
		}
		if err == nil && !d.IsEmpty() {
			err = exit.Silent(errors.New("the bundles differ"))
		}
		return exit.AsTrouble(err)
	}
	return cmd
}

func compare(ctx context.Context, s *session.Session, args []string, catalog string) (bundle.Difference, error) {
	var objects [2][][]byte
	for i, arg := range args {
		f, err := find(ctx, s, arg, catalog)
		if err != nil {
			return bundle.Difference{}, err
		}
		if objects[i], err = f.objects(ctx, "", "", s.Stderr.Warnf); err != nil {
			return bundle.Difference{}, err
		}
	}
	return bundle.Compare(objects[0], objects[1])
}

func printDifference(to *output.Terminal, d bundle.Difference) error {
	lines := &output.Lines{Terminal: to}
	section := func(title string, lists ...[]string) {
		first := true
		for _, list := range lists {
			for _, line := range list {
				if first {
					lines.Printf("%s\n", to.Paint(output.Bold, title))
					first = false
				}
				style := map[byte]output.Style{'+': output.Green, '-': output.Red, '!': output.Yellow}[line[0]]
				lines.Printf("  %s\n", to.Paint(style, output.Line(line)))
			}
		}
	}
	if d.IsEmpty() {
		lines.Printf("No differences.\n")
	}
	section("Rights", rightLines("+", d.RightsGained), rightLines("-", d.RightsLost))
	var versions, breaking []string
	for _, v := range d.Versions {
		mark := "- version "
		if v.Added {
			mark = "+ version "
		}
		versions = append(versions, mark+v.Version+" of "+v.CRD)
	}
	for _, c := range d.Breaking {
		breaking = append(breaking, strings.Join(strings.Fields(fmt.Sprintf("! %s %s: %s %s", c.CRD, c.Version, c.Path, c.Change)), " "))
	}
	section("CustomResourceDefinitions", marked("+", d.CRDsAdded), marked("-", d.CRDsRemoved), versions)
	section("Changes that can break stored objects", breaking)
	section("Webhooks", marked("+", d.WebhooksAdded), marked("-", d.WebhooksRemoved))
	section("Install modes", marked("+", d.InstallModesAdded), marked("-", d.InstallModesRemoved))
	section("Images", marked("+", d.ImagesAdded), marked("-", d.ImagesRemoved))
	return lines.Err
}

func marked(mark string, names []string) (lines []string) {
	for _, name := range names {
		lines = append(lines, mark+" "+name)
	}
	return lines
}

func rightLines(mark string, rights []bundle.Right) (lines []string) {
	for _, r := range rights {
		account := r.ServiceAccount
		if account == "" {
			account = "(no ServiceAccount)"
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s %s (%s)", mark, account, strings.Join(r.Verbs, ","), r.On, strings.ToLower(string(r.Scope))))
	}
	return lines
}
