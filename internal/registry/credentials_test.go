package registry

import (
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

func TestCredentialsSpecificity(t *testing.T) {
	file := func(keys ...string) string { // the user is named as the key
		var entries []string
		for _, key := range keys {
			entries = append(entries, `"`+key+`":{"username":"`+key+`","password":"pw"}`)
		}
		return `{"auths":{` + strings.Join(entries, ",") + `}}`
	}
	for name, test := range map[string]struct {
		files []string
		image string
		want  string // the user; "" is anonymous
	}{
		"host":                          {[]string{file("quay.io")}, "quay.io/ns/repo", "quay.io"},
		"another host":                  {[]string{file("quay.io")}, "ghcr.io/ns/repo", ""},
		"repository before namespace":   {[]string{file("quay.io", "quay.io/ns", "quay.io/ns/repo")}, "quay.io/ns/repo", "quay.io/ns/repo"},
		"namespace before host":         {[]string{file("quay.io", "quay.io/ns", "quay.io/ns/repo")}, "quay.io/ns/other", "quay.io/ns"},
		"specific in a later file":      {[]string{file("quay.io"), file("quay.io/ns")}, "quay.io/ns/repo", "quay.io/ns"},
		"a path ends at a slash":        {[]string{file("quay.io/ns")}, "quay.io/nsother/repo", ""},
		"repository does not end early": {[]string{file("quay.io/ns/repo")}, "quay.io/ns/repository", ""},
		"below a repository":            {[]string{file("quay.io/ns/repo")}, "quay.io/ns/repo/sub", "quay.io/ns/repo"},
		"trailing slash":                {[]string{file("quay.io/ns/")}, "quay.io/ns/repo", "quay.io/ns/"},
		"port":                          {[]string{file("h.example:5000", "h.example")}, "h.example:5000/repo", "h.example:5000"},
		"port is part of the host":      {[]string{file("h.example")}, "h.example:5000/repo", ""},
		"docker hub's old key":          {[]string{file("https://index.docker.io/v1/")}, "busybox", "https://index.docker.io/v1/"},
		"docker hub's short key":        {[]string{file("docker.io")}, "library/busybox", "docker.io"},
		"docker hub by another name":    {[]string{file("registry-1.docker.io")}, "docker.io/library/busybox", "registry-1.docker.io"},
		"docker hub's namespace":        {[]string{file("docker.io/acme", "index.docker.io")}, "acme/foo", "docker.io/acme"},
		"docker hub is not everything":  {[]string{file("https://index.docker.io/v1/")}, "quay.io/ns/repo", ""},
		"URL":                           {[]string{file("https://h.example/v2/")}, "h.example/repo", "https://h.example/v2/"},
		"URL with path":                 {[]string{file("http://h.example/v1/ns")}, "h.example/ns/repo", "http://h.example/v1/ns"},
		"upper case":                    {[]string{file("Quay.IO")}, "quay.io/ns/repo", "Quay.IO"},
		"pattern":                       {[]string{file("*.example.com")}, "a.example.com/repo", "*.example.com"},
		"pattern stands for one label":  {[]string{file("*.example.com")}, "a.b.example.com/repo", ""},
		"pattern needs a label":         {[]string{file("*.example.com")}, "example.com/repo", ""},
		"pattern within a label": {
			[]string{file("*.dkr.ecr.eu-*.amazonaws.com")}, "1.dkr.ecr.eu-west-1.amazonaws.com/repo", "*.dkr.ecr.eu-*.amazonaws.com",
		},
		"pattern with port":    {[]string{file("*.example.com:5000")}, "a.example.com:5000/repo", "*.example.com:5000"},
		"pattern without port": {[]string{file("*.example.com")}, "a.example.com:5000/repo", ""},
		"pattern with path":    {[]string{file("*.example.com/ns")}, "a.example.com/ns/repo", "*.example.com/ns"},
		"host before pattern":  {[]string{file("*.example.com"), file("a.example.com")}, "a.example.com/repo", "a.example.com"},
		"pattern's longer path": {
			[]string{file("a.example.com"), file("*.example.com/ns")}, "a.example.com/ns/repo", "*.example.com/ns",
		},
		"malformed pattern": {[]string{file("[*.example.com")}, "a.example.com/repo", ""},
		"IPv6":              {[]string{file("[fd00::1]:5000")}, "[fd00::1]:5000/repo", "[fd00::1]:5000"},
		"older form":        {[]string{`{"https://quay.io":{"username":"u","password":"p","email":"e"}}`}, "quay.io/ns/repo", "u"},
		"empty entries are passed over": {
			[]string{`{"auths":{"quay.io":{}},"credsStore":"desktop"}`, file("quay.io")}, "quay.io/ns/repo", "quay.io",
		},
		"logged out":                       {[]string{`{"auths":{}}`}, "quay.io/ns/repo", ""},
		"two keys of one place, by key":    {[]string{file("quay.io", "https://quay.io")}, "quay.io/ns/repo", "https://quay.io"},
		"of equal ones the first in order": {[]string{file("https://quay.io/"), file("quay.io")}, "quay.io/ns/repo", "https://quay.io/"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := user(t, credentials(t, test.files...), test.image); got != test.want {
				t.Errorf("user %q, want %q", got, test.want)
			}
		})
	}
}

