// Package manifests holds the tests of the kustomizations under config and of charts/catalogd. kubectl and $HELM render
// them, a real kube-apiserver validates them, and the built catalogd must accept their flags.
//
// Run them with `make e2e`.
package manifests
