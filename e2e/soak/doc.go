// Package soak holds the tests that take time: TestKills ends the built catalogd by SIGKILL again and again while it unpacks,
// TestSoak has it live with faults of the registry, the volume, the API server and its own process at once. In both, catalogs are
// replaced all the time with content that is known to the byte, and readers compare every reply with what was published.
//
// What they hold catalogd to:
//
//   - A reply that ended as HTTP says it should is whole, and of a version that was published under that name. Only where the process
//     was killed may a reply be cut short, and then visibly: fewer bytes than Content-Length, or chunks without an end.
//   - No reply is older than one that had ended before it was asked for, whatever was killed in between: what is served is durable.
//   - A process that starts answers for every catalog that was served before, at once, while neither registry nor API server answer.
//   - When the faults end, every catalog comes to what was published last, the OperatorPackages too, and nothing is left over.
//
// The binary is named by $CATALOGD_BIN; etcd, kube-apiserver and kubectl lie in $KUBEBUILDER_ASSETS. `make soak` runs the long form.
// Without flags the tests take about a minute each:
//
//	go test ./e2e/soak -v -soak.duration=10m -soak.kills=200 -soak.seed=1 -timeout=1h
//
// The seed decides the content, the order of events and the lengths of pauses; how they meet in the processes under test, it cannot.
package soak
