// Package e2e holds the black-box tests of the built catalogd, and of the kubectl plugin $KUBECTL_CATALOG_BIN: the binary named by $CATALOGD_BIN runs against a real
// kube-apiserver and etcd (from $KUBEBUILDER_ASSETS), real registries (one in the tests' process, and the CNCF distribution
// registry $DISTRIBUTION_REGISTRY), and real files. The tests know catalogd only by its flags, its ports, its two kinds and
// its data directory; they share no code with it. What it makes of a legacy index is compared with what $OPM does; its alerts are fired in
// the Prometheus of $PROMETHEUS.
//
// Run them with `make e2e`. COMMUNITY_CATALOG=DIR runs the catalog tests on that file-based catalog too.
package e2e
