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
has_apt "get Prometheus 2.42 or newer and set PROMETHEUS to the directory of its binaries"

unpack() { # unpack DIRECTORY
	echo "Fetching Debian's package prometheus. Once; some 19 MB."
	debian_packages "$1" prometheus
	mv "$1/root/usr/bin/prometheus" "$1/root/usr/bin/promtool" "$1"
	rm -rf "$1/root"
}

in_cache prometheus "$(dpkg --print-architecture)" unpack
