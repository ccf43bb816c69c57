package mirror

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// counted is the comparable part of a Result.
type counted struct{ Copied, Present, Attached, Failed int }

func countsOf(r Result) counted { return counted{r.Copied, r.Present, r.Attached, len(r.Failed)} }

func TestIndexesKeepTheirDigestsAndAreNotCopiedTwice(t *testing.T) {
	t.Parallel()
	from, to := newPeer(t), newPeer(t)
	byTag, byDigest := from.host+"/ns/tagged:v1", from.host+"/ns/pinned"
	tagged := pushIndex(t, byTag, randomIndex(t, 4))
	pinned := pushIndex(t, byDigest+":x", randomIndex(t, 2))
	refs := []string{byTag, byDigest + "@" + pinned.String()}

	result := copyTo(t, to, refs...)
	if diff := cmp.Diff(counted{Copied: 2}, countsOf(result)); diff != "" {
		t.Errorf("%s%v", diff, result.Describe())
	}
	for ref, want := range map[name.Reference]v1.Hash{
		at(t, to, byTag, "v1"):                           tagged,
		at(t, to, byTag, tagged.String()):                tagged,
		at(t, to, byDigest, pinned.String()):             pinned,
		at(t, to, byDigest, "mirrored-"+pinned.Hex[:16]): pinned, // so that it is not garbage
	} {
		index, err := remote.Index(ref)
		must.Succeed(t, err)
		if got, _ := index.Digest(); got != want {
			t.Errorf("%s has digest %s, want %s", ref, got, want)
		}
		must.Succeed(t, validate.Index(index))
	}

	to.counts()
	from.counts()
	result = copyTo(t, to, refs...)
	if diff := cmp.Diff(counted{Present: 2}, countsOf(result)); diff != "" {
		t.Error(diff)
	}
	uploads, mounts, _, puts := to.counts()
	_, _, blobs, _ := from.counts()
	if uploads+mounts+puts+blobs != 0 {
		t.Errorf("the second run made %d uploads, %d mounts and %d manifests, and read %d blobs", uploads, mounts, puts, blobs)
	}
}

func TestMovedTagIsCopiedAgain(t *testing.T) {
	t.Parallel()
	from, to := newPeer(t), newPeer(t)
	ref := from.host + "/ns/a:v1"
	pushImage(t, ref, layered(t, "one"))
	copyTo(t, to, ref)
	moved := pushImage(t, ref, layered(t, "two"))
	if result := copyTo(t, to, ref); result.Copied != 1 {
		t.Errorf("%+v", result)
	}
	head, err := remote.Head(at(t, to, ref, "v1"))
	must.Succeed(t, err)
	if head.Digest != moved {
		t.Errorf("the tag is at %s, want %s", head.Digest, moved)
	}
}

func TestSharedBlobsAreMounted(t *testing.T) {
	t.Parallel()
	from, to := newPeer(t), newPeer(t)
	var refs []string
	for _, repo := range []string{"a", "b", "c", "d", "e"} {
		ref := from.host + "/ns/" + repo + ":v1"
		pushImage(t, ref, layered(t, "base", "top of "+repo))
		refs = append(refs, ref)
	}
	from.counts()
	result := copyTo(t, to, refs...)
	if result.Copied != 5 {
		t.Fatalf("%+v", result)
	}
	uploads, mounts, _, _ := to.counts()
	_, _, read, _ := from.counts()
	if uploads != 1+5+5 || mounts != 4 || read != uploads { // a base, tops and configs
		t.Errorf("%d uploads, %d mounts, %d blobs read; want 11, 4, 11", uploads, mounts, read)
	}
}

func TestTransientFaultsAreRetried(t *testing.T) {
	t.Parallel()
	from, to := newPeer(t), newPeer(t)
	ref := from.host + "/ns/a:v1"
	digest := pushIndex(t, ref, randomIndex(t, 2))
	// The first request of each kind fails.
	first := func() func(*http.Request) int {
		var seen sync.Map
		return func(r *http.Request) int {
			kind := r.Method + path.Base(path.Dir(r.URL.Path))
			if _, again := seen.LoadOrStore(kind, true); again {
				return 0
			}
			return http.StatusServiceUnavailable
		}
	}
	from.set(func(p *peer) { p.refuse, p.cut = first(), 2 })
	to.set(func(p *peer) { p.refuse = first() })
	if result := copyTo(t, to, ref); result.Copied != 1 {
		t.Fatal(result.Describe())
	}
	to.set(func(p *peer) { p.refuse = nil })
	index, err := remote.Index(at(t, to, ref, digest.String()))
	must.Succeed(t, err)
	must.Succeed(t, validate.Index(index))
}

