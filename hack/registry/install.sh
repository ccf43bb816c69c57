#!/usr/bin/env bash
# install.sh: prints the path of a docker-registry (CNCF distribution) as Debian packages it, for tests to run.
#
# DISTRIBUTION_REGISTRY, if set, is used as it is; then one that is on the PATH; else the package is fetched once and the binary
# taken out of it into the user's cache. It is not installed, as that would start a registry as a service of this machine.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../cache.sh"

if [ -n "${DISTRIBUTION_REGISTRY:-}" ]; then
	[ -x "$DISTRIBUTION_REGISTRY" ] || {
		echo "DISTRIBUTION_REGISTRY is $DISTRIBUTION_REGISTRY, which is no program; unset it to have Debian's package fetched" >&2
		exit 1
	}
	echo "$DISTRIBUTION_REGISTRY"
	exit
fi
if command -v docker-registry; then
	exit
fi
for tool in apt-get dpkg; do
	command -v "$tool" >/dev/null || {
		echo "There is no $tool to fetch Debian's package docker-registry with; install a CNCF distribution registry and set DISTRIBUTION_REGISTRY to its path" >&2
		exit 1
	}
done

fetch() { # fetch DIRECTORY
	(cd "$1" && apt-get -q -o APT::Sandbox::User=root download docker-registry </dev/null)
}

unpack() { # unpack DIRECTORY
	echo "Fetching Debian's package docker-registry. Once; some 5 MB."
	# Package lists may be missing, or older than what the mirror still has; bringing them up to date takes root.
	fetch "$1" || { apt-get update -q </dev/null && fetch "$1"; }
	dpkg -x "$1"/docker-registry_*.deb "$1/package"
	mv "$1/package/usr/bin/docker-registry" "$1"
	rm -rf "$1/package" "$1"/*.deb
}

architecture=$(dpkg --print-architecture)
out=$(in_cache registry "$architecture" unpack)
echo "$out/docker-registry"
