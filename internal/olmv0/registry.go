package olmv0

import (
	"context"
	"errors"

	"github.com/operator-framework/operator-registry/pkg/api"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// registry is the service api.Registry.
type registry struct {
	api.UnimplementedRegistryServer
	*Server
}

func (s registry) ListPackages(_ *api.ListPackageRequest, stream api.Registry_ListPackagesServer) error {
	v, err := s.view(stream.Context())
	if err != nil {
		return err
	}
	for name := range v.packages() {
		if err := stream.Send(&api.PackageName{Name: name}); err != nil {
			return err
		}
	}
	return nil
}

func (s registry) GetPackage(ctx context.Context, r *api.GetPackageRequest) (*api.Package, error) {
	return ask(ctx, s.Server, func(v *view) (*api.Package, error) { return v.pkg(ctx, r.GetName()) })
}

func (s registry) ListBundles(_ *api.ListBundlesRequest, stream api.Registry_ListBundlesServer) error {
	v, err := s.view(stream.Context())
	if err != nil {
		return err
	}
	for message, err := range v.file.messages() {
		if err != nil {
			return s.unavailable(v, err)
		}
		if err := stream.SendMsg(encoded(message)); err != nil {
			return err
		}
	}
	return nil
}

func (s registry) GetBundle(ctx context.Context, r *api.GetBundleRequest) (*api.Bundle, error) {
	return ask(ctx, s.Server, func(v *view) (*api.Bundle, error) {
		return v.bundle(ctx, r.GetPkgName(), r.GetChannelName(), r.GetCsvName())
	})
}

func (s registry) GetBundleForChannel(ctx context.Context, r *api.GetBundleInChannelRequest) (*api.Bundle, error) {
	return ask(ctx, s.Server, func(v *view) (*api.Bundle, error) { return v.head(ctx, r.GetPkgName(), r.GetChannelName()) })
}

func (s registry) GetBundleThatReplaces(ctx context.Context, r *api.GetReplacementRequest) (*api.Bundle, error) {
	return ask(ctx, s.Server, func(v *view) (*api.Bundle, error) {
		return v.replacing(ctx, r.GetCsvName(), r.GetPkgName(), r.GetChannelName())
	})
}

func (s registry) GetDefaultBundleThatProvides(ctx context.Context, r *api.GetDefaultProviderRequest) (*api.Bundle, error) {
	return ask(ctx, s.Server, func(v *view) (*api.Bundle, error) { return v.defaultProvider(ctx, apiOf(r)) })
}

func (s registry) GetChannelEntriesThatReplace(
	r *api.GetAllReplacementsRequest, stream api.Registry_GetChannelEntriesThatReplaceServer,
) error {
	return s.sendEntries(stream, func(v *view) ([]*api.ChannelEntry, error) {
		return v.entriesThatReplace(stream.Context(), r.GetCsvName())
	})
}

func (s registry) GetChannelEntriesThatProvide(
	r *api.GetAllProvidersRequest, stream api.Registry_GetChannelEntriesThatProvideServer,
) error {
	return s.sendEntries(stream, func(v *view) ([]*api.ChannelEntry, error) {
		return v.entriesThatProvide(stream.Context(), apiOf(r))
	})
}

func (s registry) GetLatestChannelEntriesThatProvide(
	r *api.GetLatestProvidersRequest, stream api.Registry_GetLatestChannelEntriesThatProvideServer,
) error {
	return s.sendEntries(stream, func(v *view) ([]*api.ChannelEntry, error) {
		return v.latestEntriesThatProvide(stream.Context(), apiOf(r))
	})
}

func apiOf(r interface {
	GetGroup() string
	GetVersion() string
	GetKind() string
},
) fbc.GVK {
	return fbc.GVK{Group: r.GetGroup(), Version: r.GetVersion(), Kind: r.GetKind()}
}

// entryStream is the response of each method that returns entries.
type entryStream interface {
	Context() context.Context
	Send(*api.ChannelEntry) error
}

func (s registry) sendEntries(stream entryStream, find func(*view) ([]*api.ChannelEntry, error)) error {
	entries, err := ask(stream.Context(), s.Server, find)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	return nil
}

// ask answers a question about the catalog of a request. Only so many are answered at a time, as each holds blobs in memory.
func ask[T any](ctx context.Context, s *Server, question func(*view) (T, error)) (answer T, err error) {
	v, err := s.view(ctx)
	if err != nil {
		return answer, err
	}
	select {
	case s.work <- struct{}{}:
		defer func() { <-s.work }()
	case <-ctx.Done():
		return answer, status.FromContextError(ctx.Err()).Err()
	}
	answer, err = question(v)
	return answer, s.unavailable(v, err)
}

// unavailable returns an error that makes clients retry, if it comes from damaged content, which is mended. Others stay.
func (s *Server) unavailable(v *view, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errDamaged):
		s.mend(v)
	case errors.As(err, new(*store.DamagedError)): // it is unpacked again
	default:
		return err
	}
	return status.Errorf(codes.Unavailable, "the stored content of catalog %s is damaged; retry later: %v", v.catalog, err)
}

// experimental is the service api.ExperimentalRegistry.
type experimental struct {
	api.UnimplementedExperimentalRegistryServer
	*Server
}

// acknowledgement is the metadata without which opm answers nothing (pkg/server/server.go).
const acknowledgement = "x-acknowledge-experimental"

func (s experimental) ExperimentalListPackageCustomSchemas(
	r *api.ExperimentalListPackageCustomSchemasRequest, stream api.ExperimentalRegistry_ExperimentalListPackageCustomSchemasServer,
) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	if values := md.Get(acknowledgement); len(values) == 0 || values[0] != "true" {
		return nil
	}
	if r.GetSchema() == "" {
		return status.Error(codes.InvalidArgument, "schema is required")
	}
	v, err := s.view(stream.Context())
	if err != nil {
		return err
	}
	return s.unavailable(v, v.custom(stream.Context(), r.GetSchema(), r.GetPackageName(), stream.Send))
}

// health is the service grpc.health.v1.Health. As that of opm, it answers SERVING for every service.
type health struct {
	healthpb.UnimplementedHealthServer
	*Server
}

func (s health) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	_, _ = s.view(ctx) // sets the header
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
}
