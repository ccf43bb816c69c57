package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// mirrorSource returns a directory with a catalog, whose images are at a registry: app, which requires db, and lost, whose image
// does not exist.
func mirrorSource(t *testing.T, host string) string {
	t.Helper()
	const blobs = `{"schema":"olm.package","name":%[1]q,"defaultChannel":"stable"}
{"schema":"olm.channel","package":%[1]q,"name":"stable","entries":[{"name":"%[1]s.v2.0.0","replaces":"%[1]s.v1.0.0"},{"name":"%[1]s.v1.0.0"}]}
{"schema":"olm.channel","package":%[1]q,"name":"gamma","entries":[{"name":"%[1]s.v2.0.0"}]}
{"schema":"olm.channel","package":%[1]q,"name":"beta","entries":[{"name":"%[1]s.v2.0.0"}]}
`
	const bundle = `{"schema":"olm.bundle","package":%[1]q,"name":"%[1]s.v%[2]s","image":%[3]q,"relatedImages":[{"name":"x","image":%[4]q}],` +
		`"properties":[{"type":"olm.package","value":{"packageName":%[1]q,"version":%[2]q}},{"type":"olm.csv.metadata","value":{}}%[5]s]}` + "\n"
	push := func(repository string) v1.Hash {
		index, err := random.Index(500, 1, 2)
		must.Succeed(t, err)
		digest, err := registry.Push(context.Background(), host+"/"+repository, index)
		must.Succeed(t, err)
		hash, err := v1.NewHash(digest)
		must.Succeed(t, err)
		return hash
	}
	text := ""
	for _, pkg := range []string{"app", "db", "lost"} {
		text += fmt.Sprintf(blobs, pkg)
		for _, version := range []string{"1.0.0", "2.0.0"} {
			image, related, more := host+"/ns/lost:v1", host+"/ns/lost:v2", ""
			if pkg != "lost" {
				image = host + "/ns/" + pkg + "@" + push("ns/"+pkg+":v"+version).String()
				related = host + "/other/" + pkg + ":v" + version
				push("other/" + pkg + ":v" + version)
			}
			if pkg == "app" {
				more = `,{"type":"olm.package.required","value":{"packageName":"db","versionRange":"<2.0.0"}},` +
					`{"type":"olm.gvk.required","value":{"group":"g","version":"v1","kind":"K"}}`
			}
			text += fmt.Sprintf(bundle, pkg, version, image, related, more)
		}
	}
	dir := filepath.Join(t.TempDir(), "mine")
	must.Succeed(t, os.Mkdir(dir, 0o755))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(text), 0o600))
	return dir
}

func TestMirrorPrintsManifests(t *testing.T) {
	from, to := registry.Start(t, nil), registry.Start(t, nil)
	dir := mirrorSource(t, from)
	code, stdout, stderr := run(t, "mirror", dir, "app@heads", "--with-dependencies", "--to", to+"/m", "--name", "cat/alog:v1")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{
		`added for package db <2.0.0, required by app: db 1.0.0 of channel "stable"`,
		"warning: not added: API g/v1/K, required by app: no package of the catalog provides it",
		"4 images: 4 copied, 0 already there, 0 failed",
		"catalog: " + to + "/m/cat/alog:v1; it is a new image, so a signature of the original does not apply",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("it does not say %q, but\n%s", want, stderr)
		}
	}
	text := strings.NewReplacer(from, "SOURCE:1", strings.Replace(from, ":", "_", 1), "SOURCE_1", to, "TARGET").Replace(stdout)
	const want = `---
# catalogsource.yaml
apiVersion: catalogd.operatorframework.io/v1beta1
kind: CatalogSource
metadata:
  name: cat-alog
spec:
  image: TARGET/m/cat/alog:v1
  registry:
    mirrors:
    - location: TARGET/m/SOURCE_1
      source: SOURCE:1
---
# clustercatalog.yaml
apiVersion: olm.operatorframework.io/v1
kind: ClusterCatalog
metadata:
  name: cat-alog
spec:
  source:
    image:
      pollIntervalMinutes: 15
      ref: TARGET/m/cat/alog:v1
    type: Image
---
# catalogsource-olmv0.yaml
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata:
  name: cat-alog
spec:
  grpcPodConfig:
    extractContent:
      catalogDir: /configs
    securityContextConfig: restricted
  image: TARGET/m/cat/alog:v1
  sourceType: grpc
  updateStrategy:
    registryPoll:
      interval: 15m
---
# imagedigestmirrorset.yaml
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata:
  name: cat-alog
spec:
  imageDigestMirrors:
  - mirrors:
    - TARGET/m/SOURCE_1/ns
    source: SOURCE:1/ns
---
# imagetagmirrorset.yaml
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata:
  name: cat-alog
spec:
  imageTagMirrors:
  - mirrors:
    - TARGET/m/SOURCE_1/other
    source: SOURCE:1/other
---
# registries.conf
# [[registry]]
# location = "SOURCE:1/ns"
# 
#   [[registry.mirror]]
#   location = "TARGET/m/SOURCE_1/ns"
#   pull-from-mirror = "digest-only"
# 
# [[registry]]
# location = "SOURCE:1/other"
# 
#   [[registry.mirror]]
#   location = "TARGET/m/SOURCE_1/other"
#   pull-from-mirror = "tag-only"
`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Error(diff)
	}
	for document := range strings.SplitSeq(stdout, "---\n") {
		var object map[string]any
		must.Succeed(t, yaml.Unmarshal([]byte(document), &object))
	}
	pulled := filepath.Join(t.TempDir(), "pulled.json")
	catalog, err := name.NewTag(to + "/m/cat/alog:v1")
	must.Succeed(t, err)
	if _, err := remote.Index(catalog); err != nil {
		t.Error(err)
	}
	if code, listed, stderr := run(t, "lint", to+"/m/cat/alog:v1"); code != 0 {
		t.Errorf("%s: %s%s", pulled, listed, stderr)
	}
}

