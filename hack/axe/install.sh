#!/usr/bin/env bash
# install.sh: prints the directory of axe-core's axe.min.js, for tests of the web page.
#
# This is AXE, if set. Otherwise npm fetches the package once, to the user's cache; its checksum is here. Nothing of it is run but
# by Chromium, in tests.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../cache.sh"

version=4.14.1
sum=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c # of axe.min.js

if [ -n "${AXE:-}" ]; then
	[ -f "$AXE/axe.min.js" ] || {
		echo "AXE is $AXE, which lacks axe.min.js; unset it to fetch axe-core with npm" >&2
		exit 1
	}
	echo "$AXE"
	exit
fi

fetch() { # fetch DIRECTORY
	command -v npm >/dev/null || {
		echo "npm not found, so axe-core cannot be fetched; get axe-core $version and set AXE to the directory of its axe.min.js"
		exit 1
	}
	echo "Fetching axe-core $version. Once; some 700 kB."
	(cd "$1" && npm pack --silent --ignore-scripts "axe-core@$version" </dev/null && tar -xzf "axe-core-$version.tgz")
	echo "$sum  $1/package/axe.min.js" | sha256sum --check --quiet
	mv "$1/package/axe.min.js" "$1/package/LICENSE" "$1"
	rm -rf "$1/package" "$1/axe-core-$version.tgz"
}

in_cache axe "$version" fetch
