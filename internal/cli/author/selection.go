package author

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/subset"
)

// selection selects a part of a catalog: arguments, as subset.Syntax describes them, and default channels.
type selection struct {
	defaults []string
}

// selectionHelp describes the arguments in the help of a command.
const selectionHelp = "\n\nSelect packages, or parts of them, by " + subset.Syntax + `

Entries of channels that are left out are skipped over: what replaced one replaces the next one that stays.
A bundle of a lower version that is replaced but left out is still named, so that clusters that have it can
upgrade.`

func (s *selection) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&s.defaults, "default-channel", nil,
		"set the default channel of a package, written `PACKAGE=CHANNEL`; needed if the selection leaves out the catalog's")
}

// rules parses arguments.
func (s *selection) rules(args []string) ([]subset.Include, error) {
	rules, err := subset.Parse(args)
	if err == nil {
		err = subset.SetDefaultChannels(rules, s.defaults)
	}
	if err == nil {
		err = subset.Filter{Include: rules}.Validate()
	}
	if err != nil {
		return nil, exit.AsUsage(err)
	}
	return rules, nil
}

// selectionError adds the remedy to an error of a filter.
func selectionError(err error) error {
	fault, ok := errors.AsType[*subset.Error](err)
	if !ok || len(fault.Kept) == 0 {
		return err
	}
	return exit.AsUsage(fmt.Errorf("%w: --default-channel %s=%s", err, fault.Package, fault.Kept[len(fault.Kept)-1]))
}

// packagesOf returns the packages of rules, each once, in their order, with the rules of each.
func packagesOf(rules []subset.Include) (names []string, of map[string][]subset.Include) {
	of = map[string][]subset.Include{}
	for _, r := range rules {
		if of[r.Package] == nil {
			names = append(names, r.Package)
		}
		of[r.Package] = append(of[r.Package], r)
	}
	return names, of
}

// splitPackages splits the values of --packages at commas.
func splitPackages(values []string) (args []string) {
	for _, v := range values {
		for arg := range strings.SplitSeq(v, ",") {
			if arg = strings.TrimSpace(arg); arg != "" {
				args = append(args, arg)
			}
		}
	}
	return args
}