func TestMirrorByArchive(t *testing.T) {
	from, to := registry.Start(t, nil), registry.Start(t, nil)
	dir, out := mirrorSource(t, from), t.TempDir()
	archive := filepath.Join(out, "mirror.tar")
	if code, _, stderr := run(t, "mirror", dir, "app", "--to", archive); code != 0 || !strings.Contains(stderr, "to copy it to a registry: kubectl catalog mirror --from mirror.tar") {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if code, _, stderr := run(t, "mirror", dir, "app", "--to", archive); code != 2 || !strings.Contains(stderr, "already exists") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if code, _, stderr := run(t, "mirror", dir, "db", "--to", archive, "--force"); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	code, stdout, stderr := run(t, "mirror", "--from", archive, "--to", to, "-o", filepath.Join(out, "manifests"))
	if code != 0 || stdout != "" || !strings.Contains(stderr, "4 images: 4 copied") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	text, err := os.ReadFile(filepath.Join(out, "manifests", "catalogsource.yaml"))
	must.Succeed(t, err)
	asJSON, err := yaml.YAMLToJSON(text)
	must.Succeed(t, err)
	var source struct {
		Spec struct {
			Registry struct{ Mirrors []struct{ Source string } }
		}
	}
	must.Succeed(t, json.Unmarshal(asJSON, &source))
	if m := source.Spec.Registry.Mirrors; len(m) != 1 || m[0].Source != from {
		t.Errorf("mirrors %+v of\n%s", m, text)
	}
}

func TestMirrorFailures(t *testing.T) {
	from, to := registry.Start(t, nil), registry.Start(t, nil)
	dir := mirrorSource(t, from)
	broken := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(broken, "a.tar"), []byte("x"), 0o600))
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"mirror", 2, "specify a catalog, its packages and the destination"},
		{"mirror DIR --to TO/m", 2, "specify the packages to copy, or --all"},
		{"mirror DIR app --all --to TO/m", 2, "specify packages or --all, not both"},
		{"mirror DIR app", 2, "specify the destination: --to REGISTRY/PREFIX, or --to ARCHIVE.tar"},
		{"mirror DIR app --to mirror", 2, `"mirror" is not a valid destination`},
		{"mirror DIR app --to TO/UP", 2, "is not a valid destination"},
		{"mirror DIR app --to TO/m --jobs 0", 2, "--jobs must be at least 1"},
		{"mirror DIR app --to TO/m --name a:b:c", 2, "is not a valid name of a catalog image"},
		{"mirror DIR app@1 --to TO/m", 2, "invalid selection"},
		{"mirror DIR app --to x.tar -o out", 2, "-o does not apply to archives"},
		{"mirror DIR nosuch --to TO/m", 1, "not found"},
		{"mirror DIR app nosuch --to TO/m", 3, `not found in DIR: package "nosuch"`},
		{"mirror DIR app/beta app/gamma --to TO/m", 2, "--default-channel app=CHANNEL, one of beta, gamma"},
		{"mirror DIR app/beta app/gamma --default-channel app=beta --to TO/m --dry-run", 0, "2 images"},
		{"mirror nosuch/ app --to TO/m", 3, "directory or file nosuch/ not found"},
		{"mirror DIR lost app --to TO/m", 1, "2 of 6 images could not be copied, so the catalog was not pushed"},
		{"mirror DIR lost app --to TO/m --allow-missing", 0, "warning: the catalog names images that the mirror does not have"},
		{"mirror DIR lost --to TO/m --dry-run", 1, "2 images cannot be read"},
		{"mirror --from BROKEN/a.tar", 2, "specify the registry to copy the archive to"},
		{"mirror --from BROKEN/a.tar DIR --to TO", 2, "--from copies all of an archive"},
		{"mirror --from BROKEN/a.tar --all --to TO", 2, "--from copies the catalog of the archive"},
		{"mirror --from BROKEN/a.tar --to TO", 1, "reading archive BROKEN/a.tar"},
		{"mirror --from BROKEN/none.tar --to TO", 3, "no such file"},
	} {
		args := strings.NewReplacer("DIR", dir, "TO", to, "BROKEN", broken).Replace(c.args)
		code, _, stderr := run(t, strings.Fields(args)...)
		said := strings.NewReplacer(dir, "DIR", broken, "BROKEN").Replace(stderr)
		if code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%s: exit code %d, want %d and %q; it says\n%s", c.args, code, c.code, c.says, said)
		}
	}
}

func TestMirrorDryRunListsSizes(t *testing.T) {
	from := registry.Start(t, nil)
	dir := mirrorSource(t, from)
	code, stdout, stderr := run(t, "mirror", dir, "app@=1.0.0", "--dry-run")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	text := regexp.MustCompile(`sha256:[0-9a-f]{64}|[0-9.]+ KiB`).ReplaceAllStringFunc(strings.ReplaceAll(stdout, from, "SOURCE"), func(s string) string {
		if strings.HasPrefix(s, "sha256") {
			return "sha256:DIGEST"
		}
		return "N KiB"
	})
	const want = `   SIZE   STATE   IMAGE
N KiB           SOURCE/ns/app@sha256:DIGEST
N KiB           SOURCE/other/app:v1.0.0
`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Error(diff)
	}
}
