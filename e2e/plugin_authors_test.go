package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// clusterless runs the plugin without a cluster.
var clusterless = []string{"KUBECONFIG=/nonexistent", "KUBERNETES_SERVICE_HOST="}

func (w *world) clusterless(t *testing.T, args ...string) pluginRun {
	t.Helper()
	return w.pluginWith(t, clusterless, "", args...)
}

// besideSound returns a case of testdata/broken with the valid package beside it, as in the image of brokenImage.
func besideSound(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "broken", name))))
	must.Succeed(t, os.CopyFS(dir, os.DirFS(soundDir)))
	return dir
}

// TestPluginLint requires the same verdict as that of catalogd for each broken catalog, without a cluster.
func TestPluginLint(t *testing.T) {
	w := newWorld(t, shared)
	for _, name := range slices.Sorted(maps.Keys(directoryVerdicts)) {
		t.Run(name, func(t *testing.T) {
			want := directoryVerdicts[name]
			run := w.clusterless(t, "lint", besideSound(t, name), "-o", "json")
			var report struct {
				Packages        int
				Refused         bool
				Invalid, Hidden []string
				Faults          []struct {
					File           string
					Line           int
					Severity, Rule string
				}
			}
			must.Succeed(t, json.Unmarshal([]byte(run.stdout), &report))
			faults := 0
			for _, f := range report.Faults {
				if f.Severity == "error" {
					faults++
				}
			}
			if fails := faults > 0; run.code != map[bool]int{false: 0, true: 1}[fails] {
				t.Errorf("exit code %d with %d errors", run.code, faults)
			}
			if report.Refused != (want.blocked != nil) {
				t.Fatalf("refused is %t, catalogd says %+v: %s", report.Refused, want, run.stdout)
			}
			if report.Refused {
				return
			}
			left := slices.Sorted(slices.Values(append(report.Invalid, report.Hidden...)))
			if diff := cmp.Diff(slices.Sorted(maps.Keys(want.invalid)), left); diff != "" {
				t.Errorf("packages left out (-catalogd +lint):\n%s%s", diff, run.stdout)
			}
			if (len(report.Invalid) > 0) != (faults > 0) {
				t.Errorf("%d errors, invalid packages %q", faults, report.Invalid)
			}
		})
	}
}

func TestPluginLintOutput(t *testing.T) {
	w := newWorld(t, shared)
	heads, sound := filepath.Join("testdata", "broken", "multiple-heads"), soundDir
	checkGolden(t, "authors/lint.txt", w.clusterless(t, "lint", heads).stdout)
	checkGolden(t, "authors/lint-github.txt", w.clusterless(t, "lint", heads, "-o", "github").stdout)
	if rules := w.clusterless(t, "lint", "--rules").must(t); !strings.Contains(rules,
		"channel-head                 error      A channel has exactly one entry") {
		t.Errorf("the rules are\n%s", rules)
	}
	for _, test := range []struct {
		args string
		code int
		says string // on standard error
	}{
		{"lint " + heads, 1, "error: 1 error, 0 warnings in 1 file; catalogd would serve it and publish 0 OperatorPackages; not published: foo"},
		{"lint " + heads + " --no-warnings", 1, "1 error"},
		{"lint testdata/broken/truncated-json", 1, "catalogd would reject an image with this catalog"},
		{"lint " + sound, 0, "0 errors, 2 warnings"},
		{"lint " + sound + " --no-warnings", 0, "0 errors, 2 warnings"},
		{"lint " + sound + " --strict", 1, "--strict allows no warnings"},
		{"lint testdata/broken/00-control", 0, "publish 0 OperatorPackages; not published: foo"},
		{"lint testdata/nosuch/", 3, "directory or file testdata/nosuch/ not found"},
		{"lint " + w.registry.address + "/nosuch", 3, "no directory or file is named"},
		{"lint", 2, "specify a catalog"},
		{"lint " + heads + " -o xml", 2, `unknown format "xml"`},
		{"lint " + heads + " --strict --no-warnings", 2, "--strict or --no-warnings"},
		{"lint " + sound + " --target 4.16", 1, "1 error"},
		{"lint " + sound + " --target olmv0,olmv1 --target 4.17", 0, "0 errors, 2 warnings"},
		{"lint " + sound + " --target 4", 2, `unknown target "4"; valid targets are olmv0, olmv1, and versions of OpenShift such as 4.17`},
		{"push " + heads, 2, "kubectl catalog push DIR IMAGE"},
		{"push testdata/nosuch x.example/y", 3, "directory or file testdata/nosuch not found"},
		{"push " + heads + " Not/An/Image", 2, "is not a valid image reference"},
		{"push " + heads + " x.example/y --dry-run=server", 2, "--dry-run=client"},
	} {
		run := w.clusterless(t, strings.Fields(test.args)...)
		if run.code != test.code || !strings.Contains(run.stderr, test.says) {
			t.Errorf("%s: exit code %d, want %d, and %q in\n%s", test.args, run.code, test.code, test.says, run.stderr)
		}
	}
	if out := w.clusterless(t, "lint", sound, "--no-warnings").stdout; out != "" {
		t.Errorf("--no-warnings listed %q", out)
	}
	var log struct{ Runs []struct{ Results []any } }
	must.Succeed(t, json.Unmarshal([]byte(w.clusterless(t, "lint", heads, "-o", "sarif").stdout), &log))
	if len(log.Runs) != 1 || len(log.Runs[0].Results) != 1 {
		t.Errorf("SARIF has %+v, want one result", log)
	}
}

