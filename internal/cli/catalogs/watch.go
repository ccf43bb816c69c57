package catalogs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/follow"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

func newWatchCommand(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [CATALOG...]",
		Short: "Watch the changes of catalogs",
		Long: `Watch the changes of catalogs: of all of them unless some are named. The command prints the served
digests, then a line for each change, until it is interrupted (Ctrl-C).

A line has the time at which the digest was first served, the catalog, the digest, and the packages
that were added (+), changed (~), removed (-) or are invalid (!). If a terminal is too narrow for
all names, their numbers come first. New catalogs are included. A catalog that becomes unavailable,
or fails to update, is reported with the reason, and again when it recovers.

With -o json, each line is a JSON object with the full digest and all names. Its type is digest,
removed, trouble or recovered.`,
		Example: `  kubectl catalog watch
  kubectl catalog watch sample
  kubectl catalog watch -o json`,
		ValidArgsFunction: lookup.CompleteCatalogs(s),
	}
	var format string
	cmd.Flags().StringVarP(&format, "output", "o", "", "`format`: json, one object per line")
	lookup.CompleteValues(cmd, "output", "json")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if format != "" && format != "json" {
			return exit.Usagef("unknown format %q; the valid format is json", format)
		}
		return watchContent(cmd.Context(), s, names, changePrinter{s.Stdout, format == "json"})
	}
	return cmd
}

func watchContent(ctx context.Context, s *session.Session, names []string, printer changePrinter) error {
	known := &failures{known: map[types.UID]string{}, since: time.Now()}
	return follow.Content(ctx, s, names, follow.Handler{
		Event: func(ctx context.Context, service *content.Service, event content.Event) (func() error, error) {
			c := changeOf(ctx, service, event)
			return func() error { return printer.print(c) }, nil
		},
		Catalog: func(event watch.EventType, c *status.Catalog) error {
			if change := known.update(event, c); change != nil {
				return printer.print(*change)
			}
			return nil
		},
	})
}

// Types of changes that come from the status of a catalog, not from its feed.
const (
	trouble   = "trouble" // unavailable, or the update failed
	recovered = "recovered"
)

// A catalogChange is what -o json prints.
type catalogChange struct {
	Type    string    `json:"type"`
	Time    time.Time `json:"time"`
	Catalog string    `json:"catalog"`
	Digest  string    `json:"digest,omitempty"`
	URL     string    `json:"url,omitempty"`
	*content.Changes
	Invalid []lookup.InvalidPackage `json:"leftOut,omitempty"` // not part of Changes

	Reason   string `json:"reason,omitempty"` // of the condition Ready, for type trouble
	Message  string `json:"message,omitempty"`
	isServed bool
}

// changeOf returns the change of an event.
func changeOf(ctx context.Context, service *content.Service, event content.Event) catalogChange {
	c := catalogChange{
		Type: event.Type, Time: event.LastModified, Catalog: event.Catalog, Digest: event.Digest, URL: event.URL,
	}
	if c.Time.IsZero() {
		c.Time = time.Now().Truncate(time.Second)
	}
	c.Changes, c.Invalid = lookup.ChangesOf(ctx, service, event)
	return c
}

// failures remembers which catalogs are failing, to report changes.
type failures struct {
	known map[types.UID]string // message by catalog
	since time.Time            // start of the command: an older failure is reported with its own time
}

// update returns the change that the status of a catalog means, or nil.
func (f *failures) update(event watch.EventType, c *status.Catalog) *catalogChange {
	was, isKnown := f.known[c.UID]
	ready := status.Condition(c, v1beta1.ReadyCondition)
	change := catalogChange{Type: recovered, Time: time.Now().Truncate(time.Second), Catalog: c.Arg()}
	switch {
	case event == watch.Deleted:
		delete(f.known, c.UID)
		return nil
	case status.IsFailing(c) && was != ready.Message:
		f.known[c.UID] = ready.Message
		if !isKnown && ready.LastTransitionTime.Time.Before(f.since) {
			change.Time = ready.LastTransitionTime.Time
		}
		change.Type, change.Reason, change.Message = trouble, ready.Reason, status.Brief(ready.Message)
		change.isServed = status.IsServed(c)
		return &change
	case isKnown && status.IsObserved(c) && ready.Status == metav1.ConditionTrue:
		delete(f.known, c.UID)
		return &change
	}
	return nil
}

// A changePrinter prints changes as JSON or as text.
type changePrinter struct {
	to   *output.Terminal
	json bool
}

func (p changePrinter) print(c catalogChange) error {
	if p.json {
		return json.NewEncoder(p.to).Encode(c)
	}
	_, err := fmt.Fprintln(p.to, p.line(c))
	return err
}

// nameWidth fits most names of catalogs.
const nameWidth = 16

func (p changePrinter) line(c catalogChange) string {
	head := fmt.Sprintf("%s  %-*s  ", c.Time.Local().Format(time.DateTime), nameWidth, output.Line(c.Catalog))
	switch c.Type {
	case content.Removed:
		return head + p.to.Paint(output.Red, "no longer served")
	case recovered:
		return head + p.to.Paint(output.Green, "recovered")
	case trouble:
		text := "unavailable"
		if c.isServed {
			text = "update failed"
		}
		return head + p.to.Paint(output.Red, text) + ": " + output.Line(c.Message)
	}
	head += output.ShortDigest(c.Digest) + "  "
	if c.Changes == nil {
		return head + "served"
	}
	return head + p.packages(c, p.to.Width-len(head))
}

// packages returns the names of the changed packages. If the terminal is too narrow, their numbers come first.
func (p changePrinter) packages(c catalogChange, room int) string {
	invalid := make([]string, len(c.Invalid))
	for i, of := range c.Invalid {
		invalid[i] = of.Name
	}
	var names, counts []string
	for _, part := range []struct {
		sign  string
		names []string
	}{{"!", invalid}, {"+", c.Added}, {"~", c.Changed}, {"-", c.Removed}} {
		for _, name := range part.names {
			names = append(names, part.sign+output.Line(name))
		}
		if len(part.names) > 0 {
			counts = append(counts, fmt.Sprint(part.sign, len(part.names)))
		}
	}
	if len(names) == 0 {
		return "no package changed"
	}
	if p.to.Width == 0 || len(strings.Join(names, " ")) <= room {
		return paintChanges(p.to, names)
	}
	counts[len(counts)-1] += ":"
	shown := 1
	for shown < len(names) && len(strings.Join(slices.Concat(counts, names[:shown+1]), " "))+2 <= room { // a space and the ellipsis
		shown++
	}
	return paintChanges(p.to, slices.Concat(counts, names[:shown])) + " …"
}

func paintChanges(to *output.Terminal, changes []string) string {
	painted := make([]string, len(changes))
	for i, change := range changes {
		painted[i] = paintChange(to, change)
	}
	return strings.Join(painted, " ")
}

// paintChange paints a change in the color of its sign.
func paintChange(to *output.Terminal, change string) string {
	style := map[byte]output.Style{'!': output.Red, '+': output.Green, '~': output.Yellow, '-': output.Red}[change[0]]
	return to.Paint(style, change)
}
