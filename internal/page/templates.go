package page

import (
	"embed"
	"html/template"
	"path"
)

//go:embed templates/*.html
var templateFiles embed.FS

// parseTemplates returns the template of each page, with the layout around it.
func parseTemplates() map[string]*template.Template {
	names, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err) // embedded files can be read
	}
	out := map[string]*template.Template{}
	for _, file := range names {
		name := file.Name()
		if name == "layout.html" {
			continue
		}
		out[name] = template.Must(template.New(name).Funcs(functions).
			ParseFS(templateFiles, "templates/layout.html", path.Join("templates", name)))
	}
	return out
}

// functions are those of all templates.
var functions = template.FuncMap{}
