#!/usr/bin/env bash
# install.sh: prints the directory of prometheus and promtool, for tests.
#
# This is PROMETHEUS, if set, or the directory of the promtool on the PATH. Otherwise the script fetches Debian's package
# once and extracts the binaries to the user's cache. It does not install the package, as that would start a service.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../cache.sh"

if [ -n "${PROMETHEUS:-}" ]; then
	if [ ! -x "$PROMETHEUS/prometheus" ] || [ ! -x "$PROMETHEUS/promtool" ]; then
		echo "PROMETHEUS is $PROMETHEUS, which lacks prometheus or promtool; unset it to fetch Debian's package" >&2
		exit 1
	fi
	echo "$PROMETHEUS"
	exit
fi
if command -v prometheus >/dev/null && tool=$(command -v promtool); then
	dirname "$tool"
	exit
fi
has_apt "get Prometheus 2.42 or newer and set PROMETHEUS to the directory of its binaries"

unpack() { # unpack DIRECTORY
	echo "Fetching Debian's package prometheus. Once; some 19 MB."
	debian_packages "$1" prometheus
	mv "$1/root/usr/bin/prometheus" "$1/root/usr/bin/promtool" "$1"
	rm -rf "$1/root"
}

in_cache prometheus "$(dpkg --print-architecture)" unpack
