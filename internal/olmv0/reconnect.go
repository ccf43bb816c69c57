package olmv0

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// For Reconnect.Replicas:
// +kubebuilder:rbac:groups=discovery.k8s.io,namespace=catalogd-system,resources=endpointslices,verbs=list

// Reconnect makes clients read new content: OLM v0 does so when it has connected again, and otherwise not for hours.
type Reconnect struct {
	Server   *Server
	Drain    func(catalog string)                    // closes the idle connections of the clients of a catalog
	Replicas func(context.Context) ([]string, error) // addresses of the ready replicas; nil: there is one
	TLS      bool                                    // whether the replicas use it
	Patience time.Duration                           // how long to wait for other replicas; default 2 minutes
	Interval time.Duration                           // between questions to other replicas; default 1 s
}

// pending is new content that clients of a catalog do not know of.
type pending struct {
	version string
	since   time.Time
}

// Run drains the connections of a catalog once each ready replica serves its new content: a client that is first would
// otherwise read the former content from another replica. It runs until ctx ends.
func (r Reconnect) Run(ctx context.Context) error {
	known, waiting := r.Server.versions(), map[string]pending{}
	for {
		changed := r.Server.cfg.Store.Changed()
		before := waiting
		waiting = map[string]pending{}
		r.Server.forget()
		for catalog, version := range r.Server.versions() {
			if known[catalog] == version {
				continue
			}
			p := before[catalog]
			if p.version != version {
				p = pending{version, time.Now()}
			}
			if !r.isEverywhere(ctx, catalog, p) {
				waiting[catalog] = p
				continue
			}
			r.Drain(catalog)
			known[catalog] = version
		}
		var again <-chan time.Time
		if len(waiting) > 0 {
			again = time.After(cmp.Or(r.Interval, time.Second))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-again:
		}
	}
}

// versions returns the versions of the contents that clients read, by catalog.
func (s *Server) versions() map[string]string {
	out := map[string]string{}
	for _, c := range s.cfg.Store.Catalogs() {
		if v, err := s.viewOf(c); err == nil {
			out[c.Name] = v.snap.Version()
		}
	}
	return out
}

func (r Reconnect) isEverywhere(ctx context.Context, catalog string, p pending) bool {
	if r.Replicas == nil {
		return true
	}
	replicas, err := r.Replicas(ctx)
	for _, address := range replicas {
		if err != nil {
			break
		}
		var version string
		if version, err = r.ask(ctx, address, catalog); err == nil && version != p.version {
			err = fmt.Errorf("replica %s serves %s", address, cmp.Or(version, "nothing"))
		}
	}
	if err != nil && time.Since(p.since) > cmp.Or(r.Patience, 2*time.Minute) {
		r.Server.cfg.Logger.Warn("not all replicas serve the new content of a catalog; clients of OLM v0 are told all the same",
			"catalog", catalog, "version", p.version, "error", err)
		return true
	}
	return err == nil
}

// ask returns the version of a catalog that a replica serves.
func (r Reconnect) ask(ctx context.Context, address, catalog string) (string, error) {
	transport := insecure.NewCredentials()
	if r.TLS { // the certificate has no addresses of pods; nothing secret is sent or received
		transport = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // see above
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(transport), grpc.WithAuthority(catalog))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var header metadata.MD
	if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Header(&header)); err != nil {
		return "", err
	}
	return strings.Join(header.Get(versionHeader), ""), nil
}
