#!/usr/bin/env bash
# install.sh: prints the path of a docker-registry (CNCF distribution) as Debian packages it, for tests to run.
#
# DISTRIBUTION_REGISTRY, if set, is used as it is; then one that is on the PATH; else the package is fetched once and the binary
# taken out of it into the user's cache. It is not installed, as that would start a registry as a service of this machine.
set -euo pipefail

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

cache=${XDG_CACHE_HOME:-$HOME/.cache}/catalogd/registry
out=$cache/$(dpkg --print-architecture)
if [ ! -d "$out" ]; then
	mkdir -p "$cache"
	find "$cache" -maxdepth 1 -name '*.unfinished' -mmin +120 -exec rm -rf {} +
	tmp=$(mktemp -d "$cache/XXXXXX.unfinished")
	trap 'rm -rf "$tmp"' EXIT
	echo "Fetching Debian's package docker-registry. Once; some 5 MB." >&2
	fetch() { (cd "$tmp" && apt-get -q -o APT::Sandbox::User=root download docker-registry </dev/null >&2); }
	# Package lists may be missing, or older than what the mirror still has; bringing them up to date takes root.
	fetch || { apt-get update -q </dev/null >&2 && fetch; }
	dpkg -x "$tmp"/docker-registry_*.deb "$tmp/package"
	mkdir "$tmp/bin"
	mv "$tmp/package/usr/bin/docker-registry" "$tmp/bin"
	chmod 0755 "$tmp/bin"
	mv -T "$tmp/bin" "$out" 2>/dev/null || [ -d "$out" ] # another run may have finished first
fi
echo "$out/docker-registry"
