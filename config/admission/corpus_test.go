package admission_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/registry"
)

// parsers are the fields that the policy checks, with well-formed seeds and catalogd's own parser.
var parsers = []struct {
	name  string
	seeds []string
	extra []string // inserted into texts
	spec  func(text string) v1beta1.CatalogSourceSpec
	reads func(text string) error
}{
	{
		"image",
		[]string{
			"catalog", "quay.io/example/catalog:v1.0", "localhost:5000/c", "[::1]:5000/c",
			"a.b/c@sha256:" + digest, "host:80/a/b__c:T@sha256:" + digest,
		},
		[]string{":", "/", "@", ".", "..", "-", "A", "0", "%41", "é", "?", "#", "sha512:", "::", "[", "]", "localhost", "~", "{"},
		image, readImage,
	},
	{
		"template",
		[]string{"quay.io/c:v{kube_major_version}.{kube_minor_version}", "a/{kube_patch_version}:{kube_minor_version}"},
		[]string{"{", "}", "{}", "{kube_major_version}", "{kube_minor}", "$", "A", ":", "/", "é", "@"},
		template, readTemplate,
	},
	{
		"schedule",
		[]string{
			"0 3 * * *", "*/5 1,2 1-7 JAN MON-FRI", "59 23 31 12 6", "CRON_TZ=UTC 0-9/3 ? 1-31 feb-Dec sun",
			"@daily", "@every 1h30m", "CRON_TZ=Europe/Prague @every 0.5s",
			"1,2,3 0 *-x/2 +01 007",
		},
		[]string{
			"-", "/", ",", "*", "?", "0", "7", "12", "31", "60", "99999999999999999999", "+", "-1",
			"sun", "SAT", "Dec", "L", "#", "frİ", "µs", "1d", "–", " ",
		},
		schedule, readSchedule,
	},
	{
		"secret",
		[]string{"a", "pull-secret", "a.b-c.d9"},
		[]string{".", "-", "A", "_", "/", "é", "\n", "0", ".."},
		func(text string) v1beta1.CatalogSourceSpec {
			return access(v1beta1.RegistryAccess{PullSecrets: []v1beta1.SecretReference{{Name: text}}})
		},
		func(text string) error { return problem(validation.IsDNS1123Subdomain(text)) },
	},
	{
		"key",
		[]string{"ca.crt", ".a", "A_b-c.d"},
		[]string{".", "..", "-", "A", "_", "/", "é", "\n", "0"},
		func(text string) v1beta1.CatalogSourceSpec {
			return access(v1beta1.RegistryAccess{CABundle: &v1beta1.BundleReference{Name: "a", Key: text}})
		},
		func(text string) error { return problem(validation.IsConfigMapKey(text)) },
	},
	{
		"mirror",
		[]string{
			"mirror.example", "mirror.example:5000/quay", "localhost/a__b/c-d", "[fd00::1]:5000/x", "docker.io",
			"index.docker.io/library", "my_mirror.example/x/", "m.example/c:v1",
		},
		[]string{".", "/", "//", "-", "--", "_", "__", "___", ":", ":80", "A", "é", "@", "[", "0", " "},
		func(text string) v1beta1.CatalogSourceSpec { return mirrors(text) },
		readMirror,
	},
}

// mutants is the number of texts for each field.
const mutants = 200

// TestPolicyRefusesNothingThatIsRead tries nearly well-formed texts. Each text that the policy rejects must be unreadable for
// catalogd as well. The policy may accept a few unreadable texts.
func TestPolicyRefusesNothingThatIsRead(t *testing.T) {
	for _, parser := range parsers {
		t.Run(parser.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(6, 9))
			tried, unread, caught := map[string]bool{}, 0, 0
			for len(tried) < mutants {
				text := mutate(random, parser.seeds[random.IntN(len(parser.seeds))], parser.extra)
				if tried[text] {
					continue
				}
				tried[text] = true
				err := api.Create(t.Context(), catalog("x", parser.spec(text)), client.DryRunAll)
				says, fault := refusal(err), parser.reads(text)
				switch {
				case err != nil && !apierrors.IsInvalid(err), strings.Contains(says, "expression '"):
					t.Errorf("%q: %v", text, err)
				case says != "" && fault == nil:
					t.Errorf("%q is refused, and catalogd reads it: %s", text, says)
				case err != nil && says == "": // the CRD's own rules do
				case fault != nil:
					unread++
					if says != "" {
						caught++
					} else {
						t.Logf("not caught: %q: %v", text, fault)
					}
				}
			}
			t.Logf("of %d that catalogd cannot read, %d are caught", unread, caught)
			if unread < 20 || caught*10 < unread*8 {
				t.Errorf("of %d that catalogd cannot read, %d are caught; want eight of ten, of at least 20", unread, caught)
			}
		})
	}
}

// mutate returns text with one to three changes: insertions, repetitions, deletions or swaps.
func mutate(random *rand.Rand, text string, extra []string) string {
	for range 1 + random.IntN(3) {
		runes := []rune(text)
		from := random.IntN(len(runes) + 1)
		to := min(len(runes), from+1+random.IntN(3))
		before, part, after := string(runes[:from]), string(runes[from:to]), string(runes[to:])
		switch random.IntN(4) {
		case 0:
			text = before + extra[random.IntN(len(extra))] + part + after
		case 1:
			text = before + part + part + after
		case 2:
			text = before + after
		case 3:
			text = before + extra[random.IntN(len(extra))] + after
		}
	}
	return text
}

func readImage(text string) error {
	ref, err := name.ParseReference(text)
	if err != nil {
		return err
	}
	return reach(ref, nil)
}

// readTemplate renders for versions with values of every length.
func readTemplate(text string) (err error) {
	for _, version := range []string{"v1.2.3", "v1.37.1", "v1.100.12", "v10.10.10"} {
		var ref string
		if ref, err = poll.Render(text, version); err != nil {
			continue
		}
		if err = readImage(ref); err == nil {
			return nil
		}
	}
	return err
}

func readSchedule(text string) error {
	_, err := poll.Cron(text)
	return err
}

// readMirror asks for several images, as it depends on them too.
func readMirror(text string) (err error) {
	for _, ref := range []string{"quay.io/example/catalog:v1", "quay.io/example/catalog@sha256:" + digest, "catalog", "localhost:5000/c"} {
		parsed, err := name.ParseReference(ref)
		if err != nil {
			return err
		}
		registryOf, repository := parsed.Context().RegistryStr(), parsed.Context().Name()
		for _, source := range []string{"", registryOf, registryOf + "/example", repository} {
			if err = reach(parsed, []registry.Mirror{{Source: source, Location: text}}); err == nil && strings.HasPrefix(repository, source) {
				return nil
			}
		}
	}
	return fmt.Errorf("it makes no reference of any image")
}

// reach builds catalogd's request to the registry without sending it.
func reach(ref name.Reference, mirrors []registry.Mirror) error {
	registries := registry.New(registry.Config{Now: time.Now, Backoff: func(int) time.Duration { return 0 }})
	c, err := registries.Client("x", registry.Access{Mirrors: mirrors})
	if err != nil {
		return err
	}
	_, err = c.Try(context.Background(), ref, func(context.Context, registry.Endpoint) error { return nil })
	return err
}

func problem(messages []string) error {
	if len(messages) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(messages, "; "))
}
