package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSeries(t *testing.T) {
	for _, test := range []struct {
		values      []float64
		min, median float64
		text        string
	}{
		{[]float64{0.25}, 0.25, 0.25, "0.250 s"},
		{[]float64{3, 1, 2}, 1, 2, "2.00 s (min 1.00 s)"},
		{[]float64{40, 10, 20, 30}, 10, 25, "25.0 s (min 10.0 s)"},
		{[]float64{1500, 2500}, 1500, 2000, "2000 s (min 1500 s)"},
	} {
		s := newSeries("x", "s", test.values...)
		if s.Min != test.min || s.Median != test.median || s.String() != test.text {
			t.Errorf("%v: min %g, median %g, %q", test.values, s.Min, s.Median, s)
		}
	}
	if text := (Series{}).String(); text != "-" {
		t.Errorf("of nothing it says %q", text)
	}
}

// A value that barely misses its bound must not be formatted as if it met it.
func TestRatio(t *testing.T) {
	for _, test := range []struct {
		ratio, limit float64
		atLeast      bool
		want         string
	}{
		{.612, .7, true, "0.61x"},
		{.6988, .7, true, "0.699x"},
		{.69996, .7, true, "0.69996x"},
		{.7, .7, true, "0.70x"},
		{1.1004, 1.1, false, "1.1004x"},
		{1.0996, 1.1, false, "1.10x"},
		{3.14159, 0, false, "3.14x"},
	} {
		row := Row{Ratio: test.ratio, Limit: test.limit, AtLeast: test.atLeast}
		if got := row.ratio(); got != test.want {
			t.Errorf("%v: got %s, want %s", test, got, test.want)
		}
	}
}

