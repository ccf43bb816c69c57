#!/usr/bin/env bash
# build.sh: builds the DNS server of the clusters of hack/node, once, and prints its path. COREDNS, if set, is used as it is instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../cache.sh

if [ -n "${COREDNS:-}" ]; then
	[ -x "$COREDNS" ] || {
		echo "COREDNS is $COREDNS, which is no program; unset it to have CoreDNS built" >&2
		exit 1
	}
	echo "$COREDNS"
	exit
fi

flags=(-trimpath -buildvcs=false -ldflags "-s -w")

build() { # build DIRECTORY
	local start=$SECONDS
	echo "Building CoreDNS $(go list -m -f '{{.Version}}' github.com/coredns/coredns). Once; 1 to 2 minutes on two cores."
	CGO_ENABLED=0 go build "${flags[@]}" -o "$1/coredns" .
	echo "  coredns built in $((SECONDS - start)) s"
}

key=$(module_key "${flags[@]}" "$(cat main.go)")
out=$(in_cache coredns "$key" build)
echo "$out/coredns"
