package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// CredentialsFile is the content of a Secret of type kubernetes.io/dockerconfigjson ({"auths": {"quay.io": {...}}}) or
// kubernetes.io/dockercfg (the same without "auths").
type CredentialsFile struct {
	Name string // used in messages
	JSON []byte
}

// Credentials are the entries of several credentials files. The zero value is empty. Its printed form contains
// no secret.
//
// Keys are matched as docker and the kubelet match them: "quay.io", "quay.io/ns", "host:5000",
// "https://host/v1/", "*.example.com" (* matches no dot); docker.io, index.docker.io and registry-1.docker.io
// are one. Unlike the kubelet's, a path ends at a slash: "quay.io/ns" does not match quay.io/nsother. Credential
// helpers are not supported.
type Credentials struct {
	entries []*entry // most specific first
	sum     digest   // of the files
}

// entry applies to all repositories at and below path on host; path "" means the whole host.
type entry struct {
	host, path string
	file       string
	auth       *authn.AuthConfig // a nested pointer, which fmt does not follow
}

// ParseCredentials merges files. The entry with the longest path wins; of these, a host wins over a pattern;
// then the first file wins. Errors name the file but quote none of its content. Credentials returned with an
// error hold the entries of the other files.
func ParseCredentials(files ...CredentialsFile) (Credentials, error) {
	var entries []*entry
	var errs []error
	for _, file := range files {
		found, err := parseFile(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("reading the registry credentials of %s: %w", file.Name, err))
			continue
		}
		entries = append(entries, found...)
	}
	slices.SortStableFunc(entries, bySpecificity)
	if len(entries) == 0 {
		return Credentials{}, errors.Join(errs...)
	}
	return Credentials{entries, digestOf(files)}, errors.Join(errs...)
}

// parseFile returns the entries of a file, ordered by key. It drops the errors of encoding/json and authn, which
// may quote secrets.
func parseFile(file CredentialsFile) ([]*entry, error) {
	var config struct {
		Auths map[string]json.RawMessage `json:"auths"`
	}
	malformed := errors.New("it is not JSON of the form {\"auths\": {\"<registry>\": {\"auth\": …}}}")
	if err := json.Unmarshal(file.JSON, &config); err != nil {
		return nil, malformed
	}
	if config.Auths == nil { // the older form: all values are objects
		var objects map[string]struct{}
		if json.Unmarshal(file.JSON, &objects) != nil || json.Unmarshal(file.JSON, &config.Auths) != nil || config.Auths == nil {
			return nil, malformed
		}
	}
	var entries []*entry
	for _, key := range slices.Sorted(maps.Keys(config.Auths)) { // "https://quay.io" and "quay.io" are the same registry
		host, prefix := splitKey(key)
		if host == "" {
			return nil, errors.New("it has a key that is not a registry such as \"quay.io\" or \"quay.io/namespace\"")
		}
		var auth authn.AuthConfig
		if err := json.Unmarshal(config.Auths[key], &auth); err != nil {
			return nil, fmt.Errorf(
				"the entry for %s must have \"auth\" with the base64 form of user:password, or \"username\" and \"password\"", host)
		}
		if auth != (authn.AuthConfig{}) { // an empty entry belongs to a credential helper or a logout
			entries = append(entries, &entry{host, prefix, file.Name, &auth})
		}
	}
	return entries, nil
}

// splitKey returns host[:port] and path of an entry's key. A leading "/v1/" or "/v2/" belongs to the API, not to
// the repository.
func splitKey(key string) (host, prefix string) {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, prefix, _ = strings.Cut(key, "/")
	if _, after, ok := strings.Cut(host, "@"); ok { // user information is secret
		host = after
	}
	prefix = strings.Trim(prefix, "/")
	if first, rest, _ := strings.Cut(prefix, "/"); first == "v1" || first == "v2" {
		prefix = rest
	}
	host = strings.ToLower(host)
	if host == "docker.io" || host == "registry-1.docker.io" {
		host = name.DefaultRegistry
	}
	return host, prefix
}

func bySpecificity(a, b *entry) int {
	isPattern := func(e *entry) int { return min(strings.Count(e.host, "*")+strings.Count(e.host, "?"), 1) }
	return cmp.Or(cmp.Compare(len(b.path), len(a.path)), cmp.Compare(isPattern(a), isPattern(b)))
}

// find returns the entry for a repository, or nil. An empty repository means the whole registry.
func (c Credentials) find(registry, repository string) *entry {
	for _, e := range c.entries {
		if e.matches(strings.ToLower(registry), repository) {
			return e
		}
	}
	return nil
}

func (e *entry) matches(registry, repository string) bool {
	below := e.path == "" || e.path == repository || strings.HasPrefix(repository, e.path+"/")
	return below && (e.host == registry || matchHost(e.host, registry))
}

// matchHost matches label by label, as the kubelet does: * matches no dot; ports must be equal.
func matchHost(pattern, registry string) bool {
	patternHost, patternPort := splitPort(pattern)
	host, port := splitPort(registry)
	patterns, labels := strings.Split(patternHost, "."), strings.Split(host, ".")
	if !strings.ContainsAny(pattern, "*?") || patternPort != port || len(patterns) != len(labels) {
		return false
	}
	for i := range patterns {
		if ok, err := path.Match(patterns[i], labels[i]); !ok || err != nil {
			return false
		}
	}
	return true
}

// Resolve implements authn.Keychain.
func (c Credentials) Resolve(target authn.Resource) (authn.Authenticator, error) {
	registry := target.RegistryStr()
	repository := strings.TrimPrefix(strings.TrimPrefix(target.String(), registry), "/")
	if e := c.find(registry, repository); e != nil {
		return authn.FromConfig(*e.auth), nil
	}
	return authn.Anonymous, nil
}

// For returns the Name of the file whose entry is used for repository. ok is false if requests are anonymous.
func (c Credentials) For(repository name.Repository) (file string, ok bool) {
	if e := c.find(repository.RegistryStr(), repository.RepositoryStr()); e != nil {
		return e.file, true
	}
	return "", false
}

// String returns the number of entries.
func (c Credentials) String() string { return fmt.Sprintf("credentials: %d", len(c.entries)) }

// GoString returns a form without secrets for %#v.
func (c Credentials) GoString() string { return "registry.Credentials{" + c.String() + "}" }

// LogValue returns String, so that log handlers show no secret.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }
