package main

// Units of Grafana.
const (
	unitNone           = "short"
	unitSeconds        = "s"
	unitBytes          = "bytes"
	unitBytesPerSecond = "Bps"
	unitPerSecond      = "reqps"
	unitPercent        = "percentunit"
)

// A row is a title and panels, side by side where they fit.
type row struct {
	title  string
	panels []panel
}

// A panel is the used part of a panel in Grafana's JSON model.
type panel struct {
	ID          int       `json:"id"`
	Type        string    `json:"type"`
	Title       string    `json:"title"`
	Description string    `json:"description,omitempty"`
	Datasource  *source   `json:"datasource,omitempty"`
	GridPos     gridPos   `json:"gridPos"`
	Targets     []target  `json:"targets,omitempty"`
	FieldConfig *fields   `json:"fieldConfig,omitempty"`
	Options     *options  `json:"options,omitempty"`
	Panels      *[]string `json:"panels,omitempty"` // of a folded row
}

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type gridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type target struct {
	RefID        string `json:"refId"`
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat,omitempty"`
}

type fields struct {
	Defaults  fieldDefaults `json:"defaults"`
	Overrides []string      `json:"overrides"`
}

type fieldDefaults struct {
	Unit string `json:"unit"`
}

type options struct {
	GraphMode string `json:"graphMode,omitempty"`
	TextMode  string `json:"textMode,omitempty"`
}

// A variable is a selector above the panels.
type variable struct {
	Name       string  `json:"name"`
	Label      string  `json:"label"`
	Type       string  `json:"type"`
	Query      string  `json:"query"`
	Datasource *source `json:"datasource,omitempty"`
	Refresh    int     `json:"refresh"`
	IncludeAll bool    `json:"includeAll,omitempty"`
	AllValue   string  `json:"allValue,omitempty"`
	Multi      bool    `json:"multi,omitempty"`
}

type dashboard struct {
	UID           string     `json:"uid"`
	Title         string     `json:"title"`
	Tags          []string   `json:"tags"`
	SchemaVersion int        `json:"schemaVersion"`
	Editable      bool       `json:"editable"`
	Refresh       string     `json:"refresh"`
	Time          timeRange  `json:"time"`
	Templating    templating `json:"templating"`
	Panels        []panel    `json:"panels"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type templating struct {
	List []variable `json:"list"`
}

var prometheus = &source{Type: "prometheus", UID: "${datasource}"}

// stat returns a panel with the current value of a query.
func stat(title, unit, expr, legend string) panel {
	p := query("stat", title, "", unit, expr, legend)
	p.Options = &options{GraphMode: "area"}
	if legend != "" {
		p.Options.TextMode = "value_and_name"
	}
	return p
}

// graph returns a panel with a query over time.
func graph(title, description, unit, expr, legend string) panel {
	return query("timeseries", title, description, unit, expr, legend)
}

func query(kind, title, description, unit, expr, legend string) panel {
	return panel{
		Type: kind, Title: title, Description: description, Datasource: prometheus,
		Targets:     []target{{RefID: "A", Expr: expr, LegendFormat: legend}},
		FieldConfig: &fields{Defaults: fieldDefaults{Unit: unit}, Overrides: []string{}},
	}
}

const (
	gridWidth   = 24 // Grafana's
	statWidth   = 4
	statHeight  = 4
	graphWidth  = 8
	graphHeight = 8
)

// newDashboard returns a dashboard with the panels of the rows.
func newDashboard(rows []row) dashboard {
	d := dashboard{
		UID: "catalogd", Title: "catalogd", Tags: []string{"catalogd"}, SchemaVersion: 39, Editable: true, Refresh: "1m",
		Time: timeRange{From: "now-6h", To: "now"},
		Templating: templating{List: []variable{
			{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus", Refresh: 1},
			choice("namespace", "Namespace", "label_values(catalogd_build_info, namespace)"),
			choice("job", "Job", `label_values(catalogd_build_info{namespace=~"$namespace"}, job)`),
			choice("catalog", "Catalog", `label_values(catalogd_ready{namespace=~"$namespace", job=~"$job"}, catalog)`),
		}},
	}
	y := 0
	add := func(p panel, x, w, h int) {
		p.ID, p.GridPos = len(d.Panels)+1, gridPos{H: h, W: w, X: x, Y: y}
		d.Panels = append(d.Panels, p)
	}
	for _, r := range rows {
		add(panel{Type: "row", Title: r.title, Panels: &[]string{}}, 0, gridWidth, 1)
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			w, h := graphWidth, graphHeight
			if p.Type == "stat" {
				w, h = statWidth, statHeight
			}
			if x+w > gridWidth {
				x, y = 0, y+height
			}
			add(p, x, w, h)
			x, height = x+w, h
		}
		y += height
	}
	return d
}

// choice returns a variable with the values of a label, initially all.
func choice(name, label, query string) variable {
	return variable{
		Name: name, Label: label, Type: "query", Query: query, Datasource: prometheus,
		Refresh: 2, IncludeAll: true, AllValue: ".*", Multi: true,
	}
}
