package cli

import (
	"fmt"
	"slices"
	"strings"

	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// printPage shows a package for people.
func (e *env) printPage(p *packagePage) error {
	for _, part := range []func(*packagePage) error{
		e.printTitle, e.printFacts, e.printDescription, e.printChannels, e.printAPIs, e.printNeeds, e.printImages, e.printLinks, e.printCommands,
	} {
		if err := part(p); err != nil {
			return err
		}
	}
	return nil
}

func (e *env) printTitle(p *packagePage) error {
	var b strings.Builder
	b.WriteString(e.stdout.Paint(term.Bold, term.Line(p.DisplayName)) + "  " + term.Line(p.Bundle.Version) + "\n")
	if p.ShortDescription != "" && p.ShortDescription != p.Description {
		b.WriteString(e.stdout.Markdown(term.Line(p.ShortDescription)))
	}
	for _, d := range deprecations(p) {
		b.WriteString("\n" + e.stdout.Paint(term.Bold+";"+term.Red, "DEPRECATED: "+d[0]) + "\n")
		for line := range strings.Lines(e.stdout.Markdown(d[1])) {
			b.WriteString("  " + line)
		}
	}
	b.WriteByte('\n')
	_, err := fmt.Fprint(e.stdout, b.String())
	return err
}

// deprecations are what of the package is deprecated, and why.
func deprecations(p *packagePage) [][2]string {
	var all [][2]string
	if p.Deprecation != nil {
		all = append(all, [2]string{"the package", p.Deprecation.Message})
	}
	for _, c := range p.Channels {
		if c.Deprecation != nil && slices.Contains(p.Bundle.Channels, named{c.Name}) {
			all = append(all, [2]string{"channel " + term.Line(c.Name), c.Deprecation.Message})
		}
	}
	if p.Bundle.Deprecation != nil {
		all = append(all, [2]string{"version " + term.Line(p.Bundle.Version), p.Bundle.Deprecation.Message})
	}
	return all
}

func (e *env) printFacts(p *packagePage) error {
	catalog := p.Catalog.Name
	if len(p.Also) > 0 {
		var others []string
		for _, o := range p.Also {
			others = append(others, o.Catalog.Name+" "+o.Version)
		}
		catalog += " (also in " + strings.Join(others, ", ") + ")"
	}
	var channels []string
	for _, c := range p.Bundle.Channels {
		channels = append(channels, c.Name)
	}
	facts := [][2]string{
		{"Package", p.Name},
		{"Catalog", catalog},
		{"Version", p.Bundle.Version + " (" + p.Bundle.Name + ") in " + strings.Join(channels, ", ")},
		{"Provider", p.Provider},
		{"Capability level", p.Capabilities},
		{"Categories", strings.Join(p.Categories, ", ")},
		{"Keywords", strings.Join(p.Keywords, ", ")},
	}
	if csv := p.Bundle.CSV; csv != nil {
		facts[3][1] = joinedWith(csv.Provider.Name, csv.Provider.URL)
		var modes, people []string
		for _, m := range csv.InstallModes {
			if m.Supported {
				modes = append(modes, m.Type)
			}
		}
		for _, m := range csv.Maintainers {
			people = append(people, joinedWith(m.Name, m.Email))
		}
		kubernetes := ""
		if csv.MinKubeVersion != "" {
			kubernetes = csv.MinKubeVersion + " or newer"
		}
		facts = append(facts, [][2]string{
			{"Maturity", csv.Maturity}, {"Kubernetes", kubernetes}, {"Install modes", strings.Join(modes, ", ")}, {"Maintainers", strings.Join(people, ", ")},
		}...)
	}
	for i := range facts {
		facts[i][1] = term.Line(facts[i][1])
	}
	return e.stdout.Fields(0, facts...)
}

// joinedWith is a name with an address in angle brackets behind it, if there is one.
func joinedWith(name, address string) string {
	switch {
	case address == "":
		return name
	case name == "" || name == address:
		return address
	}
	return name + " <" + address + ">"
}

func (e *env) heading(text string) error {
	_, err := fmt.Fprintf(e.stdout, "\n%s\n", e.stdout.Paint(term.Bold+";"+term.Underline, text))
	return err
}

func (e *env) printDescription(p *packagePage) error {
	text := e.stdout.Markdown(p.Description)
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintf(e.stdout, "\n%s", text)
	return err
}

// section prints a table below a heading, unless it has no rows.
func (e *env) section(p *packagePage, title string, columns []term.Column, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	if err := e.heading(title); err != nil {
		return err
	}
	return e.stdout.Print(term.Table{Columns: columns, Rows: rows}, term.Options{Wide: p.wide})
}

func (e *env) printChannels(p *packagePage) error {
	var rows [][]string
	for _, c := range p.Channels {
		deprecated := c.Deprecation
		if deprecated == nil {
			deprecated = c.Head.Deprecation
		}
		rows = append(rows, []string{c.Name, c.Head.Version, c.Head.Name, notes(c.Name == p.DefaultChannel.Name, deprecated)})
	}
	return e.section(p, "Channels", []term.Column{{Name: "channel"}, {Name: "version"}, {Name: "head", Least: 16, Drop: 1}, note}, rows)
}

func (e *env) printAPIs(p *packagePage) error {
	about := map[gvk]string{}
	if csv := p.Bundle.CSV; csv != nil {
		for _, crd := range csv.CRDs.Owned {
			_, group, _ := strings.Cut(crd.Name, ".")
			about[gvk{group, crd.Version, crd.Kind}] = crd.Description
		}
	}
	var rows [][]string
	for _, api := range p.Bundle.Provides {
		rows = append(rows, []string{api.Kind, api.Version, api.Group, about[api]})
	}
	columns := []term.Column{{Name: "kind"}, {Name: "version"}, {Name: "group", Least: 16, Drop: 2}, {Name: "description", Least: 16, Drop: 1}}
	return e.section(p, "Provides", columns, rows)
}

func (e *env) printNeeds(p *packagePage) error {
	var rows [][]string
	for _, required := range p.Bundle.RequiredPackages {
		rows = append(rows, []string{"package", required.Name, required.Range})
	}
	for _, api := range p.Bundle.Requires {
		rows = append(rows, []string{"API", api.Kind, strings.TrimSuffix(api.Version+" of "+api.Group, " of ")})
	}
	return e.section(p, "Needs", []term.Column{{Name: "what"}, {Name: "name"}, {Name: "version"}}, rows)
}

func (e *env) printImages(p *packagePage) error {
	if err := e.heading("Images"); err != nil {
		return err
	}
	lines := []string{"bundle: " + p.Bundle.Image} // no table, in which they might be cut
	for _, image := range p.Bundle.Images {
		if image.Image != p.Bundle.Image {
			lines = append(lines, strings.Join(withoutEmpty([]string{image.Name, image.Image}), ": "))
		}
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(e.stdout, term.Line(line)); err != nil {
			return err
		}
	}
	return nil
}

func (e *env) printLinks(p *packagePage) error {
	if p.Bundle.CSV == nil || len(p.Bundle.CSV.Links) == 0 {
		return nil
	}
	if err := e.heading("Links"); err != nil {
		return err
	}
	for _, link := range p.Bundle.CSV.Links {
		if _, err := fmt.Fprintln(e.stdout, term.Line(joinedWith(link.Name, link.URL))); err != nil {
			return err
		}
	}
	return nil
}

// printCommands says how to go on. Names of sound packages need no quotes in a shell.
func (e *env) printCommands(p *packagePage) error {
	if err := e.heading("Go on with"); err != nil {
		return err
	}
	of := p.Name
	if len(p.Also) > 0 {
		of += " -c " + p.Catalog.Name
	}
	return e.stdout.Print(term.Table{Columns: []term.Column{{Name: "command"}, {Name: "what", Least: 10, Drop: 1}}, Rows: [][]string{
		{"kubectl catalog get bundles -p " + of, "its versions"},
		{"kubectl catalog graph " + of, "how they upgrade"},
		{"kubectl catalog path " + of + " --from VERSION", "the way from the one you have"},
	}}, term.Options{NoHeaders: true})
}
