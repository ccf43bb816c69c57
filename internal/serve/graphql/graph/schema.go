package graph

import (
	"github.com/99designs/gqlgen/graphql"
)

// The assumed cost of finding what a list of packages, or any other, holds, in fields.
const (
	findingPackages = 50
	findingOthers   = 20
)

// NewSchema is the schema with what answers it. Requests are told apart by WithRequest. The complexity of a query is the number of
// fields it asks for, those of a connection times its first. Lists that are not paged count once: Limits.Values bounds them.
func NewSchema() graphql.ExecutableSchema {
	cfg := Config{Resolvers: resolver{}}
	c := &cfg.Complexity
	c.Query.Packages = func(child int, _ *PackageFilter, _ *string, first *int, _ *string) int {
		return pageCost(findingPackages, child, first)
	}
	c.Query.Channels = func(child int, _ *ChannelFilter, first *int, _ *string) int {
		return pageCost(findingOthers, child, first)
	}
	c.Query.Bundles = func(child int, _ *BundleFilter, first *int, _ *string) int {
		return pageCost(findingOthers, child, first)
	}
	c.Query.Deprecations = func(child int, _ *DeprecationsFilter, first *int, _ *string) int {
		return pageCost(findingOthers, child, first)
	}
	c.Query.Blobs = func(child int, _ *BlobFilter, first *int, _ *string) int {
		return pageCost(findingOthers, child, first)
	}
	c.Package.Bundles = func(child int, _, _ *string, first *int, _ *string) int { return pageCost(1, child, first) }
	c.Package.Blobs = func(child int, _ *string, first *int, _ *string) int { return pageCost(1, child, first) }
	return NewExecutableSchema(cfg)
}

// pageCost is the complexity of a connection. What is no size for a page is refused when it is resolved; it must not make the query cheap.
func pageCost(finding, child int, first *int) int {
	n := DefaultFirst
	if first != nil {
		n = min(max(*first, 1), MaxFirst)
	}
	const most = 1 << 40 // what a saturated child times MaxFirst stays below an overflow
	return finding + n*min(child, most)
}
