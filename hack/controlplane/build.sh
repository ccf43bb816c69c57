#!/usr/bin/env bash
# build.sh [node]: builds Kubernetes components from this module, once, and prints their directory.
# Without an argument it builds etcd, kube-apiserver and kubectl; with `node`, the other components of a cluster that runs
# Pods. KUBEBUILDER_ASSETS and NODE_ASSETS, if set, are used instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ../cache.sh

case ${1:-} in
"") name=controlplane variable=KUBEBUILDER_ASSETS programs=(etcd kube-apiserver kubectl) ;;
node) name=node variable=NODE_ASSETS programs=(kube-controller-manager kube-scheduler kubelet kube-proxy) ;;
*) echo "usage: build.sh [node]" >&2 && exit 2 ;;
esac

if [ -n "${!variable:-}" ]; then
	for b in "${programs[@]}"; do
		[ -x "${!variable}/$b" ] || {
			echo "$variable is ${!variable}, which lacks $b; unset it to build the components" >&2
			exit 1
		}
	done
	echo "${!variable}"
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

build_controlplane() { # build_controlplane DIRECTORY
	echo "Building the local control plane (Kubernetes $version). Once; 6 to 8 minutes on two cores, most of it kube-apiserver."
	build "$1" etcd go.etcd.io/etcd/server/v3 "1 to 2 minutes"
	build "$1" kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver "4 to 5 minutes"
	build "$1" kubectl k8s.io/kubernetes/cmd/kubectl "half a minute"
}

build_node() { # build_node DIRECTORY
	echo "Building the components that run Pods (Kubernetes $version). Once; 3 to 4 minutes on two cores after the control plane."
	build "$1" kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager "2 minutes"
	build "$1" kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler "15 seconds"
	build "$1" kubelet k8s.io/kubernetes/cmd/kubelet "45 seconds"
	build "$1" kube-proxy k8s.io/kubernetes/cmd/kube-proxy "20 seconds"
}

key=$(module_key "${flags[@]}")
in_cache "$name" "$key" "build_$name"
