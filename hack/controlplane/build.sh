#!/usr/bin/env bash
# build.sh: builds etcd, kube-apiserver and kubectl from this module, once, and prints the directory they are in.
# KUBEBUILDER_ASSETS, if set, is used as it is instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../cache.sh

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

build() { # build DIRECTORY NAME PACKAGE HOW-LONG
	local start=$SECONDS
	echo "  $2 ($4 when nothing is cached) ..."
	CGO_ENABLED=0 go build "${flags[@]}" -o "$1/$2" "$3"
	echo "  $2 built in $((SECONDS - start)) s"
}

build_all() { # build_all DIRECTORY
	echo "Building the local control plane (Kubernetes $version). Once; 6 to 8 minutes on two cores, most of it kube-apiserver."
	build "$1" etcd go.etcd.io/etcd/server/v3 "1 to 2 minutes"
	build "$1" kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver "4 to 5 minutes"
	build "$1" kubectl k8s.io/kubernetes/cmd/kubectl "half a minute"
}

key=$(module_key "${flags[@]}")
in_cache controlplane "$key" build_all
