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

// Sizes on Grafana's grid.
const (
	gridWidth   = 24
	statWidth   = 4
	statHeight  = 4
	graphWidth  = 8
	graphHeight = 8
)

// object is an object of Grafana's JSON model.
type object = map[string]any

// A row is a title and panels, side by side where they fit.
type row struct {
	title  string
	panels []panel
}

// A panel has a size on the grid.
type panel struct {
	object
	width, height int
}

var prometheus = object{"type": "prometheus", "uid": "${datasource}"}

// stat shows the current value of a query.
func stat(title, unit, expr, legend string) panel {
	p := panel{query("stat", title, unit, expr, legend), statWidth, statHeight}
	options := object{"graphMode": "area"}
	if legend != "" {
		options["textMode"] = "value_and_name"
	}
	p.object["options"] = options
	return p
}

// graph shows a query over time.
func graph(title, description, unit, expr, legend string) panel {
	p := panel{query("timeseries", title, unit, expr, legend), graphWidth, graphHeight}
	if description != "" {
		p.object["description"] = description
	}
	return p
}

func query(kind, title, unit, expr, legend string) object {
	target := object{"refId": "A", "expr": expr}
	if legend != "" {
		target["legendFormat"] = legend
	}
	return object{
		"type": kind, "title": title, "datasource": prometheus, "targets": []any{target},
		"fieldConfig": object{"defaults": object{"unit": unit}, "overrides": []any{}},
	}
}

// newDashboard places the panels of the rows.
func newDashboard(rows []row) object {
	var panels []any
	y := 0
	add := func(p panel, x int) {
		p.object["id"] = len(panels) + 1
		p.object["gridPos"] = object{"h": p.height, "w": p.width, "x": x, "y": y}
		panels = append(panels, p.object)
	}
	for _, r := range rows {
		add(panel{object{"type": "row", "title": r.title, "panels": []any{}}, gridWidth, 1}, 0)
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			if x+p.width > gridWidth {
				x, y = 0, y+height
			}
			add(p, x)
			x, height = x+p.width, p.height
		}
		y += height
	}
	return object{
		"uid": "catalogd", "title": "catalogd", "tags": []string{"catalogd"}, "schemaVersion": 39, "editable": true, "refresh": "1m",
		"time": object{"from": "now-6h", "to": "now"},
		"templating": object{"list": []object{
			{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1},
			choice("namespace", "Namespace", "label_values(catalogd_build_info, namespace)"),
			choice("job", "Job", `label_values(catalogd_build_info{namespace=~"$namespace"}, job)`),
			choice("catalog", "Catalog", `label_values(catalogd_ready{namespace=~"$namespace", job=~"$job"}, catalog)`),
		}},
		"panels": panels,
	}
}

// choice is a variable with the values of a label; initially all are selected.
func choice(name, label, query string) object {
	return object{
		"name": name, "label": label, "type": "query", "query": query, "datasource": prometheus,
		"refresh": 2, "includeAll": true, "allValue": ".*", "multi": true,
	}
}
