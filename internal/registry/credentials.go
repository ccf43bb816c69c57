package registry

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// CredentialsFile is the content of a Secret of type kubernetes.io/dockerconfigjson ({"auths": {"quay.io": {...}}}) or
// kubernetes.io/dockercfg (the same without "auths").
type CredentialsFile struct {
	Name string // how messages call it
	JSON []byte
}

// Credentials are those of several files. The zero value has none. Printed or logged they show no secret.
//
// An entry's key is read as docker and the kubelet read it: "quay.io", "quay.io/ns", "host:5000", "https://host/v1/",
// "*.example.com" (where * stands for no dot); docker.io, index.docker.io and registry-1.docker.io are one. Unlike the
// kubelet's, a path ends at a slash: "quay.io/ns" is not for quay.io/nsother. Credential helpers are not supported.
type Credentials struct {
	entries []*entry // most specific first
	sum     [sha256.Size]byte
}

// entry is for all repositories at and below path on host; path "" is for all of the host.
type entry struct {
	host, path string
	file       string
	auth       *authn.AuthConfig // a pointer behind a pointer: fmt does not follow it, whatever holds the Credentials
}

// ParseCredentials merges files: the entry for the longest path counts, of equal ones that for a host before that for a
// pattern, then the first in the order given. Errors name the file, and never its content; the Credentials returned with an
// error have the entries of the other files.
func ParseCredentials(files ...CredentialsFile) (Credentials, error) {
	var (
		entries []*entry
		errs    []error
		digest  = newFingerprint()
	)
	for _, file := range files {
		digest.add([]byte(file.Name), file.JSON)
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
	return Credentials{entries, digest.sum()}, errors.Join(errs...)
}

// parseFile returns the entries of a file, ordered by key. The errors of encoding/json and of authn are left out, since they may
// quote.
func parseFile(file CredentialsFile) ([]*entry, error) {
	var config struct {
		Auths map[string]json.RawMessage `json:"auths"`
	}
	unfit := errors.New("it is not JSON of the form {\"auths\": {\"<registry>\": {\"auth\": …}}}")
	if err := json.Unmarshal(file.JSON, &config); err != nil {
		return nil, unfit
	}
	if config.Auths == nil { // the older form, in which all values are objects
		var objects map[string]struct{}
		if json.Unmarshal(file.JSON, &objects) != nil || json.Unmarshal(file.JSON, &config.Auths) != nil || config.Auths == nil {
			return nil, unfit
		}
	}
	var entries []*entry
	for _, key := range slices.Sorted(maps.Keys(config.Auths)) { // "https://quay.io" and "quay.io" are two keys of one place
		host, prefix := splitKey(key)
		if host == "" {
			return nil, errors.New("it has an entry whose key is no registry, such as \"quay.io\" or \"quay.io/namespace\"")
		}
		var auth authn.AuthConfig
		if err := json.Unmarshal(config.Auths[key], &auth); err != nil {
			return nil, fmt.Errorf("the entry for %s must have \"auth\" with the base64 form of user:password, or \"username\" and \"password\"", host)
		}
		if auth != (authn.AuthConfig{}) { // an empty one is a credential helper's, or left from a logout
			entries = append(entries, &entry{host, prefix, file.Name, &auth})
		}
	}
	return entries, nil
}

// splitKey returns host[:port] and path of an entry's key; "/v1/" and "/v2/" in front are the API's, not the repository's.
func splitKey(key string) (host, prefix string) {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, prefix, _ = strings.Cut(key, "/")
	if _, after, ok := strings.Cut(host, "@"); ok { // user information, which would be a secret in a message
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
	pattern := func(e *entry) int {
		if strings.ContainsAny(e.host, "*?") {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(len(b.path), len(a.path)), cmp.Compare(pattern(a), pattern(b)))
}

// find returns the entry for a repository; nil if there is none. An empty repository stands for all of the registry.
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

// matchHost matches label by label, as the kubelet does: * stands for no dot, and ports are compared as they are.
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

func splitPort(registry string) (host, port string) {
	if host, port, err := net.SplitHostPort(registry); err == nil {
		return host, port
	}
	return registry, ""
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

// For returns the Name of the file whose entry is used for repository; ok is false if requests are anonymous.
func (c Credentials) For(repository name.Repository) (file string, ok bool) {
	if e := c.find(repository.RegistryStr(), repository.RepositoryStr()); e != nil {
		return e.file, true
	}
	return "", false
}

// String says how many there are.
func (c Credentials) String() string { return fmt.Sprintf("credentials: %d", len(c.entries)) }

// GoString is String, so that %#v shows no more.
func (c Credentials) GoString() string { return "registry.Credentials{" + c.String() + "}" }

// LogValue is String, so that handlers that take values apart show no more.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }
