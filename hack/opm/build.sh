#!/usr/bin/env bash
# build.sh: builds opm from this module, once, and prints the path of the binary. OPM, if set, is used as it is instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../cache.sh

if [ -n "${OPM:-}" ]; then
	[ -x "$OPM" ] || {
		echo "OPM is $OPM, which is no program; unset it to have opm built" >&2
		exit 1
	}
	echo "$OPM"
	exit
fi

# The tags of opm's own releases, and two that leave out storage drivers whose C headers few machines have.
flags=(-trimpath -buildvcs=false -ldflags "-s -w" -tags json1,containers_image_openpgp,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper)

build() { # build DIRECTORY
	local start=$SECONDS
	echo "Building opm $(go list -m -f '{{.Version}}' github.com/operator-framework/operator-registry). Once; some 4 minutes on two cores."
	CGO_ENABLED=1 go build "${flags[@]}" -o "$1/opm" github.com/operator-framework/operator-registry/cmd/opm # cgo: its SQLite is in C
	echo "  opm built in $((SECONDS - start)) s"
}

key=$(module_key "${flags[@]}")
out=$(in_cache opm "$key" build)
echo "$out/opm"
