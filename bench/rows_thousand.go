package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

const thousandBenchmark = "BenchmarkThousandCatalogs"

// thousandCatalogs runs the benchmark that simulates an hour of polls, and reports its metrics. checks names the
// units that must hold.
func thousandCatalogs(ctx context.Context, _ *env) (Row, error) {
	row := Row{What: "1,000 CatalogSources on */5 * * * *, an hour simulated (" + thousandBenchmark + " of internal/sync)"}
	out, err := process.Run(ctx, "go", "test", "-run", "^$", "-bench", "^"+thousandBenchmark+"$", "-benchtime", "1x", "./internal/sync")
	if err != nil {
		return row, fmt.Errorf("%w: %s", err, out)
	}
	metrics := benchmarkMetrics(out, thousandBenchmark)
	if metrics == nil {
		return row, skip("internal/sync has no " + thousandBenchmark)
	}
	for _, bound := range []struct {
		unit string
		most float64
		what string
	}{
		{"max/mean", 3, "polls in the fullest second by the mean"},
		{"cpu-%", 1, "percent of a processor"},
	} {
		if value, ok := metrics[bound.unit]; ok {
			row.check(value <= bound.most, "%s: %.3g (limit %g)", bound.what, value, bound.most)
		}
	}
	if len(row.Checks) == 0 {
		return row, fmt.Errorf("%s reports neither max/mean nor cpu-%%:\n%s", thousandBenchmark, out)
	}
	row.Figure = newSeries("polls", "polls", metrics["polls"])
	return row, nil
}

// benchmarkMetrics returns the values by unit from the output of a benchmark, or nil.
func benchmarkMetrics(out, name string) map[string]float64 {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], name) {
			continue
		}
		metrics := map[string]float64{}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil
			}
			metrics[fields[i+1]] = value
		}
		return metrics
	}
	return nil
}
