#!/usr/bin/env bash
# build.sh: builds opm from this module and prints the path of the binary. OPM, if set, is used as it is instead.
#
# Its directory is named after the module's sums, the flags and the toolchain, so an unchanged module is found built.
# A run that is interrupted leaves an unfinished directory with another name, which the next run removes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

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

cache=${XDG_CACHE_HOME:-$HOME/.cache}/catalogd/opm
key=$({ cat go.mod go.sum; echo "${flags[@]}"; go env GOVERSION GOOS GOARCH; } | sha256sum | cut -c1-16)
out=$cache/$key
if [ ! -d "$out" ]; then
	mkdir -p "$cache"
	find "$cache" -maxdepth 1 -name '*.unfinished' -mmin +120 -exec rm -rf {} +
	tmp=$(mktemp -d "$cache/$key.XXXXXX.unfinished")
	trap 'rm -rf "$tmp"' EXIT
	echo "Building opm $(go list -m -f '{{.Version}}' github.com/operator-framework/operator-registry). Once; some 4 minutes on two cores." >&2
	start=$SECONDS
	CGO_ENABLED=1 go build "${flags[@]}" -o "$tmp/opm" github.com/operator-framework/operator-registry/cmd/opm # cgo: its SQLite is in C
	echo "  opm built in $((SECONDS - start)) s" >&2
	chmod 0755 "$tmp"
	mv -T "$tmp" "$out" 2>/dev/null || [ -d "$out" ] # another run may have finished first: the same binary
fi
echo "$out/opm"
