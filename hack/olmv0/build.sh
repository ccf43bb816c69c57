#!/usr/bin/env bash
# build.sh packages|catalog-operator: builds this module's program, or OLM v0's catalog-operator, once, and prints its path.
# OLM_V0_PACKAGES or OLM_V0_CATALOG_OPERATOR, if set, is used instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../cache.sh

export CGO_ENABLED=0
upstream=github.com/operator-framework/operator-lifecycle-manager
flags=(-trimpath -buildvcs=false -ldflags "-s -w")
case ${1:-} in
packages)
	given OLM_V0_PACKAGES packages
	go_program olm-v0-packages . $upstream "some 3 minutes" "${flags[@]}"
	;;
catalog-operator)
	given OLM_V0_CATALOG_OPERATOR catalog-operator
	go_program olm-v0-catalog-operator $upstream/cmd/catalog $upstream "some 2 minutes" "${flags[@]}"
	;;
*)
	echo "usage: build.sh packages|catalog-operator" >&2
	exit 2
	;;
esac
