// Package olmv0 answers OLM v0's registry API (operator-registry, pkg/api/registry.proto) over gRPC, for all catalogs on one
// port: the first label of the authority names the catalog. Orders, texts and codes are those of `opm serve`.
//
// ListBundles, which catalog-operator and packageserver call after each change, is answered from a file that Prepare writes
// beside the snapshot. All other methods read the few blobs that they need, and convert them as opm does.
package olmv0

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/operator-catalogs/catalogd/internal/listen"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// Store has the catalogs.
type Store interface {
	Catalog(name string) (store.Catalog, bool)
	Catalogs() []store.Catalog
	Changed() <-chan struct{} // closed when one of them has changed
	Derive(snap *store.Snapshot, name string, write func(io.Writer) error) error
}

// Config configures a Server.
type Config struct {
	Store   Store
	Awaited func(catalog string) bool // whether a catalog that is not served will be
	Metrics prometheus.Registerer     // nil: no metrics
	Logger  *slog.Logger
}

// Server is an http.Handler for HTTP/2 that answers the registry API.
type Server struct {
	cfg     Config
	grpc    *grpc.Server
	metrics *metrics
	work    chan struct{} // slots for conversions

	maxMessage int // MaxMessage, but for tests

	mu       sync.Mutex
	views    map[string]*view        // by catalog
	prepared map[string]*preparation // by key of a snapshot
}

// preparation is that of a snapshot.
type preparation struct {
	mu     sync.Mutex // held while it is prepared
	done   bool
	report Report
}

// maxRequest is the size of a request message in bytes; names are short.
const maxRequest = 64 << 10

// maxConversions is how many bundles are converted at a time; others wait.
const maxConversions = 8

// New returns a Server.
func New(cfg Config) *Server {
	s := &Server{
		cfg: cfg, metrics: newMetrics(cfg.Metrics), work: make(chan struct{}, maxConversions),
		views: map[string]*view{}, prepared: map[string]*preparation{}, maxMessage: MaxMessage,
	}
	s.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(maxRequest), grpc.ForceServerCodecV2(codec{}),
		grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream),
	)
	api.RegisterRegistryServer(s.grpc, registry{Server: s})
	api.RegisterExperimentalRegistryServer(s.grpc, experimental{Server: s})
	healthpb.RegisterHealthServer(s.grpc, health{Server: s})
	reflection.Register(s.grpc)
	return s
}

// ServeHTTP implements http.Handler, for package listen.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	listen.Tag(r, s.CatalogOf(r.Host))
	s.grpc.ServeHTTP(w, r)
}

// CatalogOf returns the catalog that an authority (host or host:port) names: that of the whole host, as catalogs of OLM v1
// can have dots, or else that of its first label.
func (s *Server) CatalogOf(authority string) string {
	host := authority
	if h, _, err := net.SplitHostPort(authority); err == nil {
		host = h
	}
	if _, ok := s.cfg.Store.Catalog(host); ok {
		return host
	}
	first, _, _ := strings.Cut(host, ".")
	return first
}

// Prepare makes what is needed to answer about a snapshot, unless that has been done.
func (s *Server) Prepare(ctx context.Context, snap *store.Snapshot) error {
	_, err := s.Report(ctx, snap)
	return err
}

// Report prepares a snapshot and reports what clients do not get of it.
func (s *Server) Report(ctx context.Context, snap *store.Snapshot) (Report, error) {
	p := s.preparation(snap.Key())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return p.report, nil
	}
	f, err := open(snap)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errDamaged) {
		if err = s.derive(ctx, snap); err == nil {
			f, err = open(snap)
		}
	}
	if err != nil {
		return Report{}, fmt.Errorf("preparing the catalog for OLM v0: %w", err)
	}
	p.done, p.report = true, f.report
	return p.report, f.Close()
}

func (s *Server) derive(ctx context.Context, snap *store.Snapshot) error {
	return s.cfg.Store.Derive(snap, store.OLMv0File, func(w io.Writer) error { return writeFile(ctx, snap, s.maxMessage, w) })
}

// mend writes the file of a view again, which a reader found damaged.
func (s *Server) mend(v *view) {
	p := s.preparation(v.snap.Key())
	p.mu.Lock()
	defer p.mu.Unlock()
	s.mu.Lock()
	isCurrent := s.views[v.catalog] == v
	s.mu.Unlock()
	if !isCurrent {
		return // it has been mended
	}
	if err := s.derive(context.Background(), v.snap); err != nil {
		s.cfg.Logger.Error("the stored response of ListBundles is damaged, and cannot be written again", "catalog", v.catalog, "error", err)
		return
	}
	s.cfg.Logger.Warn("the stored response of ListBundles was damaged; it is written again", "catalog", v.catalog)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.views, v.catalog)
}

// forget drops what it has of catalogs that are no longer served, so that a new catalog of the same name begins anew.
func (s *Server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	served := map[string]bool{}
	for _, c := range s.cfg.Store.Catalogs() {
		served[c.Name], served[c.Snapshot.Key()] = true, true
	}
	maps.DeleteFunc(s.views, func(name string, _ *view) bool { return !served[name] })
	maps.DeleteFunc(s.prepared, func(key string, _ *preparation) bool { return !served[key] })
}

// preparation returns that of the snapshot of a key.
func (s *Server) preparation(key string) *preparation {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.prepared[key]
	if p == nil {
		p = &preparation{}
		s.prepared[key] = p
	}
	return p
}

func open(snap *store.Snapshot) (*file, error) {
	f, err := snap.OpenDerived(store.OLMv0File)
	if err != nil {
		return nil, err
	}
	return openFile(f)
}

// versionHeader is the metadata of each response about a catalog with the version of the content (store.Snapshot.Version).
const versionHeader = "catalogd-version"

// view returns the view of the catalog that a request names. While new content is being prepared, it is the former one.
func (s *Server) view(ctx context.Context) (*view, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	authority := strings.Join(md.Get(":authority"), "")
	name := s.CatalogOf(authority)
	catalog, ok := s.cfg.Store.Catalog(name)
	if !ok {
		return nil, s.notFound(name)
	}
	v, err := s.viewOf(catalog)
	if err != nil {
		s.cfg.Logger.Debug("a catalog is not prepared for OLM v0", "catalog", name, "error", err)
		return nil, status.Errorf(codes.Unavailable, "catalog %s is being prepared; retry later", name)
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs(versionHeader, v.snap.Version()))
	return v, nil
}

func (s *Server) viewOf(catalog store.Catalog) (*view, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.views[catalog.Name]
	if v != nil && v.snap == catalog.Snapshot {
		return v, nil
	}
	f, err := open(catalog.Snapshot)
	if err != nil && v != nil {
		return v, nil //nolint:nilerr // it is being prepared
	}
	if err != nil {
		return nil, err
	}
	v = &view{catalog: catalog.Name, snap: catalog.Snapshot, file: f}
	s.views[catalog.Name] = v
	return v, nil
}

// maxNames limits the catalogs that an error names.
const maxNames = 20

func (s *Server) notFound(name string) error {
	if s.cfg.Awaited != nil && s.cfg.Awaited(name) {
		return status.Errorf(codes.Unavailable, "catalog %s is being unpacked; retry later", name)
	}
	var names []string
	for _, c := range s.cfg.Store.Catalogs() {
		names = append(names, c.Name)
	}
	if len(names) > maxNames {
		names = append(names[:maxNames], "...")
	}
	return status.Errorf(codes.NotFound, "catalog %q not found; the first label of the authority names one of: %s",
		name, cmp.Or(strings.Join(names, ", "), "(no catalog is served)"))
}
