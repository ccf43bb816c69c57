// Package node holds the tests of what an admin installs: config/default, applied to a real cluster of two nodes (hack/node/up.sh), with
// the image in $CATALOGD_IMAGE pulled by the nodes from a registry inside. They know catalogd by its manifests, its kinds and its Service.
//
// Run them with `make e2e-node`, as root. COMMUNITY_CATALOG=DIR serves that file-based catalog beside the small ones, in the place of a
// generated one.
package node
