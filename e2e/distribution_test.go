package e2e

import (
	"crypto/tls"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

const (
	registryUser = "robot"
	// Two passwords and their bcrypt hashes of cost 5, for htpasswd files.
	registryPassword = "e2e-pAssw0rd-of-the-r0bot"
	registryHash     = "$2y$05$e2eRegistryRobotSaltOe6xXZdLMOw2auvljwY9HAlSTfvhsTqB2"
	rotatedPassword  = "e2e-pAssw0rd-r0tated"
	rotatedHash      = "$2y$05$e2eRegistryRobotTurnOelFuK0aIokaR3mkgUqEID6RG5sjFIi6W"
)

// authentication is the way in which a registry authenticates clients.
type authentication string

const (
	noAuth     authentication = "none"
	basicAuth  authentication = "basic"
	bearerAuth authentication = "bearer"
)

// encryption is the transport security of a registry.
type encryption string

const (
	plainHTTP encryption = "plain"
	ownCA     encryption = "own CA"
	mutualTLS encryption = "mutual TLS"
)

// distribution is a CNCF distribution registry: a process on loopback with its own storage.
type distribution struct {
	address   string
	auth      authentication
	transport *http.Transport // a client with valid credentials
	tokens    *tokenServer    // if auth is bearer
	users     string          // the htpasswd file if auth is basic; the registry reloads it when it changes
	log       logBuffer
	stop      func()
}

// distributionConfig is the configuration of a registry.
type distributionConfig struct {
	auth      authentication
	tls       encryption
	authority authority // signs the certificates of the server and, for mutual TLS, of its clients
	hosts     []string  // names in the server's certificate in addition to localhost and 127.0.0.1
}

// newDistribution starts a registry and waits until it answers.
func newDistribution(t *testing.T, config distributionConfig) *distribution {
	t.Helper()
	d := &distribution{address: system.FreeAddress(t), auth: config.auth, transport: &http.Transport{}}
	t.Cleanup(d.transport.CloseIdleConnections)
	dir := t.TempDir()
	server := map[string]any{"addr": d.address, "secret": "e2e"}
	var certificate *keyPair
	if config.tls != plainHTTP {
		pair := config.authority.issue(t, "e2e registry", append([]string{"localhost", "127.0.0.1"}, config.hosts...)...)
		certificate = &pair
		server["tls"] = d.tls(t, dir, config, pair)
	}
	file := filepath.Join(dir, "config.yml")
	content, err := yaml.Marshal(map[string]any{
		"version": "0.1",
		"log":     map[string]any{"level": "warn", "accesslog": map[string]any{"disabled": true}},
		"storage": map[string]any{"filesystem": map[string]any{"rootdirectory": filepath.Join(dir, "storage")}},
		"http":    server,
		"auth":    d.authentication(t, dir, certificate),
	})
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(file, content, 0o600))
	d.run(t, file)
	return d
}

// tls returns the TLS settings of the registry, and sets those of its client.
func (d *distribution) tls(t *testing.T, dir string, config distributionConfig, pair keyPair) map[string]any {
	t.Helper()
	d.transport.TLSClientConfig = &tls.Config{RootCAs: config.authority.pool()}
	settings := map[string]any{
		"certificate": writeFile(t, dir, "tls.crt", pair.certificate),
		"key":         writeFile(t, dir, "tls.key", pair.key),
	}
	if config.tls == mutualTLS {
		settings["clientcas"] = []string{writeFile(t, dir, "clients.crt", config.authority.pem)}
		d.transport.TLSClientConfig.Certificates = []tls.Certificate{config.authority.issue(t, "e2e pusher").tls(t)}
	}
	return settings
}

func (d *distribution) authentication(t *testing.T, dir string, certificate *keyPair) map[string]any {
	t.Helper()
	switch d.auth {
	case basicAuth:
		d.users = writeFile(t, dir, "htpasswd", []byte(registryUser+":"+registryHash+"\n"))
		return map[string]any{"htpasswd": map[string]any{"realm": "e2e", "path": d.users}}
	case bearerAuth:
		d.tokens = newTokenServer(t, registryPassword, certificate)
		return map[string]any{"token": map[string]any{"realm": d.tokens.realm, "service": tokenService, "issuer": tokenIssuer,
			"rootcertbundle": writeFile(t, dir, "tokens.crt", d.tokens.signer.pem)}}
	default:
		return nil
	}
}

func (d *distribution) run(t *testing.T, config string) {
	t.Helper()
	cmd := exec.Command(needed(t, "DISTRIBUTION_REGISTRY", "hack/registry/install.sh"), "serve", config)
	cmd.Stdout, cmd.Stderr = &d.log, &d.log
	cmd.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting the registry: %v", err)
	}
	d.stop = func() {
		_ = cmd.Process.Kill() // fails if it has ended
		_ = cmd.Wait()
	}
	t.Cleanup(func() {
		d.stop()
		if t.Failed() {
			t.Logf("last log lines of the registry at %s (%s):\n%s", d.address, d.auth, d.log.tail(10))
		}
	})
	scheme := "http"
	if d.transport.TLSClientConfig != nil {
		scheme = "https"
	}
	eventually.Succeeds(t, "the registry answers", func() error {
		response, err := (&http.Client{Transport: d.transport, Timeout: patience}).Get(scheme + "://" + d.address + "/v2/")
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
}

// pushable is an image or an index of images.
type pushable interface {
	remote.Taggable
	Digest() (v1.Hash, error)
}

// push uploads to repository:latest and returns the reference by tag and the digest.
func (d *distribution) push(t *testing.T, repository string, what pushable) (ref, digest string) {
	t.Helper()
	ref = d.address + "/" + repository + ":latest"
	tag, err := name.NewTag(ref)
	must.Succeed(t, err)
	options := []remote.Option{remote.WithContext(t.Context()), remote.WithTransport(d.transport)}
	if d.auth != noAuth {
		options = append(options, remote.WithAuth(&authn.Basic{Username: registryUser, Password: registryPassword}))
	}
	if err := remote.Push(tag, what, options...); err != nil {
		t.Fatalf("pushing %s: %v", ref, err)
	}
	hash, err := what.Digest()
	must.Succeed(t, err)
	return ref, hash.String()
}

// needed returns the value of a required environment variable.
func needed(t *testing.T, variable, script string) string {
	t.Helper()
	value := os.Getenv(variable)
	if value == "" {
		t.Fatalf("%s must be set: run `make e2e`, or set it to what %s prints", variable, script)
	}
	return value
}

func writeFile(t *testing.T, dir, file string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, file)
	must.Succeed(t, os.WriteFile(path, content, 0o600))
	return path
}
