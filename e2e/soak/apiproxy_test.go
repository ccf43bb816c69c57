package soak

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httputil"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
)

// apiProxy is a proxy between catalogd and the API server. It accepts plain HTTP and forwards with the rights of
// catalogd's service account.
type apiProxy struct {
	kubeconfig string
	faults     *faults
	gate       gate
	down       atomic.Bool // every connection breaks
	forward    *httputil.ReverseProxy

	mu      sync.Mutex
	watches map[*http.Request]context.CancelFunc
}

func newAPIProxy(t *testing.T, kubeconfig string) *apiProxy {
	t.Helper()
	forward, err := system.ForwardTo(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	forward.ErrorLog = discardLog()
	forward.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	p := &apiProxy{faults: newFaults("API server"), forward: forward, watches: map[*http.Request]context.CancelFunc{}}
	p.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := system.WriteKubeconfig(p.kubeconfig, "http://"+serve(t, p)); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *apiProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.gate.pass(r.Context()) || p.down.Load() {
		panic(http.ErrAbortHandler)
	}
	kinds := []string{"500", "503", "429", "reset", "slow", "slow"}
	switch {
	case isWatch(r):
		kinds = []string{"410", "503", "reset"}
	case r.Method == http.MethodPut || r.Method == http.MethodPatch:
		kinds = append(kinds, "409", "409")
	}
	switch kind := p.faults.pick(kinds); kind {
	case "":
	case "slow":
		time.Sleep(time.Duration(p.faults.int64n(int64(time.Second)))) // this is the fault
	case "reset":
		panic(http.ErrAbortHandler)
	default:
		refuse(w, kind)
		return
	}
	if isWatch(r) {
		r = p.watched(r)
		defer p.unwatched(r)
	}
	p.forward.ServeHTTP(w, r)
}

// refuse replies like an API server that rejects the request.
func refuse(w http.ResponseWriter, kind string) {
	status := map[string]metav1.Status{
		"409": {Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "the object has been modified"},
		"410": {Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "too old resource version"},
		"429": {Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: "too many requests"},
		"500": {Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "etcd has no leader"},
		"503": {Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Message: "starting"},
	}[kind]
	status.APIVersion, status.Kind, status.Status = "v1", "Status", metav1.StatusFailure
	w.Header().Set("Content-Type", "application/json")
	if kind == "429" {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// watched returns the request of a watch that cutWatches can end.
func (p *apiProxy) watched(r *http.Request) *http.Request {
	ctx, cancel := context.WithCancel(r.Context())
	r = r.WithContext(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watches[r] = cancel
	return r
}

func (p *apiProxy) unwatched(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watches[r]()
	delete(p.watches, r)
}

// cutWatches breaks every watch.
func (p *apiProxy) cutWatches() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r, cancel := range p.watches {
		p.faults.count("cut " + r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
		cancel()
	}
}
