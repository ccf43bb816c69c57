package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

func TestEmptyDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".run")
	unlock, err := emptyDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := emptyDir(dir); err == nil || !strings.Contains(err.Error(), "another `make run` uses "+dir) {
		t.Fatalf("a second emptyDir() = %v, want it to name the directory in use", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "etcd", "member"), 0o755); err != nil {
		t.Fatal(err)
	}
	unlock()
	unlock, err = emptyDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

func TestConfigure(t *testing.T) {
	empty := func(string) string { return "" }
	t.Chdir(t.TempDir())
	if _, err := configure(empty); err == nil || !strings.Contains(err.Error(), "must be the root of the repository") {
		t.Errorf("configure() elsewhere = %v", err)
	}
	for _, file := range []string{"hack/controlplane/build.sh", sampleCatalog + "/a.yaml"} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := configure(empty)
	if err != nil || cfg.catalog != sampleCatalog || cfg.image() != "127.0.0.1:5005/catalogd/sample:latest" {
		t.Errorf("configure() = %+v, %v", cfg, err)
	}
	for _, catalog := range []string{"none", sampleCatalog + "/a.yaml"} {
		_, err := configure(func(name string) string { return map[string]string{"CATALOG": catalog}[name] })
		if err == nil || !strings.Contains(err.Error(), "CATALOG must name a directory") || !strings.Contains(err.Error(), catalog) {
			t.Errorf("configure() with CATALOG=%s = %v", catalog, err)
		}
	}
}

func TestContent(t *testing.T) {
	const https = "https://127.0.0.1:8080"
	for args, want := range map[string][2]string{
		"":                             {"http://127.0.0.1:8080", ""},
		"--max-files 50 --log-level=x": {"http://127.0.0.1:8080", ""},
		"--tls-cert-file=a.crt --tls-private-key-file=a.key":           {https, "a.crt"},
		"--max-files 50 --tls-cert-file a.crt --log-level debug":       {https, "a.crt"},
		"--tls-cert-file=a.crt --external-url=https://localhost:8080/": {"https://localhost:8080", "a.crt"},
		"--external-url https://x.example":                             {"https://x.example", ""},
		"--external-url":                                               {"http://127.0.0.1:8080", ""},
		"--help":                                                       {"http://127.0.0.1:8080", ""},
	} {
		url, certificate := config{args: strings.Fields(args), ports: ports{content: port{number: 8080}}}.content()
		if diff := cmp.Diff(want, [2]string{url, certificate}); diff != "" {
			t.Errorf("%q: content() (-want +got):\n%s", args, diff)
		}
	}
}

func TestKubeconfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	api := apiServer{url: "https://127.0.0.1:6443", certificate: `/home/o'neil "x"/.run/apiserver.crt`}
	if err := api.writeKubeconfig(file, "secret"); err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.LoadFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	use := got.Contexts[got.CurrentContext]
	cluster, user := got.Clusters[use.Cluster], got.AuthInfos[use.AuthInfo]
	if cluster.Server != api.url || cluster.CertificateAuthority != api.certificate || user.Token != "secret" {
		t.Errorf("server %q, certificate %q, token %q", cluster.Server, cluster.CertificateAuthority, user.Token)
	}
}

func TestFollow(t *testing.T) {
	const (
		fresh     = `{"metadata":{"name":"sample"}}`
		unpacking = `{"metadata":{"name":"sample"},"status":{"conditions":[{"type":"Ready","status":"False","message":"unpacking"}]}}`
		ready     = `{"metadata":{"name":"sample"},"status":{"conditions":[{"type":"Ready","status":"True","message":"served"}]}}`
		blocked   = `{"metadata":{"name":"sample"},"status":{"conditions":[{"type":"Ready","status":"False","message":"bad"},
			{"type":"Progressing","status":"False","reason":"Blocked","message":"a.yaml is bad"}]}}`
	)
	for _, test := range []struct{ name, stream, wantOut, wantErr, wantLast string }{
		{name: "becomes ready", stream: fresh + unpacking + unpacking + ready, wantOut: "sample: unpacking\nsample: served\n"},
		{name: "stays so", stream: ready + blocked, wantOut: "sample: served\n"},
		{
			name:     "refused",
			stream:   fresh + blocked + ready,
			wantOut:  "sample: bad\n",
			wantErr:  "failed permanently",
			wantLast: "(Blocked): a.yaml is bad",
		},
		{name: "never reconciled", stream: fresh, wantErr: "EOF", wantLast: "no conditions"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			last, err := (&world{out: &out}).follow(strings.NewReader(test.stream))
			if got := strings.ReplaceAll(out.String(), "      ", ""); got != test.wantOut {
				t.Errorf("follow() printed %q, want %q", got, test.wantOut)
			}
			if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("follow() = %v, want %q", err, test.wantErr)
			}
			if !strings.Contains(explain(last), test.wantLast) {
				t.Errorf("the last state is %q, want %q in it", explain(last), test.wantLast)
			}
		})
	}
}

func TestWaitOK(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	if err := waitOK(t.Context(), server.URL); err != nil || asked.Load() != 3 {
		t.Errorf("waitOK() = %v after %d requests, want 3", err, asked.Load())
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if err := waitOK(ctx, "http://127.0.0.1:1"); !errors.Is(err, errInterrupted) {
		t.Errorf("waitOK() = %v, want the reason why it was canceled", err)
	}
}
