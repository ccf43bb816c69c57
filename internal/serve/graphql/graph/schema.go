package graph

import (
	"github.com/99designs/gqlgen/graphql"
)

// The assumed cost of evaluating a list of packages, or another list, in fields.
const (
	listingPackages = 50
	listingOthers   = 20
)

// NewSchema returns the schema with its resolvers, which get the request from WithRequest. The complexity of a query is the number of its
// fields, those of a connection times first. Lists without pages count once; Limits.Values bounds them.
func NewSchema() graphql.ExecutableSchema {
	cfg := Config{Resolvers: resolver{}}
	c := &cfg.Complexity
	c.Query.Packages = func(child int, _ *PackageFilter, _ *string, first *int, _ *string) int {
		return pageCost(listingPackages, child, first)
	}
	c.Query.Channels = func(child int, _ *ChannelFilter, first *int, _ *string) int {
		return pageCost(listingOthers, child, first)
	}
	c.Query.Bundles = func(child int, _ *BundleFilter, first *int, _ *string) int {
		return pageCost(listingOthers, child, first)
	}
	c.Query.Deprecations = func(child int, _ *DeprecationsFilter, first *int, _ *string) int {
		return pageCost(listingOthers, child, first)
	}
	c.Query.Blobs = func(child int, _ *BlobFilter, first *int, _ *string) int {
		return pageCost(listingOthers, child, first)
	}
	c.Package.Bundles = func(child int, _, _ *string, first *int, _ *string) int { return pageCost(1, child, first) }
	c.Package.Blobs = func(child int, _ *string, first *int, _ *string) int { return pageCost(1, child, first) }
	return NewExecutableSchema(cfg)
}

// pageCost returns the complexity of a connection. Its resolver rejects an invalid first.
func pageCost(listing, child int, first *int) int {
	n := DefaultFirst
	if first != nil {
		n = min(max(*first, 1), MaxFirst)
	}
	const limit = 1 << 40 // prevents an overflow
	return listing + n*min(child, limit)
}