// A request that stalls is canceled and repeated.
func TestStalledRequestsAreRepeated(t *testing.T) {
	t.Parallel()
	from, to := newPeer(t), newPeer(t)
	ref := from.host + "/ns/a:v1"
	pushImage(t, ref, layered(t, "content"))
	stall := func(p *peer) {
		var seen sync.Map
		p.refuse = func(r *http.Request) int {
			if _, again := seen.LoadOrStore(r.Method+path.Base(path.Dir(r.URL.Path)), true); !again && r.URL.Path != "/v2/" {
				_, _ = io.Copy(io.Discard, r.Body) // else the server does not see the end of the connection
				<-r.Context().Done()
			}
			return 0
		}
	}
	from.set(stall)
	to.set(stall)
	opts := options()
	opts.StallTime = 200 * time.Millisecond
	dest := destination(t, to)
	c, err := ToRegistry(&dest, opts)
	must.Succeed(t, err)
	defer c.Close()
	if result := run(t, c, images(t, ref)); result.Copied != 1 {
		t.Error(result.Describe())
	}
}

// A host that exhausted the retries of an image gets one attempt for each of the others.
func TestDeadHostIsNotRetriedForEachImage(t *testing.T) {
	t.Parallel()
	from, to := newPeer(t), newPeer(t)
	var refs []string
	for i := range 20 {
		refs = append(refs, fmt.Sprintf("%s/ns/a:v%d", from.host, i))
	}
	var asked atomic.Int64
	from.set(func(p *peer) {
		p.refuse = func(*http.Request) int {
			asked.Add(1)
			return http.StatusServiceUnavailable
		}
	})
	opts := options()
	opts.Jobs = 1
	dest := destination(t, to)
	c, err := ToRegistry(&dest, opts)
	must.Succeed(t, err)
	defer c.Close()
	result := run(t, c, images(t, refs...))
	if len(result.Failed) != 20 || asked.Load() != 7+19 {
		t.Errorf("%d failed, after %d requests", len(result.Failed), asked.Load())
	}
}

// Blobs that another repository of the target's registry has are mounted from it.
func TestBlobsOfTheSameRegistryAreMounted(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	ref := p.host + "/ns/a:v1"
	pushImage(t, ref, layered(t, "one", "two"))
	p.counts()
	result := copyTo(t, p, ref)
	if uploads, mounts, _, _ := p.counts(); result.Copied != 1 || uploads != 0 || mounts != 3 {
		t.Errorf("%+v with %d uploads and %d mounts", result, uploads, mounts)
	}
}

// One image fails; the others are copied, and the next run copies only the rest of it.
func TestFailedImageDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	from, to := newPeer(t), newPeer(t)
	good, bad, missing := from.host+"/ns/good:v1", from.host+"/ns/bad:v1", from.host+"/ns/missing:v1"
	pushImage(t, good, layered(t, "good"))
	digest := pushImage(t, bad, layered(t, "bad", "worse"))
	manifest, err := layered(t, "bad", "worse").Manifest()
	must.Succeed(t, err)
	worse := manifest.Layers[1].Digest.String()
	from.set(func(p *peer) {
		p.refuse = func(r *http.Request) int {
			if strings.HasSuffix(r.URL.Path, "/blobs/"+worse) {
				return http.StatusForbidden
			}
			return 0
		}
	})
	result := copyTo(t, to, good, bad, missing)
	if diff := cmp.Diff(counted{Copied: 1, Failed: 2}, countsOf(result)); diff != "" {
		t.Errorf("%s%v", diff, result.Describe())
	}
	said := strings.Join(result.Describe(), "\n")
	for _, want := range []string{"ns/bad:v1: copying blob " + worse, "requires credentials", "ns/missing:v1: resolving the tag", "has no such image"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	if _, err := remote.Head(at(t, to, bad, digest.String())); err == nil {
		t.Error("a manifest without its blobs was pushed")
	}

	from.set(func(p *peer) { p.refuse = nil })
	to.counts()
	result = copyTo(t, to, good, bad)
	uploads, _, _, _ := to.counts()
	if diff := cmp.Diff(counted{Copied: 1, Present: 1}, countsOf(result)); diff != "" || uploads > 2 {
		t.Errorf("%s%d uploads", diff, uploads)
	}
}

