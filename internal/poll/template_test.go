package poll

import (
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
)

func TestRender(t *testing.T) {
	const all = "r/c:v{kube_major_version}.{kube_minor_version}.{kube_patch_version}"
	for _, test := range []struct{ template, gitVersion, want, err string }{
		{template: all, gitVersion: "v1.37.1", want: "r/c:v1.37.1"},
		{template: all, gitVersion: "v1.20.1+bd9e442", want: "r/c:v1.20.1"},
		{template: all, gitVersion: "v1.37.0-rc.1+k3s", want: "r/c:v1.37.0"},
		{template: all, gitVersion: "1.9.12", want: "r/c:v1.9.12"},
		{template: "r/{kube_minor_version}/c{kube_minor_version}", gitVersion: "v1.37.1", want: "r/37/c37"},
		{template: "r/c:latest", want: "r/c:latest"},
		{
			template: "r/c:{kube_major_version}",
			err:      `Cannot construct catalog image reference, variable "kube_major_version" couldn't be resolved`,
		},
		{
			template: "r/c:{kube_major_version}-{kube_major_version}",
			err:      `Cannot construct catalog image reference, variable "kube_major_version" couldn't be resolved`,
		},
		{
			template:   all,
			gitVersion: "v1",
			err:        `Cannot construct catalog image reference, variables "kube_minor_version", "kube_patch_version" couldn't be resolved`,
		},
		{
			template:   all,
			gitVersion: "v1.20+",
			err:        `Cannot construct catalog image reference, variable "kube_patch_version" couldn't be resolved`,
		},
		{
			template:   all,
			gitVersion: "v1.x.y",
			err:        `Cannot construct catalog image reference, variables "kube_minor_version", "kube_patch_version" couldn't be resolved`,
		},
		{
			template: "r/{foo}:{kube_major_version}", gitVersion: "v1.37.1",
			err: `Cannot construct catalog image reference, "{foo}" is not a known variable; known are kube_major_version, ` +
				`kube_minor_version, kube_patch_version`,
		},
		{
			template: "r/c:{KUBE_MAJOR_VERSION}", gitVersion: "v1.37.1",
			err: `Cannot construct catalog image reference, "{KUBE_MAJOR_VERSION}" is not a known variable; known are kube_major_version, ` +
				`kube_minor_version, kube_patch_version`,
		},
		{
			template: "r/c:{{kube_major_version}}", gitVersion: "v1.37.1",
			err: `Cannot construct catalog image reference, "{" is not a known variable; known are kube_major_version, kube_minor_version, ` +
				`kube_patch_version`,
		},
		{
			template: "r/c:{kube_major_version", gitVersion: "v1.37.1",
			err: `Cannot construct catalog image reference, "{" is not a known variable; known are kube_major_version, kube_minor_version, ` +
				`kube_patch_version`,
		},
		{
			template: "r/c:{}", gitVersion: "v1.37.1",
			err: `Cannot construct catalog image reference, "{}" is not a known variable; known are kube_major_version, ` +
				`kube_minor_version, kube_patch_version`,
		},
	} {
		got, err := Render(test.template, test.gitVersion)
		if got != test.want || (err == nil) != (test.err == "") || (err != nil && err.Error() != test.err) {
			t.Errorf("%s with %q: got %q, %v\nwant %q, %s", test.template, test.gitVersion, got, err, test.want, test.err)
		}
	}
}

// FuzzTemplate checks that rendering replaces all variables, with digits only.
func FuzzTemplate(f *testing.F) {
	f.Add("r/c:v{kube_major_version}.{kube_minor_version}.{kube_patch_version}", "v1.20.1+bd9e442")
	f.Add("r/c:{{kube_major_version}", "v1.20+")
	f.Add("{kube_patch_version}}{", "1.2.3-rc.0")
	f.Add("ä{kube_minor_version}\x00@sha256:", "v01.0002.3")
	f.Fuzz(func(t *testing.T, template, gitVersion string) {
		image, err := Render(template, gitVersion)
		if err != nil {
			if image != "" || !strings.HasPrefix(err.Error(), "Cannot construct catalog image reference, ") {
				t.Errorf("got %q, %v", image, err)
			}
			return
		}
		if strings.ContainsAny(image, "{}") {
			t.Errorf("%q became %q", template, image)
		}
		rest := template
		for _, variable := range []string{majorVariable, minorVariable, patchVariable} {
			rest = strings.ReplaceAll(rest, "{"+variable+"}", "")
		}
		if withoutDigits(image) != withoutDigits(rest) {
			t.Errorf("%q became %q, which differs by more than digits", template, image)
		}
		_, _ = name.ParseReference(image) // must not panic
	})
}

func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}
