#!/usr/bin/env bash
# install.sh: prints the path of a docker-registry (CNCF distribution) as Debian packages it, for tests to run.
#
# DISTRIBUTION_REGISTRY, if set, is used as it is; then one that is on the PATH; else the package is fetched once and the binary
# taken out of it into the user's cache. It is not installed, as that would start a registry as a service of this machine.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../cache.sh"

given DISTRIBUTION_REGISTRY docker-registry
if command -v docker-registry; then
	exit
fi
has_apt "install a CNCF distribution registry and set DISTRIBUTION_REGISTRY to its path"

unpack() { # unpack DIRECTORY
	echo "Fetching Debian's package docker-registry. Once; some 5 MB."
	debian_packages "$1" docker-registry
	mv "$1/root/usr/bin/docker-registry" "$1"
	rm -rf "$1/root"
}

architecture=$(dpkg --print-architecture)
out=$(in_cache registry "$architecture" unpack)
echo "$out/docker-registry"
