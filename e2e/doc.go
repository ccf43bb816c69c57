// Package e2e holds the black-box tests of the built catalogd, $CATALOGD_BIN, and of the kubectl plugin,
// $KUBECTL_CATALOG_BIN. They run with a real kube-apiserver and etcd ($KUBEBUILDER_ASSETS), real registries (one in
// the process of the tests, and the CNCF distribution registry $DISTRIBUTION_REGISTRY) and real files. The tests
// know catalogd only by its flags, ports, kinds and data directory, and share no code with it. They compare legacy
// indexes with the output of $OPM, fire alerts in the Prometheus of $PROMETHEUS, and open the web page in Chromium
// ($CHROMIUM) with the checks of axe-core ($AXE). Run them with `make e2e`.
// COMMUNITY_CATALOG=DIR runs the catalog tests on that file-based catalog too.
package e2e
