// Package node tests an installation of config/default on a real cluster of two nodes (hack/node/up.sh), whose
// nodes pull the image of $CATALOGD_IMAGE from a registry inside. The tests know catalogd only by its manifests,
// its kinds and its Service. Run them with `make e2e-node`, as root. COMMUNITY_CATALOG=DIR serves that file-based
// catalog in place of a generated one.
package node