func user(t *testing.T, c Credentials, image string) string {
	t.Helper()
	repository := parse(t, image).Context()
	authenticator, err := c.Resolve(repository)
	if err != nil {
		t.Fatal(err)
	}
	_, known := c.For(repository)
	if anonymous := authenticator == authn.Anonymous; anonymous == known {
		t.Errorf("For says %t, Resolve %t", known, !anonymous)
	}
	auth, err := authenticator.Authorization()
	if err != nil {
		t.Fatal(err)
	}
	return auth.Username
}

func TestCredentialsFor(t *testing.T) {
	c := credentials(t, auths("quay.io", "u", "p"), auths("ghcr.io", "u", "p"))
	for image, want := range map[string]string{"quay.io/ns/repo": "Secret a", "ghcr.io/ns/repo": "Secret b", "busybox": ""} {
		if file, ok := c.For(parse(t, image).Context()); file != want || ok != (want != "") {
			t.Errorf("%s: got %q, %t, want %q", image, file, ok, want)
		}
	}
}

func TestCredentialsTokens(t *testing.T) {
	c := credentials(t, `{"auths":{"a.example":{"identitytoken":"id"},"b.example":{"registrytoken":"bearer"}}}`)
	for host, want := range map[string]authn.AuthConfig{"a.example": {IdentityToken: "id"}, "b.example": {RegistryToken: "bearer"}} {
		registry, err := name.NewRegistry(host)
		if err != nil {
			t.Fatal(err)
		}
		authenticator, err := c.Resolve(registry)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := authenticator.Authorization(); err != nil || *got != want {
			t.Errorf("%s: got %+v, %v, want %+v", host, got, err, want)
		}
	}
}

func TestParseCredentialsErrors(t *testing.T) {
	const form = `reading the registry credentials of Secret bad: it is not JSON of the form {"auths": {"<registry>": {"auth": …}}}`
	const entry = `reading the registry credentials of Secret bad: the entry for quay.io must have "auth" with the base64 form of ` +
		`user:password, or "username" and "password"`
	for content, want := range map[string]string{
		"":                                      form,
		"hunter2":                               form,
		`["hunter2"]`:                           form,
		`"hunter2"`:                             form,
		`null`:                                  form,
		`{"auths":"hunter2"}`:                   form,
		`{"credsStore":"hunter2"}`:              form,
		`{"auths":{"quay.io":"hunter2"}}`:       entry,
		`{"auths":{"quay.io":{"auth":"&&&&"}}}`: entry,
		`{"auths":{"quay.io":{"auth":"aHVudGVyMg=="}}}`:           entry, // no colon
		`{"auths":{"u:hunter2@quay.io":{"auth":"aHVudGVyMg=="}}}`: entry,
		`{"auths":{"/hunter2":{"auth":"dTpw"}}}`: `reading the registry credentials of Secret bad: it has a key that ` +
			`is not a registry such as "quay.io" or "quay.io/namespace"`,
	} {
		got, err := ParseCredentials(
			CredentialsFile{"Secret bad", []byte(content)},
			CredentialsFile{"Secret good", []byte(auths("ghcr.io", "u", "p"))},
		)
		if err == nil || err.Error() != want {
			t.Errorf("%s: got error\n %v, want\n %s", content, err, want)
		}
		if user(t, got, "ghcr.io/ns/repo") != "u" {
			t.Errorf("%s: the other file's entry is lost", content)
		}
	}
}

func FuzzParseCredentials(f *testing.F) {
	f.Add([]byte(auths("quay.io/ns", "u", "hunter2")), "quay.io/ns/repo")
	f.Add([]byte(`{"https://*.example.com/v1/":{"auth":"dTpw"}}`), "a.example.com/repo")
	f.Add([]byte(`{"auths":{"[":{"auth":"dTpw"},"":{}}}`), "busybox")
	f.Fuzz(func(t *testing.T, data []byte, image string) {
		c, err := ParseCredentials(CredentialsFile{"Secret x", data})
		if err != nil && len(c.entries) > 0 {
			t.Error("entries of a broken file")
		}
		repository, err := name.NewRepository(image)
		if err != nil {
			return
		}
		if file, ok := c.For(repository); ok && file != "Secret x" {
			t.Errorf("an entry of %q", file)
		}
	})
}
