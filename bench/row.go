package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Row is a figure of catalogd beside its yardstick.
type Row struct {
	Name      string   `json:"name"`
	What      string   `json:"what"`
	Figure    Series   `json:"figure"`
	Yardstick Series   `json:"yardstick,omitzero"`
	Ratio     float64  `json:"ratio,omitzero"` // of the medians: figure divided by yardstick
	Limit     float64  `json:"limit,omitzero"` // the bound of the ratio; 0 if the row is only informative
	AtLeast   bool     `json:"atLeast,omitempty"`
	Checks    []Check  `json:"checks,omitempty"` // additional requirements
	Notes     []string `json:"notes,omitempty"`
	Skipped   string   `json:"skipped,omitempty"` // why the row was not measured
	Failed    string   `json:"failed,omitempty"`
	Seconds   float64  `json:"seconds"` // duration of the measurement
}

// Series is a figure that was measured several times.
type Series struct {
	What   string    `json:"what"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
	Min    float64   `json:"min"`
	Median float64   `json:"median"`
}

// Check is a requirement.
type Check struct {
	What string `json:"what"` // with the value and its bound
	Held bool   `json:"held"`
}

// skip is the reason why a row cannot be measured here.
type skip string

func (s skip) Error() string { return string(s) }

// newSeries summarizes at least one value.
func newSeries(what, unit string, values ...float64) Series {
	sorted := slices.Sorted(slices.Values(values))
	middle := sorted[len(sorted)/2]
	if len(sorted)%2 == 0 {
		middle = (middle + sorted[len(sorted)/2-1]) / 2
	}
	return Series{What: what, Unit: unit, Values: values, Min: sorted[0], Median: middle}
}

// atMost and atLeast bound the ratio of the row.
func (r *Row) atMost(limit float64)  { r.Limit, r.AtLeast = limit, false }
func (r *Row) atLeast(limit float64) { r.Limit, r.AtLeast = limit, true }

func (r *Row) check(held bool, format string, args ...any) {
	r.Checks = append(r.Checks, Check{fmt.Sprintf(format, args...), held})
}

// compare sets the measured series of the row.
func (r *Row) compare(figures, yardsticks []float64) {
	r.Figure = newSeries(r.Figure.What, r.Figure.Unit, figures...)
	r.Yardstick = newSeries(r.Yardstick.What, r.Yardstick.Unit, yardsticks...)
	r.Ratio = r.Figure.Median / r.Yardstick.Median
}

// beside formats another figure in the unit of the yardstick, and its ratio to the yardstick.
func (r *Row) beside(values []float64) string {
	other := newSeries("", r.Yardstick.Unit, values...)
	return fmt.Sprintf("%s, %.2fx", other, other.Median/r.Yardstick.Median)
}

func (r *Row) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// held reports whether the row meets all its requirements.
func (r *Row) held() bool {
	return r.keeps(r.Ratio) && !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.Held })
}

// keeps reports whether a ratio meets the bound.
func (r *Row) keeps(ratio float64) bool {
	return r.Limit == 0 || r.AtLeast && ratio >= r.Limit || !r.AtLeast && ratio <= r.Limit
}

// ratio formats the ratio with two digits, or with as many as show on which side of the bound it is.
func (r *Row) ratio() string {
	text, most := "", 5
	for digits := 2; digits <= most; digits++ {
		text = strconv.FormatFloat(r.Ratio, 'f', digits, 64)
		if shown, _ := strconv.ParseFloat(text, 64); r.keeps(shown) == r.keeps(r.Ratio) {
			break
		}
	}
	return text + "x"
}

// goal formats the bound of the ratio.
func (r *Row) goal() string {
	switch {
	case r.Limit == 0:
		return ""
	case r.AtLeast:
		return fmt.Sprintf(">= %gx", r.Limit)
	default:
		return fmt.Sprintf("<= %gx", r.Limit)
	}
}

// verdict is the verdict of the row in the table.
func (r *Row) verdict() string {
	switch {
	case r.Failed != "":
		return "failed"
	case r.Skipped != "":
		return "skipped"
	case r.Limit == 0 && len(r.Checks) == 0:
		return "-"
	case r.held():
		return "held"
	default:
		return "**not held**"
	}
}

func (s Series) String() string {
	if len(s.Values) == 0 {
		return "-"
	}
	text := s.format(s.Median)
	if len(s.Values) > 1 {
		text += " (min " + s.format(s.Min) + ")"
	}
	return text
}

// format formats a value with about three digits.
func (s Series) format(value float64) string {
	digits := 0
	switch {
	case value < 1:
		digits = 3
	case value < 10:
		digits = 2
	case value < 100:
		digits = 1
	}
	return fmt.Sprintf("%.*f %s", digits, value, s.Unit)
}

// meter measures one value of a series.
type meter func(context.Context) (float64, error)

// alternate measures figure and yardstick alternately.
func (e *env) alternate(ctx context.Context, row *Row, runs int, figure, yardstick meter) error {
	var figures, yardsticks []float64
	for run := range runs {
		f, err := figure(ctx)
		if err != nil {
			return err
		}
		y, err := yardstick(ctx)
		if err != nil {
			return err
		}
		figures, yardsticks = append(figures, f), append(yardsticks, y)
		e.say("  %d/%d: %s, %s", run+1, runs, row.Figure.format(f), row.Yardstick.format(y))
	}
	row.compare(figures, yardsticks)
	return nil
}

// lines formats the row for a terminal.
func (r *Row) lines() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Name, r.What)
	switch {
	case r.Failed != "":
		fmt.Fprintf(&b, "  failed: %s\n", r.Failed)
	case r.Skipped != "":
		fmt.Fprintf(&b, "  skipped: %s\n", r.Skipped)
	default:
		fmt.Fprintf(&b, "  %-60s %s\n", r.Figure.What, r.Figure)
		if len(r.Yardstick.Values) > 0 {
			fmt.Fprintf(&b, "  %-60s %s\n", r.Yardstick.What, r.Yardstick)
			fmt.Fprintf(&b, "  ratio %s  %s\n", r.ratio(), strings.Trim(r.goal()+": "+r.ratioVerdict(), ": "))
		}
		for _, c := range r.Checks {
			fmt.Fprintf(&b, "  %s: %s\n", c.What, verdictOf(c.Held))
		}
		for _, n := range r.Notes {
			fmt.Fprintf(&b, "  note: %s\n", n)
		}
	}
	return b.String()
}

func (r *Row) ratioVerdict() string {
	if r.Limit == 0 {
		return ""
	}
	return verdictOf(r.keeps(r.Ratio))
}

func verdictOf(held bool) string {
	if held {
		return "held"
	}
	return "NOT HELD"
}
