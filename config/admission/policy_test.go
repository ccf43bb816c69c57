package admission_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

const digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// Remedies in refusals.
const (
	asTag          = `is not a valid image reference: write registry/repository:tag, in lower case except the tag`
	asDigest       = `is not a valid image reference: write registry/repository@sha256: and 64 lower-case hex digits`
	validVariables = `: valid variables are {kube_major_version}, {kube_minor_version} and {kube_patch_version}`
	cronForms      = `, "*", ascending ranges such as 1-5, steps such as */2, or a comma-separated list of these`
	asDuration     = ` is not a valid duration: write hours, minutes and seconds, such as @every 1h30m`
	asName         = ` is not a valid name of a Secret or ConfigMap: use lower-case letters, digits, "-" and ".", without a namespace`
	asPrefix       = `: write registry[:port][/namespace[/repository]], with namespace and repository in lower case`
)

// refused are common mistakes with the expected messages.
var refused = []struct {
	name string
	spec v1beta1.CatalogSourceSpec
	says string
}{
	{"upper case", image("quay.io/Example/catalog:v1"), `spec.image "quay.io/Example/catalog:v1" ` + asTag},
	{"no tag", image("quay.io/example/catalog:"), `spec.image "quay.io/example/catalog:" ` + asTag},
	{"two tags", image("catalog:v1:v2"), `spec.image "catalog:v1:v2" ` + asTag},
	{"no repository", image("quay.io/"), `spec.image "quay.io/" ` + asTag},
	{"an address not in ASCII", image("bücher.example/catalog"), `spec.image "bücher.example/catalog" ` + asTag},
	{"credentials", image("user:password@quay.io/catalog"), `spec.image "user:password@quay.io/catalog" ` + asDigest},
	{
		"a short digest", image("quay.io/example/catalog@sha256:e3b0c442"),
		`spec.image "quay.io/example/catalog@sha256:e3b0c442" ` + asDigest,
	},
	{"a digest without algorithm", image("catalog@" + digest), `spec.image "catalog@` + digest + `" ` + asDigest},
	{
		"a digest in upper case", image("c@sha256:" + strings.ToUpper(digest)),
		`spec.image "c@sha256:` + strings.ToUpper(digest) + `" ` + asDigest,
	},
	{
		"a long value is shortened", image(strings.Repeat("A", 1000)),
		`spec.image "` + strings.Repeat("A", 80) + `..." ` + asTag,
	},
	{
		"a template as image", image("quay.io/c:v{kube_minor_version}"),
		`spec.image "quay.io/c:v{kube_minor_version}" is not a valid image reference: move a reference with variables to spec.imageTemplate`,
	},

	{
		"an unknown variable", template("quay.io/c:v{kube_major}.{kube_minor_version}"),
		`spec.imageTemplate "quay.io/c:v{kube_major}.{kube_minor_version}" has the unknown variable {kube_major}` + validVariables,
	},
	{
		"a variable of shells", template("quay.io/c:v${kube_major_version"),
		`spec.imageTemplate "quay.io/c:v${kube_major_version" has the unknown variable {kube_major_version` + validVariables,
	},
	{
		"a template in upper case", template("quay.io/C:v{kube_major_version}"),
		`spec.imageTemplate "quay.io/C:v{kube_major_version}" ` + asTag,
	},

	{
		"Sunday as 7", schedule("0 3 * * 7"),
		`spec.pollingSchedule: invalid day of week "7": use numbers from 0 (Sunday) to 6 or sun to sat` + cronForms,
	},
	{"minute", schedule("60 * * * *"), `spec.pollingSchedule: invalid minute "60": use numbers from 0 to 59` + cronForms},
	{"hour", schedule("0 1,24 * * *"), `spec.pollingSchedule: invalid hour "1,24": use numbers from 0 to 23` + cronForms},
	{
		"day of month", schedule("0 3 0 * *"),
		`spec.pollingSchedule: invalid day of month "0": use numbers from 1 to 31` + cronForms,
	},
	{
		"month", schedule("CRON_TZ=Europe/Prague 0 3 * january *"),
		`spec.pollingSchedule: invalid month "january": use numbers from 1 to 12 or jan to dec` + cronForms,
	},
	{
		"a range that falls", schedule("0 3 * * SAT-SUN"),
		`spec.pollingSchedule: invalid day of week "sat-sun": use numbers from 0 (Sunday) to 6 or sun to sat` + cronForms,
	},
	{
		"a step of nothing", schedule("*/0 * * * *"),
		`spec.pollingSchedule: invalid minute "*/0": use numbers from 0 to 59` + cronForms,
	},
	{
		"an extension", schedule("0 3 L * *"),
		`spec.pollingSchedule: invalid day of month "l": use numbers from 1 to 31` + cronForms,
	},
	{
		"a typographic hyphen", schedule("0 3 * * MON–FRI"),
		`spec.pollingSchedule: invalid day of week "mon–fri": use numbers from 0 (Sunday) to 6 or sun to sat` + cronForms,
	},
	{"days are no duration", schedule("@every 1d"), `spec.pollingSchedule: "@every 1d"` + asDuration},
	{"a number is no duration", schedule("CRON_TZ=UTC @every 15"), `spec.pollingSchedule: "@every 15"` + asDuration},

	{
		"a pull secret in a namespace",
		access(v1beta1.RegistryAccess{PullSecrets: []v1beta1.SecretReference{{Name: "a"}, {Name: "team/puller"}}}),
		`spec.registry.pullSecrets: "team/puller"` + asName,
	},
	{
		"a CA bundle in upper case", access(v1beta1.RegistryAccess{CABundle: &v1beta1.BundleReference{Name: "CA"}}),
		`spec.registry.caBundle: "CA"` + asName,
	},
	{
		"a file as key", access(v1beta1.RegistryAccess{CABundle: &v1beta1.BundleReference{Name: "ca", Key: "/etc/ca.crt"}}),
		`spec.registry.caBundle.key is not a valid key of a Secret or ConfigMap: use letters, digits, "-", "_" and "."`,
	},
	{
		"a client certificate", access(v1beta1.RegistryAccess{ClientCertificate: &v1beta1.SecretReference{Name: "a_b"}}),
		`spec.registry.clientCertificate: "a_b"` + asName,
	},
	{
		"the address of a proxy", access(v1beta1.RegistryAccess{Proxy: &v1beta1.SecretReference{Name: "http://proxy:3128\n"}}),
		`spec.registry.proxy: "http://proxy:3128 "` + asName,
	},

	{
		"a mirror without registry", mirrors("mirror.example", "quay"),
		`spec.registry.mirrors: invalid location "quay"` + asPrefix,
	},
	{
		"a mirror in upper case", mirrors("mirror.example/Quay"),
		`spec.registry.mirrors: invalid location "mirror.example/Quay"` + asPrefix,
	},
	{
		"a mirror with white space", mirrors("mirror.example "),
		`spec.registry.mirrors: invalid location "mirror.example "` + asPrefix,
	},
	{"a mirror without anything", mirrors("/"), `spec.registry.mirrors: invalid location "/"` + asPrefix},
}

