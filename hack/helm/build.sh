#!/usr/bin/env bash
# build.sh: builds helm from this module, once, and prints the path of the binary. HELM, if set, is used instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../cache.sh

given HELM helm
export CGO_ENABLED=0
go_program helm helm.sh/helm/v4/cmd/helm helm.sh/helm/v4 "some 5 minutes" -trimpath -buildvcs=false -ldflags "-s -w"