func TestSignaturesAndReferrersComeAlong(t *testing.T) {
	for name, test := range map[string]struct{ fromAPI, toAPI bool }{
		"API":           {true, true},
		"fallback":      {false, false},
		"API at source": {true, false},
		"API at target": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := newPeer(t), newPeer(t)
			from.noReferrers, to.noReferrers = !test.fromAPI, !test.toAPI
			ref := from.host + "/ns/a:v1"
			digest := pushIndex(t, ref, randomIndex(t, 2))
			tag := from.host + "/ns/a:sha256-" + digest.Hex
			signature := pushImage(t, tag+".sig", layered(t, "signature"))
			attestation := pushImage(t, tag+".att", layered(t, "attestation"))
			sbom := referrer(t, digest, "sbom")
			sbomDigest, err := sbom.Digest()
			must.Succeed(t, err)
			pushImage(t, from.host+"/ns/a@"+sbomDigest.String(), sbom)
			second := referrer(t, digest, "another sbom")
			secondDigest, err := second.Digest()
			must.Succeed(t, err)
			pushImage(t, from.host+"/ns/a@"+secondDigest.String(), second)
			about := referrer(t, sbomDigest, "signature of the sbom")
			aboutDigest, err := about.Digest()
			must.Succeed(t, err)
			pushImage(t, from.host+"/ns/a@"+aboutDigest.String(), about)

			result := copyTo(t, to, ref)
			if diff := cmp.Diff(counted{Copied: 1, Attached: 5}, countsOf(result)); diff != "" {
				t.Errorf("%s%v", diff, result.Describe())
			}
			for _, tagged := range []struct {
				tag  string
				want v1.Hash
			}{{"sha256-" + digest.Hex + ".sig", signature}, {"sha256-" + digest.Hex + ".att", attestation}} {
				head, err := remote.Head(at(t, to, ref, tagged.tag))
				must.Succeed(t, err)
				if head.Digest != tagged.want {
					t.Errorf("%s is %s, want %s", tagged.tag, head.Digest, tagged.want)
				}
			}
			for subject, want := range map[v1.Hash][]v1.Hash{digest: {sbomDigest, secondDigest}, sbomDigest: {aboutDigest}} {
				of, ok := at(t, to, ref, subject.String()).(nameDigest)
				if !ok {
					t.Fatal("no digest")
				}
				index, err := remote.Referrers(of)
				must.Succeed(t, err)
				list, err := index.IndexManifest()
				must.Succeed(t, err)
				got := map[v1.Hash]bool{}
				for _, d := range list.Manifests {
					got[d.Digest] = true
				}
				for _, digest := range want {
					if !got[digest] || len(got) != len(want) {
						t.Errorf("the referrers of %s are %v, want %v", subject, got, want)
					}
				}
			}
			if result := copyTo(t, to, ref); result.Attached != 0 {
				t.Errorf("%d copied again", result.Attached)
			}
		})
	}
}

type nameDigest = name.Digest

func TestInvalidReferencesAreListedTogether(t *testing.T) {
	t.Parallel()
	refs, err := ReferencesOf([]byte(`{"name":"a.v1","package":"a","image":"","relatedImages":[
		{"name":"x","image":"quay.io/NS/x:v1"},{"name":"y","image":""},{"name":"z","image":"quay.io/ns/z@sha256:12"},
		{"image":"quay.io/ns/fine"}]}`))
	must.Succeed(t, err)
	_, err = ParseReferences(refs)
	const want = `the catalog has invalid image references; correct or remove their bundles:
  bundle "a.v1" of package "a": image: it is empty
  bundle "a.v1" of package "a": related image "x": "quay.io/NS/x:v1" is not a valid image reference: write registry/repository:tag or registry/repository@digest
  bundle "a.v1" of package "a": related image "y": it is empty
  bundle "a.v1" of package "a": related image "z": "quay.io/ns/z@sha256:12" is not a valid image reference: write registry/repository:tag or registry/repository@digest`
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
}

func TestRepositoriesKeepTheHost(t *testing.T) {
	t.Parallel()
	to, err := ParseDestination("registry.example:5000/a/b/")
	must.Succeed(t, err)
	for image, want := range map[string]string{
		"quay.io/ns/x@sha256:" + strings.Repeat("0", 64): "registry.example:5000/a/b/quay.io/ns/x",
		"nginx":                  "registry.example:5000/a/b/docker.io/library/nginx",
		"docker.io/ns/x":         "registry.example:5000/a/b/docker.io/ns/x",
		"host.example:5000/ns/x": "registry.example:5000/a/b/host.example_5000/ns/x",
	} {
		got, err := to.Repository(images(t, image)[0].item.repo)
		must.Succeed(t, err)
		if got.String() != want {
			t.Errorf("%s goes to %s, want %s", image, got, want)
		}
	}
	for _, bad := range []string{"", "quay", "registry.example/UP", "registry.example/a:v1", "https://registry.example/a", "registry.example/a//b"} {
		if _, err := ParseDestination(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