func TestPolicyRefuses(t *testing.T) {
	for _, test := range refused {
		t.Run(test.name, func(t *testing.T) {
			err := api.Create(t.Context(), catalog("x", test.spec), client.DryRunAll)
			if got := refusal(err); got != test.says {
				t.Errorf("got  %s\nwant %s\nall: %v", got, test.says, err)
			}
		})
	}
}

func TestPolicyAccepts(t *testing.T) {
	for _, test := range []struct {
		name string
		spec v1beta1.CatalogSourceSpec
	}{
		{"a name", image("catalog")},
		{"a registry with a port", image("localhost:5000/catalog:V1.0_x-y")},
		{"an IPv6 address", image("[::1]:5000/catalog")},
		{"a registry in upper case", image("Quay.IO/example/catalog")},
		{"a digest", image("quay.io/example/catalog@sha256:" + digest)},
		{"a digest and a tag", image("quay.io/example/catalog:v1@sha256:" + digest)},
		{"a template", template("quay.io/example/catalog:v{kube_major_version}.{kube_minor_version}.{kube_patch_version}")},
		{"an image that the template wins over", v1beta1.CatalogSourceSpec{Image: "A", ImageTemplate: "a:{kube_major_version}"}},
		{"a template of a digest", template("c@sha256:" + digest[:60] + "{kube_minor_version}")},
		{"lists, ranges, steps", schedule("*/5,7 0-23/2,?  1-31 JAN,feb-Dec MON-FRI/2")},
		{"what only the parser thinks of", schedule("+07,,*-x 0/1 001-+9 * *")},
		{"a zone", schedule("CRON_TZ=Europe/Prague  0 3 * * 1-5")},
		{"a word", schedule("@daily")},
		{"a word with a zone", schedule("CRON_TZ=UTC @hourly")},
		{"a duration", schedule("@every 1h30m0.5s")},
		{"a duration in Greek", schedule("@every 5000000µs")},
		{"names", access(v1beta1.RegistryAccess{
			PullSecrets:       []v1beta1.SecretReference{{Name: "a"}, {Name: "a.b-c.9"}},
			CABundle:          &v1beta1.BundleReference{Name: "ca", Key: ".dockerconfig_A-1"},
			ClientCertificate: &v1beta1.SecretReference{Name: "a"}, Proxy: &v1beta1.SecretReference{Name: "a"},
		})},
		{"no names", access(v1beta1.RegistryAccess{})},
		{"mirrors", mirrors(
			"mirror.example", "mirror.example:5000/quay/", "localhost/a__b/c-d", "[fd00::1]:5000", "docker.io", "my_mirror.example/x",
		)},
		{"as much as the CRD lets", largest()}, // an expression may cost so much and no more
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := api.Create(t.Context(), catalog("x", test.spec), client.DryRunAll); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPolicyAndTheAnnotation(t *testing.T) {
	bad := map[string]string{v1beta1.ImageTemplateAnnotation: "quay.io/c:{version}\n"}
	c := catalog("x", image("A"))
	c.Annotations = bad
	want := `annotation olm.catalogImageTemplate "quay.io/c:{version} " has the unknown variable {version}` + validVariables
	if got := refusal(api.Create(t.Context(), c, client.DryRunAll)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	c = catalog("x", template("c:{kube_major_version}")) // takes precedence over the annotation
	c.Annotations = bad
	if err := api.Create(t.Context(), c, client.DryRunAll); err != nil {
		t.Error(err)
	}
	c = catalog("x", image("c"))
	c.Annotations = map[string]string{v1beta1.ImageTemplateAnnotation: ""}
	if err := api.Create(t.Context(), c, client.DryRunAll); err != nil {
		t.Error(err)
	}
}

// stored has every fault. It was created before the policy.
var stored = catalog("stored", v1beta1.CatalogSourceSpec{
	Image: "A", PollingSchedule: "99 * * * *",
	Registry: &v1beta1.RegistryAccess{
		PullSecrets: []v1beta1.SecretReference{{Name: "A"}}, CABundle: &v1beta1.BundleReference{Name: "A", Key: "/"},
		ClientCertificate: &v1beta1.SecretReference{Name: "A"}, Proxy: &v1beta1.SecretReference{Name: "A"},
		Mirrors: []v1beta1.RegistryMirror{{Location: "A A"}},
	},
})

func TestPolicyJudgesWhatIsNew(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*v1beta1.CatalogSource)
		refused bool
	}{
		{"a label", func(c *v1beta1.CatalogSource) { c.Labels = map[string]string{"a": "b"} }, false},
		{"a finalizer", func(c *v1beta1.CatalogSource) { c.Finalizers = []string{"example.com/x"} }, false},
		{"suspend", func(c *v1beta1.CatalogSource) { c.Spec.Suspend = true }, false},
		{"the image corrected", func(c *v1beta1.CatalogSource) { c.Spec.Image = "a" }, false},
		{"the image", func(c *v1beta1.CatalogSource) { c.Spec.Image = "B" }, true},
		{"a template", func(c *v1beta1.CatalogSource) { c.Spec.ImageTemplate = "B" }, true},
		{"the annotation", func(c *v1beta1.CatalogSource) {
			c.Annotations = map[string]string{v1beta1.ImageTemplateAnnotation: "B"}
		}, true},
		{"the schedule corrected", func(c *v1beta1.CatalogSource) { c.Spec.PollingSchedule = "9 * * * *" }, false},
		{"the schedule removed", func(c *v1beta1.CatalogSource) { c.Spec.PollingSchedule = "" }, false},
		{"the schedule", func(c *v1beta1.CatalogSource) { c.Spec.PollingSchedule = "98 * * * *" }, true},
		{"access removed", func(c *v1beta1.CatalogSource) { c.Spec.Registry = nil }, false},
		{"another pull secret", func(c *v1beta1.CatalogSource) {
			c.Spec.Registry.PullSecrets = append(c.Spec.Registry.PullSecrets, v1beta1.SecretReference{Name: "b"})
		}, false},
		{"another bad pull secret", func(c *v1beta1.CatalogSource) {
			c.Spec.Registry.PullSecrets = append(c.Spec.Registry.PullSecrets, v1beta1.SecretReference{Name: "B"})
		}, true},
		{"the key", func(c *v1beta1.CatalogSource) { c.Spec.Registry.CABundle.Key = "//" }, true},
		{"another mirror", func(c *v1beta1.CatalogSource) {
			c.Spec.Registry.Mirrors = append(c.Spec.Registry.Mirrors, v1beta1.RegistryMirror{Location: "b.example"})
		}, false},
		{"another bad mirror", func(c *v1beta1.CatalogSource) {
			c.Spec.Registry.Mirrors = append(c.Spec.Registry.Mirrors, v1beta1.RegistryMirror{Location: "b b"})
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &v1beta1.CatalogSource{}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(stored), c); err != nil {
				t.Fatal(err)
			}
			test.change(c)
			err := api.Update(t.Context(), c, client.DryRunAll)
			if got := refusal(err) != ""; got != test.refused || !got && err != nil {
				t.Errorf("got %v, want it refused: %t", err, test.refused)
			}
		})
	}
	c := stored.DeepCopy()
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(stored), c); err != nil {
		t.Fatal(err)
	}
	c.Status.ObservedGeneration = 7
	if err := api.Status().Update(t.Context(), c); err != nil {
		t.Error(err)
	}
	if err := api.Delete(t.Context(), c, client.DryRunAll); err != nil {
		t.Error(err)
	}
}

