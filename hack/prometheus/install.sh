#!/usr/bin/env bash
# install.sh: prints the directory of prometheus and promtool as Debian packages them, for tests to run.
#
# PROMETHEUS, if set, is that directory; then that of a promtool on the PATH; else the package is fetched once and the binaries
# taken out of it into the user's cache. It is not installed, as that would start a server as a service of this machine.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../cache.sh"

if [ -n "${PROMETHEUS:-}" ]; then
	[ -x "$PROMETHEUS/prometheus" ] && [ -x "$PROMETHEUS/promtool" ] || {
		echo "PROMETHEUS is $PROMETHEUS, which has no prometheus and promtool; unset it to have Debian's package fetched" >&2
		exit 1
	}
	echo "$PROMETHEUS"
	exit
fi
if command -v prometheus >/dev/null && tool=$(command -v promtool); then
	dirname "$tool"
	exit
fi
for tool in apt-get dpkg; do
	command -v "$tool" >/dev/null || {
		echo "There is no $tool to fetch Debian's package prometheus with; get Prometheus 2.42 or newer and set PROMETHEUS to the directory of its binaries" >&2
		exit 1
	}
done

fetch() { # fetch DIRECTORY
	(cd "$1" && apt-get -q -o APT::Sandbox::User=root download prometheus </dev/null)
}

unpack() { # unpack DIRECTORY
	echo "Fetching Debian's package prometheus. Once; some 19 MB."
	# Package lists may be missing, or older than what the mirror still has; bringing them up to date takes root.
	fetch "$1" || { apt-get update -q </dev/null && fetch "$1"; }
	dpkg -x "$1"/prometheus_*.deb "$1/package"
	mv "$1/package/usr/bin/prometheus" "$1/package/usr/bin/promtool" "$1"
	rm -rf "$1/package" "$1"/*.deb
}

in_cache prometheus "$(dpkg --print-architecture)" unpack