func TestHeld(t *testing.T) {
	with := func(ratio float64, bound func(*Row), checks ...bool) Row {
		r := Row{Ratio: ratio}
		if bound != nil {
			bound(&r)
		}
		for _, held := range checks {
			r.check(held, "check")
		}
		return r
	}
	for name, test := range map[string]struct {
		row  Row
		want string
	}{
		"at most, below":    {with(1.2, func(r *Row) { r.atMost(1.3) }), "held"},
		"at most, above":    {with(1.4, func(r *Row) { r.atMost(1.3) }), "**not held**"},
		"at least, above":   {with(.5, func(r *Row) { r.atLeast(.4) }), "held"},
		"at least, below":   {with(.3, func(r *Row) { r.atLeast(.4) }), "**not held**"},
		"a check fails":     {with(1, func(r *Row) { r.atMost(1.3) }, true, false), "**not held**"},
		"checks alone":      {with(9, nil, true), "held"},
		"a check alone":     {with(9, nil, false), "**not held**"},
		"for orientation":   {with(9, nil), "-"},
		"skipped":           {Row{Skipped: "no nginx"}, "skipped"},
		"failed":            {Row{Failed: "boom"}, "failed"},
		"nothing was there": {with(0, func(r *Row) { r.atLeast(.4) }), "**not held**"},
	} {
		if got := test.row.verdict(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestAlternate(t *testing.T) {
	var order strings.Builder
	measure := func(name string, values ...float64) meter {
		return func(context.Context) (float64, error) {
			order.WriteString(name)
			value := values[0]
			values = values[1:]
			return value, nil
		}
	}
	e := &env{progress: io.Discard}
	var row Row
	if err := e.alternate(t.Context(), &row, 3, measure("f", 3, 9, 6), measure("y", 2, 4, 3)); err != nil {
		t.Fatal(err)
	}
	if order.String() != "fyfyfy" || row.Ratio != 2 {
		t.Errorf("order %s, ratio %g; want fyfyfy and 2", order.String(), row.Ratio)
	}
	boom := errors.New("boom")
	failing := func(context.Context) (float64, error) { return 0, boom }
	if err := e.alternate(t.Context(), &row, 3, measure("f", 1), failing); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
}

func TestMeasure(t *testing.T) {
	e := &env{progress: io.Discard}
	for want, err := range map[string]error{"skipped": skip("no nginx"), "failed": errors.New("boom"), "-": nil} {
		row := e.measure(t.Context(), namedRow{name: "x", measure: func(context.Context, *env) (Row, error) { return Row{}, err }})
		if row.verdict() != want || row.Name != "x" {
			t.Errorf("%v: %+v", err, row)
		}
	}
}

// TestWritePage replaces only the text between the markers, and states which rows were not measured.
func TestWritePage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	text := "# Before\n\n" + beginMark + "\nold\n" + endMark + "\n\n# After\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	row := Row{
		Name: "unpack-cold", What: "unpacking", Figure: newSeries("ours", "s", 1, 2, 3), Yardstick: newSeries("theirs", "s", 2), Ratio: 1,
	}
	row.atMost(1.3)
	row.check(false, "3 (limit 2)")
	row.note("a note")
	report := &Report{Rows: []Row{row, {Name: "olmv0-list", Skipped: "no opm"}, {Name: "poll", Failed: "boom"}}}
	if err := report.write(options{write: page}, io.Discard); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| unpack-cold: unpacking | ours: 2.00 s (min 1.00 s) | theirs: 2.00 s | 1.00x | <= 1.3x; 3 (limit 2): NOT HELD | **not held** |\n",
		"| metas-olm-package: metas of one blob of 11 kB, beside nginx | | | | | not run |\n", "- unpack-cold: a note\n", "- olmv0-list: no opm\n",
		"- poll: boom\n",
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("it does not have %q:\n%s", want, got)
		}
	}
	before, after, err := cutMarkers(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("# Before\n\n|\n\n# After\n", string(before)+"|"+string(after)); diff != "" {
		t.Errorf("around the table (-want +got):\n%s", diff)
	}
	if strings.Contains(string(got), "\nold\n") {
		t.Error("the old table is still there")
	}
	if err := report.failures(); err == nil || !strings.Contains(err.Error(), "poll: boom") {
		t.Errorf("failures: %v", err)
	}
	if err := os.WriteFile(page, []byte("# no marks\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := cutMarkers(page); err == nil || !strings.Contains(err.Error(), beginMark) {
		t.Errorf("a page without marks: %v", err)
	}
}

// TestTableCells has no cell separator in a figure and no local path in the command.
func TestTableCells(t *testing.T) {
	row := Row{Name: "x", What: "a | b", Figure: newSeries("c | d", "s", 1), Yardstick: newSeries("e | f", "s", 1), Ratio: 1}
	var table, notes strings.Builder
	row.markdown(&table, &notes)
	if got := strings.Count(strings.ReplaceAll(table.String(), `\|`, ""), "|"); got != 7 {
		t.Errorf("%d signs that separate cells, want 7: %s", got, table.String())
	}
	if got, want := argsOf([]string{
		"--nginx", "/opt/x/nginx", "--cache-dir=/home/me", "--only", "a/b",
	}), "ARGS='--nginx nginx --cache-dir=me --only a/b'"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := argsOf(nil); got != "" {
		t.Errorf("got %q of nothing", got)
	}
}

func TestBenchmarkMetrics(t *testing.T) {
	out := "goos: linux\nBenchmarkThousandCatalogs-2   \t       1\t  1234 ns/op\t 12000 polls\t 1.5 max/mean\nPASS\n"
	want := map[string]float64{"ns/op": 1234, "polls": 12000, "max/mean": 1.5}
	if diff := cmp.Diff(want, benchmarkMetrics(out, thousandBenchmark)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := benchmarkMetrics("PASS\n", thousandBenchmark); got != nil {
		t.Errorf("of no benchmark: %v", got)
	}
}

func TestSumOf(t *testing.T) {
	metrics := "catalogd_polls_total{catalog=\"a\",result=\"success\"} 3\ncatalogd_polls_total{catalog=\"b\",result=\"failure\"} " +
		"1e+01\nother 5\n"
	if got := sumOf(metrics, pollsTotal()); got != 13 {
		t.Errorf("got %d polls, want 13", got)
	}
	server := `apiserver_request_total{code="200",component="apiserver",dry_run="",group="catalogd.operatorframework.io",resource="catalogsources",scope="resource",subresource="status",verb="PATCH",version="v1beta1"} 7
apiserver_request_total{code="200",component="apiserver",dry_run="",group="catalogd.operatorframework.io",resource="catalogsources",scope="cluster",subresource="",verb="LIST",version="v1beta1"} 9
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 4
`
	if got := sumOf(server, writesOf(`group="catalogd.operatorframework.io"`)); got != 7 {
		t.Errorf("got %d writes, want 7", got)
	}
}
