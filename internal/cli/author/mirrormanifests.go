package author

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/authoring/mirror"
	"github.com/operator-catalogs/catalogd/internal/cli/migrate"
)

// maxMirrors is that of spec.registry.mirrors.
const maxMirrors = 16

// manifest is a file that makes clusters use a mirror.
type manifest struct{ name, text string }

// printManifests writes the manifests to a directory, or to standard output as YAML documents.
func (m *mirroring) printManifests() error {
	files, err := m.manifests()
	if err != nil {
		return err
	}
	ref := m.req.destination.CatalogRef(m.req.as, m.req.tag)
	fmt.Fprintf(m.s.Stderr, "catalog: %s; it is a new image, so a signature of the original does not apply: sign it again\n", ref)
	if m.req.dir == "" {
		for _, f := range files {
			text := f.text
			if !strings.HasSuffix(f.name, ".yaml") {
				text = "# " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n# ") + "\n"
			}
			if _, err := fmt.Fprintf(m.s.Stdout, "---\n# %s\n%s", f.name, text); err != nil {
				return err
			}
		}
		return nil
	}
	if err := os.MkdirAll(m.req.dir, 0o777); err != nil {
		return err
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(m.req.dir, f.name), []byte(f.text), 0o666); err != nil {
			return err
		}
	}
	fmt.Fprintf(m.s.Stderr, "manifests: %s\n", m.req.dir)
	return nil
}

func (m *mirroring) manifests() (files []manifest, err error) {
	add := func(name string, object any) {
		text, failed := yaml.Marshal(object)
		if failed != nil {
			err = failed
		}
		files = append(files, manifest{name, string(text)})
	}
	to := *m.req.destination
	ref := to.CatalogRef(m.req.as, m.req.tag).String()
	name := migrate.Label(m.req.as)
	mirrors := to.Mirrors(m.images)
	add("catalogsource.yaml", m.catalogSource(name, ref))
	add("clustercatalog.yaml", map[string]any{
		"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"source": map[string]any{
			"type": "Image", "image": map[string]any{"ref": ref, "pollIntervalMinutes": 15},
		}},
	})
	add("catalogsource-olmv0.yaml", catalogSourceOfOLMv0(name, ref))
	for _, set := range []struct {
		file, kind, field string
		has               func(mirror.Mirror) bool
	}{
		{"imagedigestmirrorset.yaml", "ImageDigestMirrorSet", "imageDigestMirrors", func(m mirror.Mirror) bool { return m.Digests }},
		{"imagetagmirrorset.yaml", "ImageTagMirrorSet", "imageTagMirrors", func(m mirror.Mirror) bool { return m.Tags }},
	} {
		var entries []map[string]any
		for _, m := range mirrors {
			if set.has(m) {
				entries = append(entries, map[string]any{"source": m.Source, "mirrors": []string{m.Location}})
			}
		}
		if len(entries) > 0 {
			add(set.file, map[string]any{
				"apiVersion": "config.openshift.io/v1", "kind": set.kind, "metadata": map[string]any{"name": name},
				"spec": map[string]any{set.field: entries},
			})
		}
	}
	files = append(files, manifest{"registries.conf", registriesConf(mirrors, m.req.insecure)})
	return files, err
}

// catalogSource returns our CatalogSource. Its mirrors are those of bundle images, which catalogd pulls.
func (m *mirroring) catalogSource(name, ref string) any {
	access := &v1beta1.RegistryAccess{Insecure: m.req.insecure}
	for _, at := range m.req.destination.BundleMirrors(m.images) {
		if len(access.Mirrors) == maxMirrors {
			m.s.Stderr.Warnf("the bundle images are from more than %d registries: use the registries.conf with --registries-conf of catalogd", maxMirrors)
			break
		}
		access.Mirrors = append(access.Mirrors, v1beta1.RegistryMirror{Source: at.Source, Location: at.Location, Insecure: m.req.insecure})
	}
	return struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string         `json:"metadata"`
		Spec            v1beta1.CatalogSourceSpec `json:"spec"`
	}{
		metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "CatalogSource"},
		map[string]string{"name": name},
		v1beta1.CatalogSourceSpec{Image: ref, Registry: access},
	}
}

// registriesConf returns the mirrors in the format of containers-registries.conf(5).
func registriesConf(mirrors []mirror.Mirror, insecure bool) string {
	var b bytes.Buffer
	for i, m := range mirrors {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "[[registry]]\nlocation = %q\n\n  [[registry.mirror]]\n  location = %q\n", m.Source, m.Location)
		if insecure {
			b.WriteString("  insecure = true\n")
		}
		switch {
		case !m.Tags:
			b.WriteString("  pull-from-mirror = \"digest-only\"\n")
		case !m.Digests:
			b.WriteString("  pull-from-mirror = \"tag-only\"\n")
		}
	}
	return b.String()
}
