#!/usr/bin/env bash
# build.sh: builds helm from this module, once, and prints the path of the binary. HELM, if set, is used as it is instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../cache.sh

if [ -n "${HELM:-}" ]; then
	[ -x "$HELM" ] || {
		echo "HELM is $HELM, which is no program; unset it to have helm built" >&2
		exit 1
	}
	echo "$HELM"
	exit
fi

flags=(-trimpath -buildvcs=false -ldflags "-s -w")

build() { # build DIRECTORY
	local start=$SECONDS
	echo "Building helm $(go list -m -f '{{.Version}}' helm.sh/helm/v4). Once; some 5 minutes on two cores."
	CGO_ENABLED=0 go build "${flags[@]}" -o "$1/helm" helm.sh/helm/v4/cmd/helm
	echo "  helm built in $((SECONDS - start)) s"
}

key=$(module_key "${flags[@]}")
out=$(in_cache helm "$key" build)
echo "$out/helm"
