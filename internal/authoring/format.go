package authoring

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Formats are the formats in which a Report can be written.
var Formats = []string{"text", "github", "sarif", "json"}

// Write writes the report as text with a fault per line, as GitHub workflow commands, as SARIF 2.1.0 or as JSON.
func (r *Report) Write(w io.Writer, format string) error {
	line := r.text
	switch format {
	case "text":
	case "github":
		line = gitHubCommand
	case "sarif":
		return writeJSON(w, r.sarif())
	case "json":
		return writeJSON(w, r)
	default:
		return fmt.Errorf("unknown format %q; valid formats are %s", format, strings.Join(Formats, ", "))
	}
	var out strings.Builder
	for _, f := range r.Faults {
		out.WriteString(line(f) + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func (r *Report) text(f Fault) string {
	where := cmp.Or(printable(f.File), r.Source)
	if at := f.Position(); at != "" {
		where += ":" + at
	}
	return fmt.Sprintf("%s: %s: %s [%s]", where, f.Severity, f.Message, f.Rule)
}

// Position returns "line:column", without unknown parts.
func (f Fault) Position() string {
	switch {
	case f.Line == 0:
		return ""
	case f.Column == 0:
		return strconv.Itoa(f.Line)
	}
	return fmt.Sprintf("%d:%d", f.Line, f.Column)
}

// Summary returns the number of faults and what catalogd would do, in one line.
func (r *Report) Summary() string {
	errors := r.Errors()
	return fmt.Sprintf("%s, %s in %s; catalogd would %s",
		count(errors, "error"), count(len(r.Faults)-errors, "warning"), count(r.Files, "file"), r.outcome())
}

func (r *Report) outcome() string {
	if r.Refused {
		return "reject an image with this catalog"
	}
	left := make([]string, 0, len(r.Invalid)+len(r.Hidden))
	for _, name := range append(r.Invalid[:len(r.Invalid):len(r.Invalid)], r.Hidden...) {
		if name == "" {
			name = `""`
		}
		left = append(left, printable(name))
	}
	if len(left) == 0 {
		return fmt.Sprintf("serve it and publish %s", count(r.Packages, "OperatorPackage"))
	}
	const limit = 10
	names := strings.Join(left[:min(limit, len(left))], ", ")
	if len(left) > limit {
		names += ", …"
	}
	return fmt.Sprintf("serve it and publish %s; not published: %s", count(r.Packages-len(left), "OperatorPackage"), names)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Escapes of GitHub workflow commands; values of properties end at a comma or colon.
var (
	escapeData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	escapeProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func gitHubCommand(f Fault) string {
	properties := ""
	if f.File != "" {
		properties += "file=" + escapeProperty.Replace(f.File) + ","
	}
	if f.Line > 0 {
		properties += fmt.Sprintf("line=%d,", f.Line)
	}
	if f.Column > 0 {
		properties += fmt.Sprintf("col=%d,", f.Column)
	}
	return fmt.Sprintf("::%s %stitle=%s::%s", f.Severity, properties, escapeProperty.Replace(f.Rule), escapeData.Replace(f.Message))
}

type object = map[string]any

// sarif returns the required part of SARIF 2.1.0 (OASIS, https://docs.oasis-open.org/sarif/sarif/v2.1.0/). Its levels
// have the names of our severities.
func (r *Report) sarif() object {
	ids := slices.Sorted(maps.Keys(Rules))
	rules := make([]object, len(ids))
	for i, id := range ids {
		rules[i] = object{
			"id":                   id,
			"shortDescription":     object{"text": Rules[id].Asks},
			"defaultConfiguration": object{"level": Rules[id].Severity},
		}
	}
	results := make([]object, len(r.Faults))
	for i, f := range r.Faults {
		index, _ := slices.BinarySearch(ids, f.Rule)
		results[i] = object{"ruleId": f.Rule, "ruleIndex": index, "level": f.Severity, "message": object{"text": f.Message}}
		if f.File != "" {
			results[i]["locations"] = []object{{"physicalLocation": f.sarif()}}
		}
	}
	driver := object{"name": "kubectl-catalog", "informationUri": "https://github.com/operator-catalogs/catalogd", "rules": rules}
	return object{
		"$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
		"version": "2.1.0",
		"runs":    []object{{"tool": object{"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}},
	}
}

// sarif returns the location of a fault in a file.
func (f Fault) sarif() object {
	uri := url.URL{Path: f.File}
	if path.IsAbs(f.File) {
		uri.Scheme = "file"
	}
	at := object{"artifactLocation": object{"uri": uri.String()}}
	if f.Line > 0 {
		region := object{"startLine": f.Line}
		if f.Column > 0 {
			region["startColumn"] = f.Column
		}
		at["region"] = region
	}
	return at
}
