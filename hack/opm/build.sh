#!/usr/bin/env bash
# build.sh: builds opm from this module, once, and prints the path of the binary. OPM, if set, is used instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../cache.sh

given OPM opm
export CGO_ENABLED=1 # its SQLite is in C
# The tags of opm's own releases, and two that leave out storage drivers whose C headers few machines have.
go_program opm github.com/operator-framework/operator-registry/cmd/opm github.com/operator-framework/operator-registry "some 4 minutes" \
	-trimpath -buildvcs=false -ldflags "-s -w" -tags json1,containers_image_openpgp,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper
