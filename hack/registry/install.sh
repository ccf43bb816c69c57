#!/usr/bin/env bash
# install.sh: prints the path of a docker-registry (CNCF distribution), for tests.
#
# This is DISTRIBUTION_REGISTRY, if set, or the one on the PATH. Otherwise the script fetches Debian's package once and
# extracts the binary to the user's cache. It does not install the package, as that would start a service.
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
