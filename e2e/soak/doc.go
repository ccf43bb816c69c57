// Package soak holds long-running tests. TestKills repeatedly kills the built catalogd while it unpacks. TestSoak injects
// faults of the registry, the volume, the API server and the process at once. Both keep replacing catalogs with known
// content, and readers compare every reply with the published content.
//
// The tests check that:
//
//   - A complete HTTP reply holds a whole version that was published under that name. Only a killed process may cut a
//     reply short, and the client notices: fewer bytes than Content-Length, or no final chunk.
//   - No reply is older than a reply that ended before its request, even across kills: served content is durable.
//   - A starting process immediately serves every catalog that was served before, without registry and API server.
//   - After the faults, every catalog and its OperatorPackages converge to the last published version, and no files
//     are left over.
//
// $CATALOGD_BIN is the binary; $KUBEBUILDER_ASSETS holds etcd, kube-apiserver and kubectl. `make soak` runs the long form.
// Without flags the tests take about a minute each:
//
//	go test ./e2e/soak -v -soak.duration=10m -soak.kills=200 -soak.seed=1 -timeout=1h
//
// The seed determines the content, the order of events and the lengths of pauses, but not the timing in the processes.
package soak
