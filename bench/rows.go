package main

import (
	"context"
	"fmt"
	"strings"
)

type namedRow struct {
	name, about string
	measure     func(context.Context, *env) (Row, error)
}

// rows are ordered so that those of the same catalog follow each other, and the large one comes last.
var rows = []namedRow{
	{"unpack-cold", "an image to a served catalog, beside gzip | tar", unpackCold},
	{"metas-olm-package", "metas of one blob of 11 kB, beside nginx", metasOlmPackage},
	{"metas-package", "metas of a package of 100 kB, beside nginx", metasOnePackage},
	{"all-identity", "the whole catalog, beside nginx", allIdentity},
	{"all-zstd", "the whole catalog compressed: processor time beside nginx", allCompressed},
	{
		"graphql-names",
		"GraphQL, five names of packages, beside metas",
		graphqlRow("5 names of packages", `{ packages(first: 5) { nodes { name } } } # %s`),
	},
	{
		"graphql-package",
		"GraphQL, one package with channels and heads, beside metas",
		graphqlRow("one package with channels and heads",
			`{ package(name: %q) { name defaultChannel { name } channels { name head { name version } } } }`),
	},
	{"unpack-changed", "one package of the catalog changed, beside gzip | tar", unpackChanged},
	{"disk", "disk bytes, beside those of compact JSON", diskBytes},
	{"packages", "first sync of OperatorPackages, beside kubectl apply", firstSync},
	{"plugin", "a table of all packages by the plugin, beside kubectl", listing},
	{"poll", "a poll that finds nothing new, beside one HEAD", unchangedPoll},
	{"thousand", "1,000 CatalogSources for an hour, simulated", thousandCatalogs},
	{"replicas", "200 catalogs on three replicas, beside one", replicas},
	{"opm", "beside opm serve, for orientation", opmServe},
	{"memory", "peak memory with 3 GB, beside 33.5 MB", memory},
	{"start", "start to first answer with 3 GB stored, beside nothing stored", startLarge},
}

// listRows lists the rows for the help text.
func listRows() string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "  %-18s %s\n", r.name, r.about)
	}
	return b.String()
}
