package status

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/source"
)

// The events of a catalog: the reason, and the action that it is about.
const (
	eventUnpacked        = "Unpacked"        // a new digest is served
	eventFailed          = "Failed"          // polling or unpacking failed in a new way
	eventRecovered       = "Recovered"       // polling and unpacking succeed again
	eventInvalidPackages = "InvalidPackages" // other packages than before are invalid

	actionUnpack  = "Unpack"
	actionPublish = "Publish"
)

// Event is an event to record about the object of a catalog.
type Event struct {
	Type, Reason, Action, Note string
}

func event(eventType, reason, action, note string) Event {
	return Event{eventType, reason, action, scan.Shorten(note, 1000)} // the API server limits a note to 1 kB
}

// Events returns the events of a whole pass: what changed between two statuses. Conditions report what stays.
func Events(before, after source.Status, r Results) (events []Event) {
	was, is := progressOf(before), progressOf(after)
	if after.Content != nil && before.Digest != after.Digest {
		eventType, packages := corev1.EventTypeNormal, counted(r.Packages.Published, "package", "packages")
		switch {
		case r.Packages.NotValidated:
			packages = "packages still being validated"
		case r.Packages.Published == 0:
			eventType = corev1.EventTypeWarning
		}
		events = append(events, event(eventType, eventUnpacked, actionUnpack, fmt.Sprintf("Serving %s at %s: %s, %s.",
			r.Image.Ref, after.Digest, packages, counted(after.Content.Bundles, "bundle", "bundles"))))
	}
	if r.Fault != nil && was != is {
		events = append(events, event(corev1.EventTypeWarning, eventFailed, actionUnpack, is.message))
	}
	if was.failed() && before.Digest != "" && is.reason == v1beta1.SucceededReason {
		events = append(events,
			event(corev1.EventTypeNormal, eventRecovered, actionUnpack, fmt.Sprintf("Polling and unpacking %s succeeds again.", r.Image.Ref)))
	}
	if after.Content != nil && len(after.Content.Invalid) > 0 && otherInvalid(before, after) {
		events = append(events, event(corev1.EventTypeWarning, eventInvalidPackages, actionPublish, invalidNote(after.Content)))
	}
	return events
}

// progress is the reason and the message of the condition Progressing.
type progress struct{ reason, message string }

func progressOf(s source.Status) progress {
	cond := meta.FindStatusCondition(s.Conditions, v1beta1.ProgressingCondition)
	if cond == nil {
		return progress{}
	}
	return progress{cond.Reason, cond.Message}
}

func (p progress) failed() bool {
	return p.reason == v1beta1.RetryingReason || p.reason == v1beta1.BlockedReason
}

// otherInvalid reports whether other packages are invalid. Where the former status does not name them, as that of a
// ClusterCatalog, another digest decides.
func otherInvalid(before, after source.Status) bool {
	if before.Content == nil {
		return before.Digest != after.Digest
	}
	return before.Content.InvalidCount != after.Content.InvalidCount ||
		!equality.Semantic.DeepEqual(before.Content.Invalid, after.Content.Invalid)
}

func invalidNote(content *source.Content) string {
	const most = 5
	var b strings.Builder
	fmt.Fprintf(&b, "%s invalid and not published:", counted(content.InvalidCount, "package is", "packages are"))
	for i, p := range content.Invalid {
		if i == most {
			b.WriteString(" and others")
			break
		}
		fmt.Fprintf(&b, " %q (%s)", p.Name, scan.Shorten(p.Reason, 150))
	}
	return b.String()
}

// insecureNote names the registries that are not verified, as a sentence to append.
func insecureNote(registries []string) string {
	if len(registries) == 0 {
		return ""
	}
	return fmt.Sprintf(" Not verified, since insecure is set: %s.", strings.Join(registries, ", "))
}

// sentence makes a sentence of an error. It keeps the case of a first word that is a name, such as a field path.
func sentence(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if text == "" {
		return text
	}
	if first, _, _ := strings.Cut(text, " "); !strings.ContainsAny(strings.TrimRight(first, ".:,"), "./:@") {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
