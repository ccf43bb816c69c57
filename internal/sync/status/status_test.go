package status

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/sync/fault"
)

// conditions returns the conditions of a status, "<status> <reason>: <message>" by type.
func conditions(s source.Status) map[string]string {
	out := map[string]string{}
	for _, cond := range s.Conditions {
		out[cond.Type] = fmt.Sprintf("%s %s: %s", cond.Status, cond.Reason, cond.Message)
	}
	return out
}

var since = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestConcluded(t *testing.T) {
	const image, digest = "registry.example/catalog:latest", "sha256:12"
	const otherDigest = "registry.example/catalog@sha256:1111111111111111111111111111111111111111111111111111111111111111"
	transient, blocked := errors.New("polling x: timed out"), fault.Block(errors.New("spec.image is wrong"))
	unserved := map[string]string{
		"Serving":        "False Unavailable: No content is unpacked yet.",
		"PackagesSynced": "False Unavailable: No content is unpacked yet.",
	}
	served := map[string]string{
		"Progressing":    "True Succeeded: " + image + " is unpacked and current.",
		"Serving":        "True Available: Serving the content of " + digest + ".",
		"PackagesSynced": "True Synced: 1 package is published.",
		"Ready":          "True Succeeded: 1 package is published.",
	}
	invalid := []source.InvalidPackage{{Name: "c", Reason: "d"}, {Name: "a", Reason: "b"}}
	for _, test := range []struct {
		name      string
		served    bool
		published int
		image     string
		suspend   bool
		subset    *source.Subset
		results   Results
		want      map[string]string // what differs from served or unserved
	}{
		{name: "nothing attempted", served: true, published: 1},
		{name: "attempted and current", served: true, published: 1, results: Results{Attempted: true, Current: true}},
		{name: "transient failure, served", served: true, published: 1, results: Results{Attempted: true, Fault: transient},
			want: map[string]string{
				"Progressing": "True Retrying: Polling x: timed out. The previous content is still served.",
				"Ready":       "False Retrying: Polling x: timed out. The previous content is still served.",
			}},
		{name: "blocked, served", served: true, published: 1, results: Results{Attempted: true, Fault: blocked}, want: map[string]string{
			"Progressing": "False Blocked: spec.image is wrong. The previous content is still served.",
			"Ready":       "False Blocked: spec.image is wrong. The previous content is still served.",
		}},
		{name: "suspended, served", served: true, published: 1, suspend: true, want: map[string]string{
			"Progressing": "False Suspended: Polling is suspended by spec.suspend; the content is still served.",
			"Ready":       "True Suspended: 1 package is published. Polling is suspended by spec.suspend.",
		}},
		{name: "suspended, failing", served: true, published: 1, suspend: true, results: Results{Fault: transient}, want: map[string]string{
			"Progressing": "True Retrying: Polling x: timed out. The previous content is still served.",
			"Ready":       "False Retrying: Polling x: timed out. The previous content is still served.",
		}},
		{name: "packages fail", served: true, published: 1, results: Results{
			Packages: Packages{Err: errors.New("writing: refused")},
		}, want: map[string]string{
			"PackagesSynced": "False SyncFailed: Writing: refused.",
			"Ready":          "False SyncFailed: Writing: refused.",
		}},
		{
			name: "image and packages fail", served: true, published: 1,
			results: Results{Fault: transient, Packages: Packages{Err: errors.New("writing: refused")}},
			want: map[string]string{
				"Progressing":    "True Retrying: Polling x: timed out. The previous content is still served.",
				"PackagesSynced": "False SyncFailed: Writing: refused.",
				"Ready":          "False Retrying: Polling x: timed out. The previous content is still served.",
			},
		},
		{name: "not validated", served: true, results: Results{Packages: Packages{NotValidated: true}}, want: map[string]string{
			"PackagesSynced": "False Unpacking: The packages are still being validated.",
			"Ready":          "False Unpacking: The packages are still being validated.",
		}},
		{name: "invalid packages", served: true, published: 1, results: Results{Packages: Packages{Invalid: invalid}}, want: map[string]string{
			"PackagesSynced": "True InvalidPackages: 1 package is published, 2 are left out: \"a\" (b) and others. See " +
				"status.content.invalidPackages.",
			"Ready": "True Succeeded: 1 package is published, 2 are left out: \"a\" (b) and others. See status.content.invalidPackages.",
		}},
		{name: "nothing but invalid packages", served: true, results: Results{Packages: Packages{Invalid: invalid[1:]}}, want: map[string]string{
			"PackagesSynced": "True InvalidPackages: 0 packages are published, 1 is left out: \"a\" (b). See status.content.invalidPackages.",
			"Ready":          "False InvalidPackages: 0 packages are published, 1 is left out: \"a\" (b). See status.content.invalidPackages.",
		}},
		{name: "digest reference, current", served: true, published: 1, image: otherDigest, results: Results{Current: true},
			want: map[string]string{
				"Progressing": "True Succeeded: " + otherDigest + " is unpacked and current.",
			}},
		{name: "insecure", served: true, published: 1, results: Results{
			Attempted: true, Current: true, Insecure: []string{"a", "b"},
		}, want: map[string]string{
			"Progressing": "True Succeeded: " + image + " is unpacked and current. Not verified, since insecure is set: a, b.",
			"Ready":       "True Succeeded: 1 package is published. Not verified, since insecure is set: a, b.",
		}},
		{name: "a filter with names that are not found", served: true, published: 1, results: Results{Packages: Packages{Invalid: invalid[1:]}},
			subset: &source.Subset{NotFound: []string{"a", "b", "c", "d"}, NotFoundCount: 5}, want: map[string]string{
				"PackagesSynced": "True InvalidPackages: 1 package is published, 1 is left out: \"a\" (b). The catalog does not have what " +
					"spec.include or spec.exclude names: a, b, c and 2 more. See status.content.invalidPackages.",
				"Ready": "True Succeeded: 1 package is published, 1 is left out: \"a\" (b). The catalog does not have what " +
					"spec.include or spec.exclude names: a, b, c and 2 more. See status.content.invalidPackages.",
			}},
		{name: "behind another replica", served: true, results: Results{Behind: true, Fault: transient}, want: map[string]string{
			"Progressing": "True Retrying: Polling x: timed out. The previous content is still served.",
			"Ready":       "False Retrying: Polling x: timed out. The previous content is still served.",
		}},
		{name: "new, transient failure", results: Results{Attempted: true, Fault: transient}, want: map[string]string{
			"Progressing": "True Retrying: Polling x: timed out.",
			"Ready":       "False Retrying: Polling x: timed out.",
		}},
		{name: "new, blocked", results: Results{Attempted: true, Fault: blocked}, want: map[string]string{
			"Progressing": "False Blocked: spec.image is wrong.",
			"Ready":       "False Blocked: spec.image is wrong.",
		}},
		{name: "new, suspended", suspend: true, want: map[string]string{
			"Progressing": "False Suspended: Polling is suspended by spec.suspend; the content is still served.",
			"Ready":       "False Unavailable: No content is unpacked yet.",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			src := source.Source{Name: "cat", Generation: 3, Image: source.Image{Ref: image}}
			content := &Served{Digest: digest, URL: "u", Since: since, Content: source.Content{Bundles: 2, Subset: test.subset}}
			want := map[string]string{}
			base := unserved
			if test.served {
				base = served
				src.Observed = Concluded(src, Results{
					Image: Image{Ref: image}, Attempted: true, Current: true, Served: content, Packages: Packages{Published: 1},
				})
				test.results.Served = content
			} else {
				src.Observed = Announced(src, Image{Ref: image})
			}
			before := conditions(src.Observed)
			for _, of := range []map[string]string{base, test.want} {
				for k, v := range of {
					want[k] = v
				}
			}
			if test.image != "" {
				src.Image.Ref = test.image
			}
			src.Schedule.Suspend = test.suspend
			test.results.Image.Ref, test.results.Packages.Published = src.Image.Ref, test.published
			got := Concluded(src, test.results)
			if diff := cmp.Diff(want, conditions(got)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if got.Generation != 3 {
				t.Errorf("observedGeneration is %d, want 3", got.Generation)
			}
			if (got.URL != "") != test.served || (got.Content != nil) != test.served {
				t.Errorf("URL %q and content %v, served: %t", got.URL, got.Content, test.served)
			}
			if diff := cmp.Diff(before, conditions(src.Observed)); diff != "" {
				t.Errorf("the last status was changed:\n%s", diff)
			}
		})
	}
}

func TestConcludedStatus(t *testing.T) {
	last := source.Status{
		Digest: "sha256:old", URL: "u", Image: "old", Changed: since,
		Content: &source.Content{Packages: 7, Invalid: []source.InvalidPackage{{Name: "x"}}, InvalidCount: 1},
	}
	src := source.Source{
		Generation: 3, Observed: Announced(source.Source{Observed: last}, Image{}), Schedule: source.Schedule{Request: "now"},
	}
	served := func(digest string, at time.Time) *Served { return &Served{Digest: digest, URL: "u2", Since: at} }
	for _, test := range []struct {
		name    string
		results Results
		want    func(*source.Status)
	}{
		{"nothing served", Results{Image: Image{Ref: "new"}}, func(s *source.Status) { s.URL, s.Content = "", nil }},
		{"another digest", Results{
			Image: Image{Ref: "new"}, Current: true, Served: served("sha256:new", since.Add(time.Hour)),
		}, func(s *source.Status) {
			s.Digest, s.URL, s.Image, s.Changed, s.Content = "sha256:new", "u2", "new", since.Add(time.Hour), &source.Content{}
		}},
		{"the same digest, not that of the image", Results{
			Image: Image{Ref: "new"}, Served: served("sha256:old", since),
		}, func(s *source.Status) {
			s.URL, s.Content = "u2", &source.Content{}
		}},
		{
			"not validated, of the same digest", Results{Served: served("sha256:old", since), Packages: Packages{NotValidated: true}},
			func(s *source.Status) { s.URL = "u2" },
		},
		{"behind another replica", Results{Behind: true, Served: served("sha256:older", since)}, func(*source.Status) {}},
		{
			"an answered request",
			Results{Behind: true, Answered: true, Served: served("sha256:older", since)},
			func(s *source.Status) { s.Requested = "now" },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := last
			test.want(&want)
			got := Concluded(src, test.results)
			got.Conditions, got.Generation = nil, 0
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTemplateCondition(t *testing.T) {
	const condition = "TemplatesHaveResolved"
	src := source.Source{Image: source.Image{Ref: "r", Template: "t"}}
	for want, image := range map[string]Image{
		"True AllTemplatesResolved: The image is i.": {Ref: "i"},
		"False UnableToResolve: no version":          {Unresolved: errors.New("no version")},
	} {
		src.Observed = Announced(src, image)
		if got := conditions(src.Observed)[condition]; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	src.Image.Template = ""
	if got, ok := conditions(Concluded(src, Results{}))[condition]; ok {
		t.Errorf("without a template there is %q", got)
	}
}

func TestEvents(t *testing.T) {
	ready := func(reason, message, digest string, invalid ...source.InvalidPackage) source.Status {
		s := conclusion{Status: source.Status{Digest: digest, Content: &source.Content{Bundles: 1, Invalid: invalid, InvalidCount: len(invalid)}}}
		s.set("Progressing", "True", reason, message)
		return s.Status
	}
	bad := source.InvalidPackage{Name: "bad", Reason: "r"}
	down := errors.New("down")
	for _, test := range []struct {
		name          string
		before, after source.Status
		results       Results
		want          []string
	}{
		{name: "unchanged", before: ready("Succeeded", "m", "a"), after: ready("Succeeded", "m", "a")},
		{
			name: "first digest", after: ready("Succeeded", "m", "a"), results: Results{Image: Image{Ref: "i"}, Packages: Packages{Published: 2}},
			want: []string{"Normal Unpacked Unpack Serving i at a: 2 packages, 1 bundle."},
		},
		{
			name: "no package", before: ready("Succeeded", "m", "a"), after: ready("Succeeded", "m", "b"), results: Results{Image: Image{Ref: "i"}},
			want: []string{"Warning Unpacked Unpack Serving i at b: 0 packages, 1 bundle."},
		},
		{
			name: "failure", before: ready("Succeeded", "m", "a"), after: ready("Retrying", "Down.", "a"), results: Results{Fault: down},
			want: []string{"Warning Failed Unpack Down."},
		},
		{
			name:    "the same failure",
			before:  ready("Retrying", "Down.", "a"),
			after:   ready("Retrying", "Down.", "a"),
			results: Results{Fault: down},
		},
		{
			name: "recovered", before: ready("Blocked", "Down.", "a"), after: ready("Succeeded", "m", "a"), results: Results{Image: Image{Ref: "i"}},
			want: []string{"Normal Recovered Unpack Polling and unpacking i succeeds again."},
		},
		{
			name: "an invalid package", before: ready("Succeeded", "m", "a"), after: ready("Succeeded", "m", "a", bad),
			want: []string{`Warning InvalidPackages Publish 1 package is invalid and not published: "bad" (r)`},
		},
		{name: "the same invalid package", before: ready("Succeeded", "m", "a", bad), after: ready("Succeeded", "m", "a", bad)},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, e := range Events(test.before, test.after, test.results) {
				got = append(got, strings.Join([]string{e.Type, e.Reason, e.Action, e.Note}, " "))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSentence(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"polling x: timed out":                "Polling x: timed out.",
		"two\nlines.":                         "Two; lines.",
		"spec.pollingSchedule matches no day": "spec.pollingSchedule matches no day.",
		"foo/catalog.json:1: bad":             "foo/catalog.json:1: bad.",
		"quay.io: refused":                    "quay.io: refused.",
		"refused.":                            "Refused.",
		"registry: down":                      "Registry: down.",
	} {
		if got := sentence(errors.New(text)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
