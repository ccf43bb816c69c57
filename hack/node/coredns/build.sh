#!/usr/bin/env bash
# build.sh: builds the DNS server of the clusters of hack/node, once, and prints its path. COREDNS, if set, is used instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../../cache.sh

given COREDNS CoreDNS
export CGO_ENABLED=0
go_program coredns . github.com/coredns/coredns "1 to 2 minutes" -trimpath -buildvcs=false -ldflags "-s -w"
