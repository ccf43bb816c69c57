package packages

import (
	"cmp"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
)

// print prints the details as a page. With wide, no table is cut.
func (p *packageDetails) print(to *output.Terminal, wide bool) error {
	page := &page{Lines: output.Lines{Terminal: to}, packageDetails: p, wide: wide}
	page.title()
	page.facts()
	if text := to.Markdown(p.Description); text != "" {
		page.Printf("\n%s", text)
	}
	page.channels()
	page.apis()
	page.requirements()
	page.images()
	page.links()
	page.commands()
	return page.Err
}

// A page prints package details.
type page struct {
	output.Lines
	*packageDetails
	wide bool
}

func (p *page) title() {
	p.Printf("%s  %s\n", p.Paint(output.Bold, output.Line(p.DisplayName)), output.Line(p.Bundle.Version))
	if p.ShortDescription != "" && p.ShortDescription != p.Description {
		p.Printf("%s", p.Markdown(output.Line(p.ShortDescription)))
	}
	p.deprecated("the package", p.Deprecation)
	for _, c := range p.Channels {
		if slices.Contains(p.Bundle.Channels, content.Named{Name: c.Name}) {
			p.deprecated("channel "+output.Line(c.Name), c.Deprecation)
		}
	}
	p.deprecated("version "+output.Line(p.Bundle.Version), p.Bundle.Deprecation)
	p.Printf("\n")
}

func (p *page) deprecated(what string, by *content.Deprecation) {
	if by == nil {
		return
	}
	p.Printf("\n%s\n", p.Paint(output.Bold+";"+output.Red, "DEPRECATED: "+what))
	for line := range strings.Lines(p.Markdown(by.Message)) {
		p.Printf("  %s", line)
	}
}

func (p *page) facts() {
	catalog := p.Catalog.Name
	if len(p.Also) > 0 {
		var others []string
		for _, o := range p.Also {
			others = append(others, o.Catalog.Name+" "+o.Version)
		}
		catalog += " (also in " + strings.Join(others, ", ") + ")"
	}
	channels := strings.Join(content.Names(p.Bundle.Channels), ", ")
	facts := [][2]string{
		{"Package", p.Name},
		{"Catalog", catalog},
		{"Version", p.Bundle.Version + " (" + p.Bundle.Name + ") in " + channels},
		{"Provider", p.Provider},
		{"Capability level", p.Capabilities},
		{"Categories", strings.Join(p.Categories, ", ")},
		{"Keywords", strings.Join(p.Keywords, ", ")},
	}
	if csv := p.Bundle.CSV; csv != nil {
		facts[3][1] = withAddress(csv.Provider.Name, csv.Provider.URL)
		facts = append(facts, csvFacts(csv)...)
	}
	for i := range facts {
		facts[i][1] = output.Line(facts[i][1])
	}
	p.Do(func() error { return p.Fields(0, facts...) })
}

func csvFacts(csv *csvDetails) [][2]string {
	var modes, people []string
	for _, m := range csv.InstallModes {
		if m.Supported {
			modes = append(modes, m.Type)
		}
	}
	for _, m := range csv.Maintainers {
		people = append(people, withAddress(m.Name, m.Email))
	}
	kubernetes := ""
	if csv.MinKubeVersion != "" {
		kubernetes = csv.MinKubeVersion + " or newer"
	}
	return [][2]string{
		{"Maturity", csv.Maturity}, {"Kubernetes", kubernetes}, {"Install modes", strings.Join(modes, ", ")},
		{"Maintainers", strings.Join(people, ", ")},
	}
}

// withAddress returns a name with its address, if there is one: NAME <ADDRESS>.
func withAddress(name, address string) string {
	switch {
	case address == "":
		return name
	case name == "" || name == address:
		return address
	}
	return name + " <" + address + ">"
}

func (p *page) heading(text string) {
	p.Printf("\n%s\n", p.Paint(output.Bold+";"+output.Underline, text))
}

// section prints a table with a heading, unless it is empty.
func (p *page) section(title string, columns []output.Column, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	p.heading(title)
	p.Do(func() error { return p.Print(output.Table{Columns: columns, Rows: rows}, output.Options{Wide: p.wide}) })
}

func (p *page) channels() {
	var rows [][]string
	for _, c := range p.Channels {
		deprecated := cmp.Or(c.Deprecation, c.Head.Deprecation)
		rows = append(rows, []string{c.Name, c.Head.Version, c.Head.Name, notes(c.Name == p.DefaultChannel.Name, deprecated)})
	}
	p.section("Channels", []output.Column{{Name: "channel"}, {Name: "version"}, {Name: "head", Least: 16, Drop: 1}, note}, rows)
}

func (p *page) apis() {
	descriptions := map[gvk]string{}
	if csv := p.Bundle.CSV; csv != nil {
		for _, crd := range csv.CRDs.Owned {
			_, group, _ := strings.Cut(crd.Name, ".")
			descriptions[gvk{group, crd.Version, crd.Kind}] = crd.Description
		}
	}
	var rows [][]string
	for _, api := range p.Bundle.Provides {
		rows = append(rows, []string{api.Kind, api.Version, api.Group, descriptions[api]})
	}
	p.section("Provided APIs", []output.Column{
		{Name: "kind"}, {Name: "version"}, {Name: "group", Least: 16, Drop: 2}, {Name: "description", Least: 16, Drop: 1},
	}, rows)
}

func (p *page) requirements() {
	var rows [][]string
	for _, required := range p.Bundle.RequiredPackages {
		rows = append(rows, []string{"package", required.Name, required.Range})
	}
	for _, api := range p.Bundle.Requires {
		rows = append(rows, []string{"API", api.Kind, strings.TrimSuffix(api.Version+" of "+api.Group, " of ")})
	}
	p.section("Requirements", []output.Column{{Name: "type"}, {Name: "name"}, {Name: "version"}}, rows)
}

// images prints lines instead of a table, which might cut them.
func (p *page) images() {
	p.heading("Images")
	p.Printf("%s\n", output.Line("bundle: "+p.Bundle.Image))
	for _, image := range p.Bundle.Images {
		if image.Image != p.Bundle.Image {
			p.Printf("%s\n", output.Line(strings.Join(output.WithoutEmpty(image.Name, image.Image), ": ")))
		}
	}
}

func (p *page) links() {
	if p.Bundle.CSV == nil || len(p.Bundle.CSV.Links) == 0 {
		return
	}
	p.heading("Links")
	for _, link := range p.Bundle.CSV.Links {
		p.Printf("%s\n", output.Line(withAddress(link.Name, link.URL)))
	}
}

// commands prints further commands. Names of valid packages need no quotes in a shell.
func (p *page) commands() {
	p.heading("Next commands")
	of := p.Name
	if len(p.Also) > 0 {
		of += " -c " + p.Catalog.Name
	}
	table := output.Table{Columns: []output.Column{{Name: "command"}, {Name: "purpose", Least: 10, Drop: 1}}, Rows: [][]string{
		{"kubectl catalog get bundles -p " + of, "list its versions"},
		{"kubectl catalog graph " + of, "draw its upgrade graph"},
		{"kubectl catalog path " + of + " --from VERSION", "find the upgrade path from your version"},
	}}
	p.Do(func() error { return p.Print(table, output.Options{NoHeaders: true}) })
}
