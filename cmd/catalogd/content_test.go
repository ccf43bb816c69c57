package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

func TestContentDefaults(t *testing.T) {
	const unsaid = "--content-auth is required"
	for _, test := range []struct {
		args  string
		inPod bool
		auth  string
		tls   string // "", "files" or "own"
		url   string
		fails string
	}{
		{args: "--content-bind-address=127.0.0.1:8080", auth: authNone, url: "http://127.0.0.1:8080"},
		{args: "--content-bind-address=127.8.9.1:8080", auth: authNone, url: "http://127.8.9.1:8080"},
		{args: "--content-bind-address=localhost:8080", auth: authNone, url: "http://localhost:8080"},
		{args: "--content-bind-address=[::1]:8080", inPod: true, auth: authNone, url: "http://[::1]:8080"},
		{args: "--content-bind-address=127.0.0.1:80 --content-auth=kubernetes", auth: authKubernetes, url: "http://127.0.0.1:80"},
		{
			args: "--content-bind-address=127.0.0.1:80 --tls-cert-file=c --tls-private-key-file=k",
			auth: authNone,
			tls:  "files",
			url:  "https://127.0.0.1:80",
		},
		{inPod: true, auth: authKubernetes, tls: "own", url: "https://127.0.0.1:8443"},
		{args: "--tls-cert-file=c --tls-private-key-file=k", inPod: true, auth: authKubernetes, tls: "files", url: "https://127.0.0.1:8443"},
		{args: "--content-auth=none", inPod: true, auth: authNone, tls: "own", url: "https://127.0.0.1:8443"},
		{args: "--content-auth=none", auth: authNone, tls: "own", url: "https://127.0.0.1:8443"},
		{args: "--content-auth=kubernetes --content-bind-address=0.0.0.0:1", auth: authKubernetes, tls: "own", url: "https://127.0.0.1:1"},
		{args: "--content-bind-address=10.1.2.3:80 --content-auth=none", auth: authNone, tls: "own", url: "https://10.1.2.3:80"},
		{args: "--content-bind-address=[::]:80 --content-auth=none", auth: authNone, tls: "own", url: "https://127.0.0.1:80"},
		{
			args: "--content-bind-address=catalogd.example:443 --content-auth=none",
			auth: authNone,
			tls:  "own",
			url:  "https://catalogd.example:443",
		},
		{args: "--plain-http --content-bind-address=:8080 --content-auth=none", inPod: true, auth: authNone, url: "http://127.0.0.1:8080"},
		{args: "--plain-http", inPod: true, auth: authKubernetes, url: "http://127.0.0.1:8443"},
		{args: "--plain-http --content-bind-address=:8080", fails: unsaid},
		{args: "--plain-http --tls-cert-file=c --tls-private-key-file=k", inPod: true, fails: "--plain-http excludes --tls-cert-file"},
		{fails: unsaid + `, as other machines can reach --content-bind-address ":8443"`},
		{args: "--content-bind-address=0.0.0.0:8080", fails: unsaid},
		{args: "--content-bind-address=10.1.2.3:80 --tls-cert-file=c --tls-private-key-file=k", fails: unsaid},
	} {
		t.Run(test.args, func(t *testing.T) {
			var cfg contentConfig
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			cfg.addFlags(flags)
			must.Succeed(t, flags.Parse(strings.Fields(test.args)))
			cfg.complete(test.inPod)
			fails := ""
			cfg.validate(func(ok bool, format string, args ...any) {
				if !ok {
					fails += fmt.Sprintf(format, args...)
				}
			})
			if test.fails != "" || fails != "" {
				if test.fails == "" || !strings.HasPrefix(fails, test.fails) {
					t.Errorf("got error %q, want %q", fails, test.fails)
				}
				return
			}
			tls := ""
			switch {
			case cfg.hasFiles():
				tls = "files"
			case cfg.selfSigned():
				tls = "own"
			}
			got := []string{cfg.auth, tls, cfg.externalURL}
			if diff := cmp.Diff([]string{test.auth, test.tls, test.url}, got); diff != "" {
				t.Errorf("authentication, TLS, URL (-want +got):\n%s", diff)
			}
		})
	}
}

func TestContentMisleads(t *testing.T) {
	for _, test := range []struct {
		cfg  contentConfig
		want string
	}{
		{contentConfig{addr: "127.0.0.1:80", externalURL: "http://127.0.0.1"}, ""},
		{contentConfig{addr: ":8443", externalURL: "https://catalogd.example"}, ""},
		{contentConfig{addr: "127.0.0.1:80", certFile: "c", externalURL: "https://catalogd.example"}, ""},
		{
			contentConfig{addr: "127.0.0.1:80", externalURL: "https://catalogd.example"},
			"the content service speaks plain HTTP, but --external-url is HTTPS; this is right only behind a TLS proxy",
		},
		{
			contentConfig{addr: ":8443", externalURL: "http://catalogd.example"},
			"the content service speaks TLS, but --external-url is plain HTTP; this is right only behind a proxy",
		},
		{
			contentConfig{addr: "127.0.0.1:80", certFile: "c", externalURL: "http://catalogd.example"},
			"the content service speaks TLS, but --external-url is plain HTTP; this is right only behind a proxy",
		},
	} {
		if got := test.cfg.misleads(); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.cfg, got, test.want)
		}
	}
}

func TestContentNames(t *testing.T) {
	local := []string{"localhost", "127.0.0.1", "::1"}
	for _, test := range []struct {
		cfg  contentConfig
		want []string
	}{
		{contentConfig{addr: ":8443", externalURL: "https://127.0.0.1:8443"}, nil},
		{
			contentConfig{addr: "0.0.0.0:8443", externalURL: "https://catalogd.catalogd-system.svc"},
			[]string{"catalogd.catalogd-system.svc", "catalogd.catalogd-system.svc.cluster.local"},
		},
		{contentConfig{addr: "10.1.2.3:8443", externalURL: "https://catalogs.example:444/x"}, []string{"catalogs.example", "10.1.2.3"}},
		{contentConfig{addr: "10.1.2.3:8443", externalURL: "https://10.1.2.3:8443"}, []string{"10.1.2.3"}},
		{contentConfig{addr: "[::]:8443", externalURL: "https://[2001:db8::1]:8443"}, []string{"2001:db8::1"}},
	} {
		if diff := cmp.Diff(append(local[:3:3], test.want...), test.cfg.names()); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.cfg, diff)
		}
	}
}

// Outside a pod, a kubeconfig does not make the process run in the cluster.
func TestInPod(t *testing.T) {
	if _, err := os.Stat(serviceAccountNamespace); err == nil {
		t.Skip("this test runs in a pod")
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	for _, kubeconfig := range []string{"", "kubeconfig"} {
		if inPod(kubeconfig) {
			t.Errorf("with kubeconfig %q: it says that this is a pod", kubeconfig)
		}
	}
}

// Ports that other machines can reach accept any Host.
func TestContentHostsAt(t *testing.T) {
	cfg := contentConfig{externalURL: "http://Catalogs.example:8080", allowedHosts: []string{"Proxy.example"}}
	for addr, want := range map[string][]string{
		"127.0.0.1:8080": {"catalogs.example", "proxy.example"}, "localhost:1": {"catalogs.example", "proxy.example"},
		"[::1]:8080": {"catalogs.example", "proxy.example"}, ":8443": nil, "0.0.0.0:8443": nil, "10.1.2.3:80": nil,
	} {
		if diff := cmp.Diff(want, cfg.hostsAt(addr)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", addr, diff)
		}
	}
}
