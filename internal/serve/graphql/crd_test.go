package graphql

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/serve/graphql/graph"
)

// catalogWithExamples returns a catalog with a bundle that owns a CRD and has the annotation alm-examples.
func catalogWithExamples(examples string) fstest.MapFS {
	return fstest.MapFS{"c.json": {Data: fmt.Appendf(nil, `
{"schema":"olm.package","name":"foo","defaultChannel":"c"}
{"schema":"olm.channel","package":"foo","name":"c","entries":[{"name":"foo.v1"}]}
{"schema":"olm.bundle","package":"foo","name":"foo.v1","image":"i","properties":[
	{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0"}},
	{"type":"olm.csv.metadata","value":{"annotations":{"alm-examples":%q},"crdDescriptions":{
		"owned":[{"name":"foos.example.com","version":"v1","kind":"Foo",
			"resources":[{"name":"","kind":"Pod","version":"v1"}],
			"specDescriptors":[{"path":"size","displayName":"Size","description":"How many","x-descriptors":["urn:podCount"]}],
			"statusDescriptors":[{"path":"phase"}]}],
		"required":[{"name":"bars.example.com","version":"v1","kind":"Bar"}]}}}]}`, examples)}}
}

const detailsQuery = `{ bundles(filter: {name: "foo.v1"}) { nodes { csvMetadata { customResourceDefinitions {
	owned { resources { name kind version } specDescriptors { path displayName description xDescriptors } statusDescriptors { path xDescriptors } examples }
	required { kind resources { kind } specDescriptors { path } examples } } } } } }`

func TestDetailsOfCRDs(t *testing.T) {
	for examples, want := range map[string]string{
		`[{"apiVersion":"example.com/v1","kind":"Foo","spec":{"b":1.0,"a":2}},{"apiVersion":"example.com/v2","kind":"Foo"},
			{"apiVersion":"other.com/v1","kind":"Foo"},{"apiVersion":"example.com/v1","kind":"Bar"},7,{"kind":7}]`: `[{"apiVersion":"example.com/v1","kind":"Foo","spec":{"b":1.0,"a":2}}]`,
		`[`: `[]`, ``: `[]`, `{}`: `[]`, `[]`: `[]`,
	} {
		st := emptyStore(t, t.TempDir())
		commit(t, st, "c", "1", catalogWithExamples(examples))
		got := string(ask[json.RawMessage](t, startServer(t, config(), st), detailsQuery))
		required := `[]`
		if len(want) > 2 {
			required = `[{"apiVersion":"example.com/v1","kind":"Bar"}]`
		}
		want = `{"bundles":{"nodes":[{"csvMetadata":{"customResourceDefinitions":{"owned":[{"resources":[{"name":"","kind":"Pod","version":"v1"}],` +
			`"specDescriptors":[{"path":"size","displayName":"Size","description":"How many","xDescriptors":["urn:podCount"]}],` +
			`"statusDescriptors":[{"path":"phase","xDescriptors":[]}],"examples":` + want + `}],` +
			`"required":[{"kind":"Bar","resources":[],"specDescriptors":[],"examples":` + required + `}]}}}]}}`
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("examples %s (-want +got):\n%s", examples, diff)
		}
	}
}

// Examples count as decoded values of the request.
func TestExamplesAreBounded(t *testing.T) {
	st := emptyStore(t, t.TempDir())
	commit(t, st, "c", "1", catalogWithExamples("["+strings.Repeat(`[],`, 100)+"[]]"))
	cfg := config()
	cfg.Limits.Decoded = 200
	url := startServer(t, cfg, st)
	without := strings.ReplaceAll(detailsQuery, "examples", "name")
	ask[json.RawMessage](t, url, without)
	post(t, url, detailsQuery).wantError(t, graph.CodeLimit, "200 JSON values")
}
