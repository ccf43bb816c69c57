#!/usr/bin/env bash
# build.sh [catalogd]: builds this module's program, or the catalogd of OLM v1, once, and prints its path.
# OPERATOR_CONTROLLER or UPSTREAM_CATALOGD, if set, is used instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../cache.sh

export CGO_ENABLED=0
upstream=github.com/operator-framework/operator-controller
flags=(-trimpath -buildvcs=false -ldflags "-s -w" -tags "containers_image_openpgp,exclude_graphdriver_btrfs")
case ${1:-} in
"")
	given OPERATOR_CONTROLLER operatorcontroller
	go_program operatorcontroller . $upstream "some 3 minutes" "${flags[@]}"
	;;
catalogd)
	given UPSTREAM_CATALOGD catalogd
	go_program upstream-catalogd $upstream/cmd/catalogd $upstream "some 2 minutes after operatorcontroller" "${flags[@]}"
	;;
*)
	echo "usage: build.sh [catalogd]" >&2
	exit 2
	;;
esac
