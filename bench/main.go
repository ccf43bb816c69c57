// Command bench measures catalogd beside yardsticks (gzip and tar, nginx, kubectl, opm), alternating between both
// in the same run on the same machine. `make bench` builds and runs it in the root of the repository; --help
// describes the flags.
// It starts what it needs (etcd, kube-apiserver, a registry, bin/catalogd, nginx) on loopback, and stops all of it
// when it ends, also on Ctrl-C. Generated catalogs stay in the cache directory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const usage = `bench measures catalogd beside yardsticks, alternating between both in the same run.

Usage, in the root of the repository:
  make build plugin && KUBEBUILDER_ASSETS=$(hack/controlplane/build.sh) go run ./bench [flags]

Rows:
%s
Rows that need a missing program (nginx, opm, Chromium) are skipped. All rows take some 20 minutes on two cores, most of that for the
3 GB catalog (rows memory and start, 15 GB of disk).

Flags:
`

// options are the values of the flags.
type options struct {
	catalogd, plugin, assets, cacheDir, catalog, nginx, opm string
	runs                                                    int
	duration                                                time.Duration
	only                                                    *regexp.Regexp
	json, write                                             string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	var only string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.catalogd, "catalogd", "bin/catalogd", "`path` of the built catalogd")
	f.StringVar(&o.plugin, "plugin", "bin/kubectl-catalog", "`path` of the built kubectl plugin")
	f.StringVar(&o.catalog, "catalog", "",
		"catalog to measure with: a `directory` for /configs of an image, or a plain or gzipped tar archive with configs/ in it "+
			"(default: generated in the shape of the community catalog)")
	f.StringVar(&o.cacheDir, "cache-dir", defaultCacheDir(),
		"`directory` for generated catalogs, which are kept, and for the files of a run; selects the measured disk")
	f.IntVar(&o.runs, "runs", 5, "number of measurements of figure and yardstick")
	f.DurationVar(&o.duration, "duration", 2*time.Second, "duration of the measurement of a rate")
	f.StringVar(&only, "only", "", "measure only the rows whose name matches this `regexp`")
	f.StringVar(&o.nginx, "nginx", "", "`path` of nginx (default: from PATH)")
	f.StringVar(&o.opm, "opm", "", "`path` of an opm to measure; hack/opm/build.sh builds one")
	f.StringVar(&o.json, "json", "", "write the results to this `file`, or - for standard output")
	f.StringVar(&o.write, "write", "", "write the table into this `file`, between its markers: docs/performance.md")
	f.Usage = func() {
		fmt.Fprintf(out, usage, listRows())
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; see --help", f.Arg(0))
	}
	if o.runs < 1 || o.duration <= 0 {
		return o, errors.New("--runs and --duration must be greater than 0")
	}
	var err error
	if o.only, err = regexp.Compile(only); err != nil {
		return o, fmt.Errorf("--only: %w", err)
	}
	if !slices.ContainsFunc(rows, func(r namedRow) bool { return o.only.MatchString(r.name) }) {
		return o, fmt.Errorf("--only matches no row; the rows are:\n%s", listRows())
	}
	if o.nginx, err = findNginx(o.nginx); err != nil {
		return o, err
	}
	return o, o.validate()
}

// validate returns an error that names the first missing requirement and its remedy.
func (o *options) validate() error {
	o.assets = os.Getenv("KUBEBUILDER_ASSETS")
	if o.assets == "" {
		return errors.New("KUBEBUILDER_ASSETS is not set: export KUBEBUILDER_ASSETS=$(hack/controlplane/build.sh)")
	}
	if _, err := os.Stat(filepath.Join("config", "crd")); err != nil {
		return errors.New("the working directory must be the root of the repository")
	}
	for _, p := range []struct{ path, remedy string }{
		{o.catalogd, "make build, or give --catalogd"}, {o.plugin, "make plugin, or give --plugin"}, {
			o.opm, "give --opm the path of an opm, or leave it out",
		},
	} {
		if info, err := os.Stat(p.path); p.path != "" && (err != nil || info.IsDir()) {
			return fmt.Errorf("program %s not found: %s", p.path, p.remedy)
		}
	}
	if o.write != "" {
		_, _, err := cutMarkers(o.write)
		return err
	}
	return nil
}

func defaultCacheDir() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "catalogd", "bench")
}

// run measures the rows and reports them. It fails if a row could not be measured, not if a row misses its bound.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) == 2 && args[0] == headCommand { // the yardstick of a row, in a child process
		cost, err := headCost(ctx, args[1])
		if err == nil {
			_, err = fmt.Fprintln(stdout, cost)
		}
		return err
	}
	if len(args) == 3 && args[0] == bareCommand { // the yardstick of another row
		return serveBare(args[1], args[2])
	}
	if len(args) == 3 && args[0] == craneCommand { // likewise
		return craneCopy(ctx, args[1], args[2])
	}
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	e, err := newEnv(ctx, o, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	report := newReport(ctx, e, args)
	for _, r := range rows {
		if !o.only.MatchString(r.name) {
			continue
		}
		row := e.measure(ctx, r)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if _, err := io.WriteString(stdout, row.lines()+"\n"); err != nil {
			return err
		}
		report.Rows = append(report.Rows, row)
	}
	return errors.Join(report.write(o, stdout), report.failures())
}

// measure measures a row and records an error in it.
func (e *env) measure(ctx context.Context, r namedRow) Row {
	e.say("%s", r.name)
	began := time.Now()
	row, err := r.measure(ctx, e)
	row.Name, row.Seconds = r.name, time.Since(began).Seconds()
	var skipped skip
	switch {
	case errors.As(err, &skipped):
		row.Skipped = skipped.Error()
	case err != nil:
		row.Failed = err.Error()
	}
	return row
}

type namedRow struct {
	name, about string
	measure     func(context.Context, *env) (Row, error)
}

// rows are ordered so that those of the same catalog follow each other, and the large one comes last.
var rows = []namedRow{
	{"unpack-cold", "an image to a served catalog, beside gzip | tar", unpackCold},
	{"metas-olm-package", "metas of one blob of 11 kB, beside nginx", metasOlmPackage},
	{"metas-package", "metas of a package of 100 kB, beside nginx", metasOnePackage},
	{"all-identity", "the whole catalog, beside nginx", allIdentity},
	{"all-zstd", "the whole catalog compressed: processor time beside nginx", allCompressed},
	{"bundle-tar", "content.tar of a cached bundle of 153 kB, beside nginx", bundleRow("content.tar")},
	{"bundle-content", "the index of that bundle, beside nginx", bundleRow("content")},
	{
		"graphql-names",
		"GraphQL, five names of packages, beside metas",
		graphqlRow("5 names of packages", `{ packages(first: 5) { nodes { name } } } # %s`),
	},
	{
		"graphql-package",
		"GraphQL, one package with channels and heads, beside metas",
		graphqlRow("one package with channels and heads",
			`{ package(name: %q) { name defaultChannel { name } channels { name head { name version } } } }`),
	},
	{"page-list", "the web page's list of packages in Chromium, beside its text alone", pageList},
	{"page-channel", "the web page's largest channel, beside its graph as JSON", pageChannel},
	{"unpack-changed", "one package of the catalog changed, beside gzip | tar", unpackChanged},
	{"disk", "disk bytes, beside those of compact JSON", diskBytes},
	{"packages", "first sync of OperatorPackages, beside kubectl apply", firstSync},
	{"plugin", "a table of all packages by the plugin, beside kubectl", listing},
	{"plugin-start", "a command of the plugin without a cluster, beside kubectl", pluginStart},
	{"render", "100 bundle images rendered by the plugin, beside opm", renderBundles},
	{"bundle-add", "a bundle added to the catalog by the plugin, beside opm validate", addToCatalog},
	{"mirror", "images copied to another registry by the plugin, beside crane", mirrorCatalog},
	{"poll", "a poll that finds nothing new, beside one HEAD", unchangedPoll},
	{"thousand", "1,000 CatalogSources for an hour, simulated", thousandCatalogs},
	{"replicas", "200 catalogs on three replicas, beside one", replicas},
	{"olmv0-list", "ListBundles of OLM v0's registry API, beside opm serve", listBundles},
	{"olmv0-start", "process start to first answer of that API, beside opm serve", startOLMv0},
	{"olmv0-fifty", "memory of catalogd with 50 catalogs, beside 50 opm serve", fiftyCatalogs},
	{"page-5000", "the web page's list of 5,000 packages, beside that of the catalog", pageLarge},
	{"memory", "peak memory with 3 GB, beside 33.5 MB", memory},
	{"start", "start to first answer with 3 GB stored, beside nothing stored", startLarge},
}

// listRows lists the rows for the help text.
func listRows() string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "  %-18s %s\n", r.name, r.about)
	}
	return b.String()
}
