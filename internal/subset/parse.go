package subset

import (
	"fmt"
	"slices"
	"strings"
)

// heads selects only the heads of channels.
const heads = "heads"

// Syntax describes what Parse reads, for the help of commands.
const Syntax = `PACKAGE[/CHANNEL][@VERSIONS]. To select several channels or ranges of a package, repeat it. VERSIONS is one of:
  @1.2.0..         version 1.2.0 and later, also written @>=1.2.0 (in quotes: > is a redirection in shells)
  @..2.0.0         up to version 2.0.0, also written @<=2.0.0
  @1.2.0..2.0.0    from 1.2.0 up to 2.0.0
  @=1.2.0          version 1.2.0 only
  @heads           the heads of the channels only
Bounds are inclusive semantic versions.`

// Parse reads rules as in the arguments of commands; Syntax describes them.
func Parse(args []string) ([]Include, error) {
	var rules []Include
	for _, arg := range args {
		r, err := parseRule(arg)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func parseRule(arg string) (Include, error) {
	name, versions, hasVersions := strings.Cut(arg, "@")
	pkg, channel, hasChannel := strings.Cut(name, "/")
	r := Include{Package: pkg}
	if hasChannel {
		r.Channels = []string{channel}
	}
	invalid := func(problem string) error {
		return fmt.Errorf("invalid selection %q: %s; write it like foo, foo/stable, foo@1.2.0.. or foo/stable@1.2.0..2.0.0", arg, problem)
	}
	switch {
	case pkg == "":
		return r, invalid("the package is empty")
	case hasChannel && channel == "":
		return r, invalid("the channel is empty")
	case !hasVersions:
		return r, nil
	}
	if problem := r.setVersions(versions); problem != "" {
		return r, invalid(problem)
	}
	if err := r.checkVersions(); err != nil {
		return r, invalid(err.Error())
	}
	return r, nil
}

// setVersions reads what follows @. It returns the problem, if there is one.
func (r *Include) setVersions(text string) (problem string) {
	from, to, isRange := strings.Cut(text, "..")
	switch {
	case text == heads:
		r.OnlyHeads = true
	case strings.HasPrefix(text, ">="):
		r.MinVersion = text[2:]
	case strings.HasPrefix(text, "<="):
		r.MaxVersion = text[2:]
	case strings.HasPrefix(text, "="):
		r.MinVersion, r.MaxVersion = text[1:], text[1:]
	case isRange:
		r.MinVersion, r.MaxVersion = from, to
	case strings.HasPrefix(text, ">"), strings.HasPrefix(text, "<"):
		return "bounds are inclusive: use >= or <="
	default:
		return fmt.Sprintf("%q is not a range: @=VERSION selects one version, and @VERSION.. it and all later ones", "@"+text)
	}
	if !r.OnlyHeads && r.MinVersion == "" && r.MaxVersion == "" {
		return "the version is missing"
	}
	return ""
}

// SetDefaultChannels sets the default channels of packages, written PACKAGE=CHANNEL, in the rules of the packages.
func SetDefaultChannels(rules []Include, settings []string) error {
	for _, text := range settings {
		pkg, channel, _ := strings.Cut(text, "=")
		if pkg == "" || channel == "" {
			return fmt.Errorf("invalid default channel %q: write it like foo=stable", text)
		}
		i := slices.IndexFunc(rules, func(r Include) bool { return r.Package == pkg })
		switch {
		case i < 0:
			return fmt.Errorf("default channel %q: package %q is not selected", text, pkg)
		case rules[i].DefaultChannel != "" && rules[i].DefaultChannel != channel:
			return fmt.Errorf("package %q has two default channels, %q and %q: specify one", pkg, rules[i].DefaultChannel, channel)
		}
		rules[i].DefaultChannel = channel
	}
	return nil
}
