package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

func newWatchCmd(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [CATALOG...]",
		Short: "Follow the changes of catalogs",
		Long: `Follow the changes of catalogs, of all of them unless some are named: at first the digest that is served, then a line for each change, until it
is interrupted (Ctrl-C).

A line has the time since which the digest is served, the catalog, the digest, and the packages that were added (+), changed (~) and removed
(-), and those that are left out as they are not sound (!). Where a terminal has no room for all names, it counts them first. A catalog that is
created later is followed, too. That a catalog cannot be used, or not be brought up to date, is told with the reason when it comes to that, and when
it is well again.

With -o json each line is a JSON object with the whole digest and all names; its type is digest, removed, trouble or recovered.`,
		Example: `  kubectl catalog watch
  kubectl catalog watch sample
  kubectl catalog watch -o json`,
		ValidArgsFunction: e.completeCatalogs,
	}
	var format string
	cmd.Flags().StringVarP(&format, "output", "o", "", "`format`: json, an object a line")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if format != "" && format != "json" {
			return usagef("-o %s: the changes come as text, or with -o json", format)
		}
		return e.watch(cmd.Context(), names, format == "json")
	}
	return cmd
}

// feedRetry is how long after a feed could not be had it is tried anew.
const feedRetry = 30 * time.Second

func (e *env) watch(ctx context.Context, names []string, asJSON bool) error {
	return e.eachEvent(ctx, names, func(ctx context.Context, service *content.Service, event content.Event) (func() error, error) {
		c := changeOf(ctx, service, event)
		return func() error { return e.printChange(c, asJSON) }, nil
	}, func(c feedChange) error { return e.printChange(c, asJSON) })
}

// An eventFunc finds out what there is to tell of an event, and returns what tells it. An error is of finding out, which is tried again.
type eventFunc func(context.Context, *content.Service, content.Event) (tell func() error, err error)