// A failing expression must not reject a request. The other tests run with Fail and cannot show this.
func TestPolicyFailsOpen(t *testing.T) {
	policy, _, err := readPolicy()
	if err != nil {
		t.Fatal(err)
	}
	if p := policy.Spec.FailurePolicy; p == nil || *p != admissionv1.Ignore {
		t.Errorf("failurePolicy is %v, want Ignore", p)
	}
}

func largest() v1beta1.CatalogSourceSpec {
	spec := image(strings.Repeat("a.", 300) + "a/" + strings.Repeat("b", 255) + ":" + strings.Repeat("C", 128))
	spec.PollingSchedule = "* * * * " + strings.Repeat("SUN-SAT,", 31)
	secret := v1beta1.SecretReference{Name: strings.Repeat("a", 253)}
	bundle := v1beta1.BundleReference{Name: secret.Name, Key: secret.Name}
	spec.Registry = &v1beta1.RegistryAccess{ClientCertificate: &secret, Proxy: &secret, CABundle: &bundle}
	for range 16 {
		spec.Registry.PullSecrets = append(spec.Registry.PullSecrets, secret)
		spec.Registry.Mirrors = append(spec.Registry.Mirrors, v1beta1.RegistryMirror{Location: strings.Repeat("a.", 255) + "aa"})
	}
	return spec
}

func image(ref string) v1beta1.CatalogSourceSpec { return v1beta1.CatalogSourceSpec{Image: ref} }

func template(ref string) v1beta1.CatalogSourceSpec {
	return v1beta1.CatalogSourceSpec{ImageTemplate: ref}
}

func schedule(cron string) v1beta1.CatalogSourceSpec {
	return v1beta1.CatalogSourceSpec{Image: "x", PollingSchedule: cron}
}

func access(access v1beta1.RegistryAccess) v1beta1.CatalogSourceSpec {
	return v1beta1.CatalogSourceSpec{Image: "x", Registry: &access}
}

func mirrors(locations ...string) v1beta1.CatalogSourceSpec {
	var mirrors []v1beta1.RegistryMirror
	for _, location := range locations {
		mirrors = append(mirrors, v1beta1.RegistryMirror{Location: location})
	}
	return access(v1beta1.RegistryAccess{Mirrors: mirrors})
}
