#!/usr/bin/env bash
# build.sh: builds etcd, kube-apiserver and kubectl from this module and prints the directory they are in.
#
# The directory is named after the module's sums, the flags and the toolchain, so an unchanged module is found
# built, and a changed one never meets old binaries. KUBEBUILDER_ASSETS, if set, is used as it is instead.
# A run that is interrupted leaves an unfinished directory with another name, which the next run removes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
	for b in etcd kube-apiserver kubectl; do
		[ -x "$KUBEBUILDER_ASSETS/$b" ] || {
			echo "KUBEBUILDER_ASSETS is $KUBEBUILDER_ASSETS, which has no $b; unset it to have the components built" >&2
			exit 1
		}
	done
	echo "$KUBEBUILDER_ASSETS"
	exit
fi

version=$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ {print $2; exit}' go.mod)
minor=${version#v1.} minor=${minor%%.*}
x=k8s.io/component-base/version
flags=(-trimpath -buildvcs=false -ldflags "-s -w -X $x.gitVersion=$version -X $x.gitMajor=1 -X $x.gitMinor=$minor")

cache=${XDG_CACHE_HOME:-$HOME/.cache}/catalogd/controlplane
key=$({ cat go.mod go.sum; echo "${flags[@]}"; go env GOVERSION GOOS GOARCH; } | sha256sum | cut -c1-16)
out=$cache/$key
if [ ! -d "$out" ]; then
	mkdir -p "$cache"
	find "$cache" -maxdepth 1 -name '*.unfinished' -mmin +120 -exec rm -rf {} +
	tmp=$(mktemp -d "$cache/$key.XXXXXX.unfinished")
	trap 'rm -rf "$tmp"' EXIT
	echo "Building the local control plane (Kubernetes $version). Once; 6 to 8 minutes on two cores, most of it kube-apiserver." >&2
	build() { # build NAME PACKAGE HOW-LONG
		echo "  $1 ($3 when nothing is cached) ..." >&2
		local start=$SECONDS
		CGO_ENABLED=0 go build "${flags[@]}" -o "$tmp/$1" "$2"
		echo "  $1 built in $((SECONDS - start)) s" >&2
	}
	build etcd go.etcd.io/etcd/server/v3 "1 to 2 minutes"
	build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver "4 to 5 minutes"
	build kubectl k8s.io/kubernetes/cmd/kubectl "half a minute"
	chmod 0755 "$tmp"
	mv -T "$tmp" "$out" 2>/dev/null || [ -d "$out" ] # another run may have finished first: the same binaries
fi
echo "$out"
