package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

const beginMark, endMark = "<!-- bench: begin; make bench writes what is between this line and the other -->", "<!-- bench: end -->"

// Report is the result of a run, with its machine.
type Report struct {
	Date     time.Time `json:"date"`
	Command  string    `json:"command"`
	Catalogd string    `json:"catalogd"` // version
	Machine  []string  `json:"machine"`
	Programs []string  `json:"programs"` // versions of the yardsticks
	Catalog  string    `json:"catalog"`
	Rows     []Row     `json:"rows"`
}

func newReport(ctx context.Context, e *env, args []string) *Report {
	r := &Report{
		Date: time.Now().UTC().Truncate(time.Second), Command: strings.TrimSpace("make bench " + argsOf(args)), Machine: machine(e.cacheDir),
	}
	r.Catalogd = firstLine(ctx, e.catalogd, "--version")
	r.Programs = []string{runtime.Version(), firstLine(ctx, "gzip", "--version"), firstLine(ctx, "tar", "--version")}
	if e.nginx != "" {
		r.Programs = append(r.Programs, nginxVersion(ctx, e.nginx))
	}
	if e.opm != "" {
		_, version, _ := strings.Cut(firstLine(ctx, e.opm, "version"), "OpmVersion:")
		version, _, _ = strings.Cut(version, ",")
		r.Programs = append(r.Programs, "opm "+version)
	}
	c := e.base.stats
	size, _ := e.base.layer.Size() // known since it was built
	if e.catalog != "" {
		r.Catalog = fmt.Sprintf("%s, a layer of %.1f MB", e.catalog, float64(size)/1e6)
	} else {
		r.Catalog = fmt.Sprintf("generated: %d packages, %d channels, %d bundles, %.1f MB of compact JSON in %.1f MB of files (%.0f %% "+
			"YAML), a layer of %.1f MB",
			c.Packages, c.Channels, c.Bundles, float64(c.Bytes)/1e6, float64(c.Written)/1e6, 100*float64(c.YAML)/float64(c.Written),
			float64(size)/1e6)
	}
	return r
}

// argsOf returns the arguments of make bench. It keeps only the last element of local paths.
func argsOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	shown := make([]string, len(args))
	for i, arg := range args {
		name, value, joined := strings.Cut(arg, "=")
		switch {
		case filepath.IsAbs(arg):
			shown[i] = filepath.Base(arg)
		case joined && filepath.IsAbs(value):
			shown[i] = name + "=" + filepath.Base(value)
		default:
			shown[i] = arg
		}
	}
	return fmt.Sprintf("ARGS='%s'", strings.Join(shown, " "))
}

func firstLine(ctx context.Context, program string, args ...string) string {
	text, err := process.Run(ctx, program, args...)
	if err != nil {
		return filepath.Base(program) + " (version unknown)"
	}
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// machine describes the processors, the kernel and the disk of a directory.
func machine(dir string) []string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	memory := ""
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kibibytes int64
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kibibytes); err == nil {
			memory = fmt.Sprintf("%.0f GiB of memory", float64(kibibytes)/(1<<20))
		}
	}
	return []string{
		fmt.Sprintf("%d cores, %s", runtime.NumCPU(), model),
		memory,
		runtime.GOOS + " " + strings.TrimSpace(string(kernel)),
		"disk: " + disk(dir),
	}
}

// disk returns the file system of a directory, from /proc/self/mounts.
func disk(dir string) string {
	var target syscall.Stat_t
	if err := syscall.Stat(dir, &target); err != nil {
		return "unknown"
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		var mount syscall.Stat_t
		if len(fields) > 2 && syscall.Stat(fields[1], &mount) == nil && mount.Dev == target.Dev {
			return fields[2] + " on " + fields[0]
		}
	}
	return "unknown"
}

// failures returns an error that names the rows that could not be measured.
func (r *Report) failures() error {
	var errs []error
	for _, row := range r.Rows {
		if row.Failed != "" {
			errs = append(errs, fmt.Errorf("%s: %s", row.Name, row.Failed))
		}
	}
	return errors.Join(errs...)
}

// write writes the report as the options demand.
func (r *Report) write(o options, stdout io.Writer) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	switch o.json {
	case "":
	case "-":
		_, err = stdout.Write(append(text, '\n'))
	default:
		err = os.WriteFile(o.json, append(text, '\n'), 0o644)
	}
	if err != nil || o.write == "" {
		return err
	}
	before, after, err := cutMarkers(o.write)
	if err != nil {
		return err
	}
	return os.WriteFile(o.write, fmt.Appendf(nil, "%s%s\n%s%s%s", before, beginMark, r.markdown(), endMark, after), 0o644)
}

// cutMarkers returns the text of a file before and after the table.
func cutMarkers(file string) (before, after []byte, err error) {
	page, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("--write: %w", err)
	}
	before, rest, ok := bytes.Cut(page, []byte(beginMark))
	_, after, ended := bytes.Cut(rest, []byte(endMark))
	if !ok || !ended {
		return nil, nil, fmt.Errorf("--write %s: the lines %q and %q are missing: add them where the table belongs", file, beginMark, endMark)
	}
	return before, after, nil
}

// markdown returns the table. It includes rows that were not measured, with the reason.
func (r *Report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s, `%s`, %s.\n", r.Date.Format("2006-01-02 15:04 UTC"), r.Command, r.Catalogd)
	fmt.Fprintf(&b, "Machine: %s. Beside: %s.\nCatalog: %s.\n\n", strings.Join(r.Machine, ", "), strings.Join(r.Programs, ", "), r.Catalog)
	b.WriteString("| row | figure | yardstick | ratio | goal | |\n|---|---|---|---|---|---|\n")
	var notes strings.Builder
	for _, named := range rows {
		row := Row{Name: named.name}
		verdict := "not run"
		for _, have := range r.Rows {
			if have.Name == named.name {
				row, verdict = have, have.verdict()
			}
		}
		if len(row.Figure.Values) == 0 || row.Failed != "" || row.Skipped != "" {
			fmt.Fprintf(&b, "| %s: %s | | | | | %s |\n", row.Name, strings.ReplaceAll(named.about, "|", `\|`), verdict)
		} else {
			row.markdown(&b, &notes)
		}
		if said := strings.TrimSpace(row.Skipped + row.Failed); said != "" {
			fmt.Fprintf(&notes, "- %s: %s\n", row.Name, strings.ReplaceAll(said, "\n", " "))
		}
	}
	fmt.Fprintf(&b, "\nFigures are medians, ratios those of the medians.\n\n%s\n", notes.String())
	return b.String()
}

// markdown adds the row to the table, and its notes to the notes.
func (r *Row) markdown(table, notes *strings.Builder) {
	yardstick, ratio := "", ""
	if len(r.Yardstick.Values) > 0 {
		yardstick, ratio = r.Yardstick.What+": "+r.Yardstick.String(), r.ratio()
	}
	goals := []string{}
	if r.Limit != 0 {
		goals = append(goals, r.goal())
	}
	for _, c := range r.Checks {
		goals = append(goals, c.What+": "+verdictOf(c.Held))
	}
	cells := []string{
		r.Name + ": " + r.What, r.Figure.What + ": " + r.Figure.String(), yardstick, ratio, strings.Join(goals, "; "), r.verdict(),
	}
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
	}
	fmt.Fprintf(table, "| %s |\n", strings.Join(cells, " | "))
	for _, n := range r.Notes {
		fmt.Fprintf(notes, "- %s: %s\n", r.Name, n)
	}
}