// eachEvent calls each for the events of the catalogs of these names, or of all, until it is interrupted, which is no error. Events are told of one
// at a time. trouble, if not nil, is called when a catalog gets into trouble, and when it is well again.
func (e *env) eachEvent(ctx context.Context, names []string, each eventFunc, trouble func(feedChange) error) error {
	group, ctx := errgroup.WithContext(ctx)
	w := &watcher{env: e, each: each, trouble: trouble, group: group, feeds: map[string]*watchedFeed{}}
	if e.serverURL == "" {
		group.Go(func() error { return w.followCluster(ctx, names) })
	} else {
		group.Go(func() error { return w.followServer(ctx, names) })
	}
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// A watcher follows the feeds of several catalogs as one.
type watcher struct {
	*env
	each    eventFunc
	trouble func(feedChange) error
	group   *errgroup.Group

	mu      sync.Mutex // one is told of at a time
	feeds   map[string]*watchedFeed
	running int  // of the feeds
	came    bool // whether there was an event at all
}

// watchedFeed is what is known of one catalog's feed.
type watchedFeed struct {
	running bool
	removed bool   // whether its last event said that the catalog is not served any more
	last    string // the id of its last event
	failed  string // what is said to be wrong with it
	tried   time.Time
}

// start follows a catalog, unless it is followed already or cannot be just now. The caller holds mu.
func (w *watcher) start(ctx context.Context, catalog string, open func() (*content.Service, error)) {
	f := w.feeds[catalog]
	if f == nil {
		f = &watchedFeed{}
		w.feeds[catalog] = f
	}
	if f.running || time.Since(f.tried) < feedRetry {
		return
	}
	f.running = true
	w.running++
	since := f.last
	w.group.Go(func() error {
		service, err := open()
		if err == nil {
			err = service.Watch(ctx, catalog, since, func(event content.Event) error { return w.show(ctx, service, f, event) })
		}
		return w.ended(ctx, catalog, f, err)
	})
}

// ended notes that a feed did. Where nothing came from any and none is left, what is wrong with it is the end of all.
func (w *watcher) ended(ctx context.Context, catalog string, f *watchedFeed, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.running = false
	w.running--
	if err == nil { // removed; it may come back at once
		f.failed = ""
		return nil
	}
	f.tried = time.Now()
	text := err.Error()
	var told tellError
	switch {
	case errors.As(err, &told): // nobody reads any more
		return err
	case ctx.Err() != nil, !w.came && w.running == 0:
		return missing(err, catalog)
	case f.removed && content.IsNotFound(err): // which was told; the status says it a moment later
		f.failed = ""
	case f.failed != text:
		f.failed = text
		return w.sayAgain(catalog, err)
	}
	return nil
}

// sayAgain says what is wrong with a feed that is tried again. The name may be what somebody's server has.
func (w *watcher) sayAgain(catalog string, err error) error {
	_, err = fmt.Fprintf(w.stderr, "%s: %s; trying again\n", term.Line(catalog), term.Line(err.Error()))
	return err
}

// feedChange is an event as -o json has it.
type feedChange struct {
	Type    string    `json:"type"`
	Time    time.Time `json:"time"`
	Catalog string    `json:"catalog"`
	Digest  string    `json:"digest,omitempty"`
	URL     string    `json:"url,omitempty"`
	*content.Changes
	LeftOut []leftOut `json:"leftOut,omitempty"` // and in none of the Changes

	Reason   string `json:"reason,omitempty"` // of trouble, as the condition Ready has it
	Message  string `json:"message,omitempty"`
	isServed bool   // all the same
}

func (w *watcher) show(ctx context.Context, service *content.Service, f *watchedFeed, event content.Event) error {
	tell := func() error { return w.sayAgain(event.Catalog, event.Err) }
	if event.Type != content.Lost {
		var err error
		if tell, err = w.each(ctx, service, event); err != nil {
			return err // the feed is begun anew from the event before, lest what this one tells be lost
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.came = true
	if err := tell(); err != nil {
		return tellError{err}
	}
	if event.Type != content.Lost {
		f.last, f.failed, f.removed = event.ID, "", event.Type == content.Removed
	}
	return nil
}

func (w *watcher) tellTrouble(c *feedChange) error {
	if c == nil || w.trouble == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trouble(*c)
}

// changeOf is what an event tells, with what it does not: which packages are left out.
func changeOf(ctx context.Context, service *content.Service, event content.Event) feedChange {
	c := feedChange{Type: event.Type, Time: event.LastModified, Catalog: event.Catalog, Digest: event.Digest, URL: event.URL, Changes: event.Changes}
	if c.Time.IsZero() {
		c.Time = time.Now().Truncate(time.Second)
	}
	if event.Changes == nil || len(event.Added)+len(event.Changed) == 0 {
		return c
	}
	found, _ := unsound(ctx, service, event.Catalog, event.ID) // where that is not known, they are told of as any
	for _, in := range found {
		changes, left := apart(*event.Changes, in.InvalidPackages)
		c.Changes, c.LeftOut = &changes, left
	}
	return c
}

func (e *env) printChange(c feedChange, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(e.Out).Encode(c)
	}
	_, err := fmt.Fprintln(e.stdout, e.changeLine(c))
	return err
}

// nameWidth has the names of most catalogs stand in a column.
const nameWidth = 16

// changeLine is a change for people.
func (e *env) changeLine(c feedChange) string {
	head := fmt.Sprintf("%s  %-*s  ", c.Time.Local().Format(time.DateTime), nameWidth, term.Line(c.Catalog))
	if c.Type == content.Removed {
		return head + e.stdout.Paint(term.Red, "is not served any more")
	}
	if c.Type == inTroubleNow || c.Type == recovered {
		return head + e.troubleWords(c)
	}
	head += shortDigest(c.Digest) + "  "
	if c.Changes == nil {
		return head + "is served"
	}
	return head + e.packageWords(c, e.stdout.Width-len(head))
}

// packageWords names the packages that differ. On a terminal it has as many names as there is room for, and says first how many there are.
func (e *env) packageWords(c feedChange, room int) string {
	type word struct {
		text  string
		style term.Style
	}
	var names, counts []word
	width := -1
	for _, part := range []struct {
		sign  string
		names []string
		style term.Style
	}{{"!", leftOutNames(c.LeftOut), term.Red}, {"+", c.Added, term.Green}, {"~", c.Changed, term.Yellow}, {"-", c.Removed, term.Red}} {
		for _, name := range part.names {
			text := part.sign + term.Line(name)
			names = append(names, word{text, part.style})
			width += len(text) + 1
		}
		if len(part.names) > 0 {
			counts = append(counts, word{fmt.Sprint(part.sign, len(part.names)), part.style})
		}
	}
	if len(names) == 0 {
		return "no package differs"
	}
	var line strings.Builder
	write := func(w word) {
		line.WriteString(e.stdout.Paint(w.style, w.text) + " ")
		room -= len(w.text) + 1
	}
	if e.stdout.Width == 0 || width <= room {
		for _, name := range names {
			write(name)
		}
		return strings.TrimSuffix(line.String(), " ")
	}
	for i, count := range counts {
		if i == len(counts)-1 {
			count.text += ":"
		}
		write(count)
	}
	for i, name := range names {
		if i > 0 && len(name.text)+2 > room { // a blank, and the ellipsis
			break
		}
		write(name)
	}
	return line.String() + "…"
}

// followServer follows the catalogs of --server-url, which may be all there is to ask.
func (w *watcher) followServer(ctx context.Context, names []string) error {
	service, err := w.direct()
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		var served struct{ Catalogs []named }
		if err := service.JSON(ctx, "/catalogs", nil, &served); err != nil && first {
			return err
		}
		for _, name := range names {
			if first && !slices.Contains(served.Catalogs, named{name}) {
				return notFoundf("there is no catalog %q: kubectl catalog get --raw /catalogs shows those that %s has", name, service)
			}
		}
		w.mu.Lock()
		for _, c := range served.Catalogs {
			if len(names) == 0 || slices.Contains(names, c.Name) {
				w.start(ctx, c.Name, func() (*content.Service, error) { return service, nil })
			}
		}
		w.mu.Unlock()
		if err := sleep(ctx, feedRetry/3); err != nil {
			return err
		}
	}
}

// sleep waits, unless ctx ends before.
func sleep(ctx context.Context, how time.Duration) error {
	timer := time.NewTimer(how)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// followCluster follows the catalogs of the cluster as they come to be served.
func (w *watcher) followCluster(ctx context.Context, names []string) error {
	var catalogs []v1beta1.CatalogSource
	var err error
	if len(names) > 0 {
		catalogs, err = w.catalogsNamed(ctx, names)
	} else {
		catalogs, err = w.catalogs(ctx)
	}
	if err != nil {
		return err
	}
	w.sayUnserved(catalogs)
	api, err := w.client()
	if err != nil {
		return err
	}
	f := &follower{client: api, every: feedRetry / 3}
	start := func() error {
		w.mu.Lock() // none ends before all have begun
		defer w.mu.Unlock()
		for _, c := range f.told {
			if c.Status.URLs != nil && (len(names) == 0 || slices.Contains(names, c.Name)) {
				w.start(ctx, c.Name, func() (*content.Service, error) { return w.open(c.Status.URLs.Base, c.Name) })
			}
		}
		return nil
	}
	listed := false
	known := &troubles{known: map[string]string{}, since: time.Now()}
	f.each = func(event watch.EventType, c *v1beta1.CatalogSource) error {
		if len(names) > 0 && !slices.Contains(names, c.Name) {
			return nil
		}
		if err := w.tellTrouble(known.change(event, c)); err != nil || !listed {
			return err
		}
		return start()
	}
	f.synced = func() error {
		listed = true
		return start()
	}
	return f.run(ctx)
}

// sayUnserved says of which catalogs there is nothing to tell yet.
func (w *watcher) sayUnserved(catalogs []v1beta1.CatalogSource) {
	for i := range catalogs {
		if c := &catalogs[i]; c.Status.URLs == nil && (w.trouble == nil || !isTroubled(c)) {
			fmt.Fprintf(w.stderr, "%s: nothing is served yet: %s\n", c.Name, term.Line(ready(c).Message))
		}
	}
	if len(catalogs) == 0 {
		fmt.Fprintln(w.stderr, "There are no catalogs yet.")
	}
}
