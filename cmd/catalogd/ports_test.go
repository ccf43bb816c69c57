package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/operator-catalogs/catalogd/internal/serve"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// Loopback ports refuse foreign hosts, which prevents DNS rebinding. The gRPC port accepts them, but supports only HTTP/2.
func TestPortsRefuseForeignHosts(t *testing.T) {
	allowed := []string{"catalogs.example", "proxy.example"}
	for _, test := range []struct {
		addr, auth string
		anonymous  bool
		want       []string // the allowed hosts
	}{
		{"127.0.0.1:0", authNone, false, allowed},
		{"127.0.0.1:0", authKubernetes, false, allowed},
		{"[::1]:0", authKubernetes, true, allowed},
		{"localhost:0", authKubernetes, true, allowed},
		{":0", authNone, false, nil},
		{"10.1.2.3:0", authKubernetes, false, nil},
	} {
		cfg := config{metricsAddr: test.addr, healthAddr: test.addr, pprofAddr: test.addr, olmv0: olmv0Config{grpcAddr: test.addr}}
		cfg.content = contentConfig{
			addr: test.addr, auth: test.auth, plainHTTP: true, anonymousRead: test.anonymous, externalURL: "http://catalogs.example",
			allowedHosts: allowed[1:], maxQueries: 1,
		}
		content, _, err := contentPort(cfg, &rest.Config{}, serve.Config{Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
		must.Succeed(t, err)
		got := map[string][]string{content.Name: content.Hosts}
		for _, port := range otherPorts(cfg, nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler)) {
			got[port.Name] = port.Hosts
		}
		want := map[string][]string{"content": test.want, "health": test.want, "metrics": test.want, "pprof": test.want}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s with authentication %s: allowed hosts (-want +got):\n%s", test.addr, test.auth, diff)
		}
		if grpc := grpcPort(cfg, content, nil); grpc.Hosts != nil || !grpc.HTTP2 || grpc.TLS != nil {
			t.Errorf("%s: the port of gRPC is open to browsers: %+v", test.addr, grpc)
		}
	}
}

// --anonymous-read lets the API server decide about clients without credentials. Everybody may read without authentication.
func TestAnonymousRead(t *testing.T) {
	st, err := store.Open(filledStore(t), store.Options{})
	must.Succeed(t, err)
	defer st.Close()
	apiServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`)
	}))
	defer apiServer.Close()
	for _, test := range []struct {
		auth          string
		anonymousRead bool
		all, version  int // statuses
	}{
		{authKubernetes, false, http.StatusUnauthorized, http.StatusUnauthorized},
		{authKubernetes, true, http.StatusOK, http.StatusUnauthorized},
		{authNone, true, http.StatusOK, http.StatusOK},
	} {
		cfg := config{content: contentConfig{auth: test.auth, anonymousRead: test.anonymousRead, plainHTTP: true, maxQueries: 1}}
		port, _, err := contentPort(cfg, &rest.Config{Host: apiServer.URL}, serve.Config{
			Catalogs: st, Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
		})
		must.Succeed(t, err)
		got := []int{}
		for _, path := range []string{"/catalogs/sample/api/v1/all", "/version"} {
			w := httptest.NewRecorder()
			port.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			got = append(got, w.Code)
		}
		if diff := cmp.Diff([]int{test.all, test.version}, got); diff != "" {
			t.Errorf("%+v: statuses of /all and /version (-want +got):\n%s", test, diff)
		}
	}
}
