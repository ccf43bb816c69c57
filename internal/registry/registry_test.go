package registry

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClientIsKept(t *testing.T) {
	ca := newAuthority(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.crt"), string(ca.pem()))
	registries := newRegistries(t, Config{CADir: dir})
	get := func(catalog string, access Access) *Client {
		t.Helper()
		client, err := registries.Client(catalog, access)
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	file := auths("quay.io", "user", password)
	certificate := ca.client()
	full := func() Access {
		return Access{
			Credentials: credentials(t, file), RootCAs: ca.pem(), Certificate: certificate, Proxy: &url.URL{Scheme: "http", Host: "p.example"},
			Mirrors: []Mirror{{Source: "quay.io", Location: "m.example"}},
		}
	}
	first := get("test", full())
	if get("test", full()) != first {
		t.Error("the same access makes another client")
	}
	if get("other", full()) == first {
		t.Error("two catalogs share a client")
	}
	registries.Forget("other")
	for name, change := range map[string]func(*Access){
		"credentials": func(a *Access) { a.Credentials = credentials(t, auths("quay.io", "user", "new")) },
		"no CAs":      func(a *Access) { a.RootCAs = nil },
		"certificate": func(a *Access) { a.Certificate = ca.client() },
		"proxy":       func(a *Access) { a.Proxy = &url.URL{Scheme: "http", Host: "p.example", User: url.User("u")} },
		"insecure":    func(a *Access) { a.Insecure = true },
		"mirror":      func(a *Access) { a.Mirrors[0].PullFrom = "digest-only" },
	} {
		before := get("test", full())
		access := full()
		change(&access)
		if get("test", access) == before {
			t.Errorf("%s: a change makes no other client", name)
		}
	}
	before := get("test", full())
	write(t, filepath.Join(dir, "b.pem"), string(newAuthority(t).pem()))
	if get("test", full()) == before {
		t.Error("a change of the shared files makes no other client")
	}
	before = get("test", full())
	registries.Forget("test")
	if get("test", full()) == before {
		t.Error("a forgotten client came back")
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCADirIsReloaded(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	image, _ := withImage(t)
	host := serveTLS(t, ca.server(), image)
	var log strings.Builder
	registries := newRegistries(t, Config{CADir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	poll := func(want Kind) {
		t.Helper()
		client, err := registries.Client("test", Access{})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := head(t, client, host+"/catalogs/foo:v1"); KindOf(err) != want {
			t.Errorf("got %v, want kind %q", err, want)
		}
	}
	path := filepath.Join(dir, "ca.crt")
	write(t, filepath.Join(dir, "README"), "not a certificate")
	poll(Untrusted)
	write(t, path, string(ca.pem()))
	poll("")
	write(t, path, "-----BEGIN CERT")
	poll("") // the last good version
	poll("")
	if got := strings.Count(log.String(), "\n"); got != 1 || !strings.Contains(log.String(), path) {
		t.Errorf("want one line that names the file:\n%s", log.String())
	}
	write(t, path, string(newAuthority(t).pem()))
	poll(Untrusted)
	write(t, path, "-----BEGIN CERT")
	poll(Untrusted)
	if got := strings.Count(log.String(), "\n"); got != 2 {
		t.Errorf("want another line:\n%s", log.String())
	}
}

// TestCADirLinks reads a directory of links, as Kubernetes mounts a ConfigMap.
func TestCADirLinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "..2026"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "..2026", "ca.crt"), string(newAuthority(t).pem()))
	for link, to := range map[string]string{"..data": "..2026", "ca.crt": "..data/ca.crt", "gone.pem": "..data/gone.pem"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := readCADir(dir)
	if err != nil || len(files) != 1 || filepath.Base(files[0].path) != "ca.crt" {
		t.Errorf("got %v, %v", files, err)
	}
}

func TestClientSharedFilesErrors(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "x.crt"), "no PEM")
	garbled := t.TempDir()
	write(t, filepath.Join(garbled, "x.pem"), "-----BEGIN CERTIFICATE-----\naHVudGVyMg==\n-----END CERTIFICATE-----\n")
	for want, config := range map[string]Config{
		"reading --registry-ca-dir: open /no/such: no such file or " +
			"directory": {CADir: "/no/such"},
		"reading --registry-ca-dir: file " + dir + "/x.crt has no PEM certificate (\"-----BEGIN CERTIFICATE-----\")": {CADir: dir},
		"reading --registry-ca-dir: file " + garbled + "/x.pem has an invalid certificate (number 1): x509: malformed " +
			"certificate": {CADir: garbled},
		"reading --registries-conf: open /no/such: no such file or directory": {ConfFile: "/no/such"},
	} {
		var log strings.Builder
		config.Logger = slog.New(slog.NewJSONHandler(&log, nil))
		registries := newRegistries(t, config)
		atStart := log.String()
		if quoted, _ := json.Marshal(want); !strings.Contains(atStart, string(quoted)) {
			t.Errorf("at start the log is\n %s want\n %s", atStart, want)
		}
		if _, err := registries.Client("test", Access{}); KindOf(err) != Configuration || err.Error() != want {
			t.Errorf("got error\n %v, want\n %s", err, want)
		}
		if log.String() != atStart {
			t.Errorf("it is logged again:\n %s", log.String())
		}
	}
}

func TestClientErrors(t *testing.T) {
	registries := newRegistries(t, Config{})
	for want, access := range map[string]Access{
		"reading the catalog's own certificate authorities: the bundle has no PEM certificate (\"-----BEGIN " +
			"CERTIFICATE-----\")": {RootCAs: []byte("no PEM")},
	} {
		_, err := registries.Client("test", access)
		if err == nil || err.Error() != "setting up access to registries: "+want || KindOf(err) != Configuration {
			t.Errorf("got %s error\n %v, want\n %s", KindOf(err), err, want)
		}
	}
}

// TestReplacedClientIsClosed waits until the server sees the connection closed.
func TestReplacedClientIsClosed(t *testing.T) {
	image, _ := withImage(t)
	closed := make(chan struct{}, 16)
	server := httptest.NewUnstartedServer(image)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	registries := newRegistries(t, Config{})
	client, err := registries.Client("test", Access{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := head(t, client, server.Listener.Addr().String()+"/catalogs/foo:v1"); err != nil {
		t.Fatal(err)
	}
	<-closed // that of the attempt by HTTPS
	if _, err := registries.Client("test", Access{}); err != nil {
		t.Fatal(err)
	}
	<-closed // that of HTTP, which was kept until now
}
