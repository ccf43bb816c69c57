// Package manifests holds the tests of what is applied to clusters: the kustomizations under config, and charts/catalogd. kubectl and
// $HELM render them, a real kube-apiserver judges them, and the flags they name are those of the built catalogd.
//
// Run them with `make e2e`.
package manifests