// TestPluginPush pushes a directory to a registry, adds it to a cluster, and exports it.
func TestPluginPush(t *testing.T) {
	w := newWorld(t, shared)
	image := w.registry.address + "/catalogs/mine:v1"
	run := w.clusterless(t, "push", sampleCatalog, image)
	reference := strings.TrimSpace(run.must(t))
	if next := "kubectl catalog add mine " + image + " --wait\nif it is already there: kubectl catalog refresh mine " +
		"--wait\n"; !strings.Contains(run.stderr, next) {
		t.Errorf("it does not say %q, but\n%s", next, run.stderr)
	}
	_, digest, _ := strings.Cut(reference, "@")
	if err := w.registryHas("catalogs/mine", digest); err != nil {
		t.Error(err)
	}
	w.clusterless(t, "lint", reference).must(t)
	w.plugin(t, "add", "mine", image, "--wait").must(t)
	back := filepath.Join(t.TempDir(), "back")
	w.plugin(t, "export", "mine", "-o", back).must(t)
	want, err := sortedBlobs(sampleCatalog)
	must.Succeed(t, err)
	got, err := sortedBlobs(back)
	must.Succeed(t, err)
	if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 {
		t.Errorf("%d blobs came back (-pushed +exported):\n%s", len(got), diff)
	}
}

// registryHas reports whether the registry has a manifest.
func (w *world) registryHas(repository, digest string) error {
	res, err := http.Head("http://" + w.registry.address + "/v2/" + repository + "/manifests/" + digest)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the registry says %s of %s", res.Status, digest)
	}
	return res.Body.Close()
}

// sortedBlobs returns a catalog as text, blob by blob, independent of its files.
func sortedBlobs(dir string) ([]string, error) {
	blobs, err := readCatalog(dir)
	var texts []string
	for _, b := range blobs {
		var fields map[string]any
		d := json.NewDecoder(strings.NewReader(string(b.raw)))
		d.UseNumber()
		if err := d.Decode(&fields); err != nil {
			return nil, err
		}
		text, err := json.Marshal(fields)
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(text))
	}
	slices.Sort(texts)
	return texts, err
}

// TestPluginPushIsReproducible requires the same digest for a copy with other times, modes and owners, and for
// repeated pushes. README.md states this digest.
func TestPluginPushIsReproducible(t *testing.T) {
	w := newWorld(t, shared)
	skupper := filepath.Join(sampleCatalog, "skupper-operator")
	copied := t.TempDir()
	must.Succeed(t, os.CopyFS(copied, os.DirFS(skupper)))
	must.Succeed(t, os.MkdirAll(filepath.Join(copied, ".git"), 0o700))
	must.Succeed(t, os.WriteFile(filepath.Join(copied, ".git", "config"), []byte("[core]"), 0o600))
	must.Succeed(t, filepath.WalkDir(copied, func(path string, entry fs.DirEntry, err error) error {
		mode := fs.FileMode(0o600)
		if entry.IsDir() {
			mode = 0o700
		}
		return errors.Join(err, os.Chmod(path, mode), os.Chtimes(path, time.Unix(1, 0), time.Unix(2, 0)))
	}))
	var digests []string
	for _, args := range [][]string{
		{skupper, w.registry.address + "/a:v1", "--dry-run=client"},
		{skupper, w.registry.address + "/a:v1"},
		{skupper, w.registry.address + "/b:v2"},
		{copied, w.registry.address + "/c"},
	} {
		_, digest, _ := strings.Cut(strings.TrimSpace(w.clusterless(t, append([]string{"push"}, args...)...).must(t)), "@")
		if digests = append(digests, digest); len(digests) == 1 {
			if err := w.registryHas("a", digest); err == nil {
				t.Error("--dry-run=client has pushed")
			}
		}
	}
	if len(slices.Compact(slices.Clone(digests))) != 1 {
		t.Errorf("the digests are %q", digests)
	}
	readme := readText(t, filepath.Join("..", "README.md"))
	said := regexp.MustCompile(`catalogd/mine@(sha256:[0-9a-f]{64})`).FindStringSubmatch(readme)
	if said == nil || said[1] != digests[0] {
		t.Errorf("README.md says %q, want %s", said, digests[0])
	}
}

// TestPluginPushRefuses requires a list of all errors of a catalog, which is pushed only with --force.
func TestPluginPushRefuses(t *testing.T) {
	w := newWorld(t, shared)
	dir := t.TempDir()
	for _, name := range []string{"invalid-semver", "truncated-json"} {
		must.Succeed(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join("testdata", "broken", name))))
	}
	image := w.registry.address + "/faulty:v1"
	w.clusterless(t, "push", dir, image).fails(t, 1,
		filepath.Join("invalid-semver", "foo", "catalog.json")+":64:20: error: ",
		filepath.Join("truncated-json", "foo", "catalog.json")+":54: error: ",
		"not pushed", "--force")
	if requests := w.registry.log(0); len(requests) > 0 {
		t.Errorf("the registry was asked: %v", requests)
	}
	run := w.clusterless(t, "push", dir, image, "--force", "-o", "json")
	var pushed struct{ Image, Digest, Reference string }
	must.Succeed(t, json.Unmarshal([]byte(run.must(t)), &pushed))
	if pushed.Image != image || pushed.Reference != w.registry.address+"/faulty@"+pushed.Digest {
		t.Errorf("it says %+v", pushed)
	}
	if err := w.registryHas("faulty", pushed.Digest); err != nil {
		t.Error(err)
	}
	if run := w.clusterless(t, "push", dir, image, "--force"); !strings.Contains(run.stderr, "catalogd would reject") ||
		strings.Contains(run.stderr, "next") {
		t.Errorf("of a catalog that catalogd would reject it says\n%s", run.stderr)
	}
}
