#!/usr/bin/env bash
# up.sh DIR: runs a Kubernetes cluster of two real nodes on this machine, in the foreground, until it is stopped. Needs root.
#
# DIR contains everything: kubeconfig, logs, volumes. DIR/up appears when Pods can be created.
# Each node has its own mount, network, PID, UTS, IPC and cgroup namespaces. So the cluster changes no interface, route,
# firewall rule, sysctl or mount of the machine, its fixed addresses and ports conflict with nothing, and it ends with this
# process, even if that is killed. `nsenter -t $(cat DIR/node1/pid) -a` opens a shell on a node.
#
#   node1 10.99.0.1  etcd, API server, controller manager, scheduler, DNS, registry (port 5000); and Pods, 10.98.1.0/24
#   node2 10.99.0.2  Pods, 10.98.2.0/24
#
# The registry uses plain HTTP and replaces all registries: the nodes pull each image from it, by its path.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 1 ] || { echo "usage: up.sh DIR" >&2 && exit 2; }
"$here/possible.sh"

DIR=$(realpath -m "$1") NODES=(node1 node2)
export DIR

programs() { # links all programs of the nodes into one directory; pause is for the sandbox image
	local control node
	control=$("$here/../controlplane/build.sh") node=$("$here/../controlplane/build.sh" node) RUNTIME=$("$here/runtime.sh")
	export RUNTIME
	mkdir -p "$DIR/bin"
	ln -sf "$control"/* "$node"/* "$RUNTIME"/bin/* "$DIR/bin"
	ln -sf "$("$here/../registry/install.sh")" "$DIR/bin/docker-registry"
	ln -sf "$("$here/coredns/build.sh")" "$DIR/bin/coredns"
	(cd "$here" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$DIR/bin/pause" ./pause)
}

# make_cgroups NODE makes a child of the current cgroup in each hierarchy, and lists them in DIR/NODE/cgroups.
make_cgroups() {
	local id controllers path root cgroup file
	while IFS=: read -r id controllers path; do
		root=/sys/fs/cgroup/${controllers#name=}
		if [ "$id" = 0 ]; then # version 2, alone or beside the hierarchies of version 1
			root=/sys/fs/cgroup
			[ -f $root/cgroup.controllers ] || root=/sys/fs/cgroup/unified
		fi
		[ -f "$root/cgroup.procs" ] || continue
		cgroup=$root${path%/}/catalogd-$$-$1
		mkdir "$cgroup"
		echo "$cgroup" >>"$DIR/$1/cgroups"
		if [ "$controllers" = cpuset ]; then # empty in a new cgroup, which then accepts no process
			for file in cpuset.cpus cpuset.mems; do cat "$cgroup/../$file" >"$cgroup/$file"; done
		fi
	done </proc/self/cgroup
}

# remove_cgroups NODE retries until the processes of a cgroup have exited.
remove_cgroups() {
	local cgroups cgroup
	[ -f "$DIR/$1/cgroups" ] || return 0
	mapfile -t cgroups <"$DIR/$1/cgroups"
	for cgroup in "${cgroups[@]}"; do
		for _ in {1..100}; do
			[ -d "$cgroup" ] || break
			find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
		done
	done
	rm "$DIR/$1/cgroups"
}

# start_node NODE runs node.sh as process 1 of a node's namespaces. If up.sh dies, the kernel kills the whole node.
declare -A process
start_node() {
	local cgroup unshare child=
	(
		while read -r cgroup; do echo $BASHPID >"$cgroup/cgroup.procs"; done <"$DIR/$1/cgroups"
		exec setpriv --pdeathsig KILL unshare --mount --net --pid --fork --kill-child --uts --ipc --cgroup --propagation private \
			"$here/node.sh" "$1"
	) &
	unshare=$!
	process[$1]=$unshare
	until [ -n "$child" ]; do
		kill -0 $unshare
		child=$(cat /proc/$unshare/task/$unshare/children 2>/dev/null || true)
		sleep 0.05
	done
	echo "${child% }" >"$DIR/$1/pid"
}

on() { nsenter -t "$(cat "$DIR/$1/pid")" -n -- "${@:2}"; } # on NODE COMMAND... runs it in the node's network

# connect joins the nodes with a bridge on the first, and adds routes to the Pods of the others. The bridge has the address
# of the first node, as a node cannot have a loopback address. Without the default route, which leads nowhere, connections
# to Services would fail before address translation.
connect() {
	local node other
	on node1 ip link add node0 type bridge
	for node in "${NODES[@]:1}"; do
		on node1 ip link add "$node" type veth peer name node0 netns "$(cat "$DIR/$node/pid")"
		on node1 ip link set "$node" master node0 up
	done
	for node in "${NODES[@]}"; do
		on "$node" ip link set lo up
		on "$node" ip address add "10.99.0.${node#node}/24" dev node0
		on "$node" ip link set node0 up
		for other in "${NODES[@]}"; do
			[ "$other" = "$node" ] || on "$node" ip route add "10.98.${other#node}.0/24" via "10.99.0.${other#node}"
		done
		on "$node" ip route add default dev node0
		touch "$DIR/$node/connected"
	done
}

kubectl() { on node1 "$DIR/bin/kubectl" --kubeconfig "$DIR/kubeconfig" "$@"; }

# volumes offers volumes of three classes. The default class can be used from each node, one at a time, like volumes of a
# cloud. Volumes of class `local` are bound to a node, like its disks. Those of class `tiny` have only 24 MiB.
volumes() {
	local i node
	volume_class standard '{storageclass.kubernetes.io/is-default-class: "true"}'
	volume_class local '{}'
	volume_class tiny '{}'
	for i in {1..20}; do volume "standard-$i" standard "${NODES[*]}"; done
	for node in "${NODES[@]}"; do
		for i in {1..10}; do volume "local-$node-$i" local "$node"; done
		volume "tiny-$node" tiny "$node"
	done
}

volume_class() { # volume_class NAME ANNOTATIONS
	printf -- '---\n{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: %s, annotations: %s}, %s}\n' "$1" "$2" \
		"provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer"
}

volume() { # volume NAME CLASS NODES
	mkdir -p "$DIR/volumes/$1"
	cat <<-VOLUME
		---
		apiVersion: v1
		kind: PersistentVolume
		metadata: {name: $1}
		spec:
		  capacity: {storage: 20Gi}
		  accessModes: [ReadWriteOnce]
		  storageClassName: $2
		  local: {path: $DIR/volumes/$1}
		  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [${3// /, }]}]}]}}
	VOLUME
}

wait_for() { # wait_for COMMAND...
	local tries=0
	until "$@" >/dev/null 2>&1; do
		sleep 0.1
		tries=$((tries + 1))
		[ $tries -lt 1200 ] || { echo "timed out: $*" >&2 && return 1; }
	done
}

# stop terminates process 1 of each node, and with it the node, and kills it if it does not exit.
stop() {
	local node
	trap - EXIT
	trap '' TERM INT HUP PIPE # the parent may be gone, and with it the reader of our output; clean up nevertheless
	for _ in {1..50}; do
		kill -0 "${process[@]}" 2>/dev/null || break
		for node in "${!process[@]}"; do kill "$(cat "$DIR/$node/pid")" 2>/dev/null || true; done
		sleep 0.1
	done
	kill -9 "${process[@]}" 2>/dev/null || true
	wait || true
	for node in "${NODES[@]}"; do remove_cgroups "$node"; done
}

programs
for node in "${NODES[@]}"; do
	mkdir -p "$DIR/$node/log"
	rm -f "$DIR/up" "$DIR/$node"/{pid,connected}
	remove_cgroups "$node" # of a run that was killed
done
. "$here/pki.sh"
trap stop EXIT
trap 'exit 0' TERM INT
for node in "${NODES[@]}"; do
	make_cgroups "$node"
	start_node "$node"
done
connect
wait_for kubectl get --raw /readyz
volumes | kubectl apply -f - >/dev/null
for node in "${NODES[@]}"; do
	wait_for kubectl wait --for=condition=Ready "node/$node" --timeout=5s
done
wait_for kubectl get serviceaccount default
touch "$DIR/up"
cat <<-UP
	up: $DIR/kubectl is kubectl for an administrator
	The registry, 10.99.0.1:5000 inside, replaces all others: the nodes pull registry.example/catalogd:v1 from it, as catalogd:v1.
	It uses plain HTTP, so a CatalogSource of it needs spec.registry.insecure. To push to it (the image after make image):
	  nsenter -t $(cat "$DIR/node1/pid") -n -- go run ./hack/image push 10.99.0.1:5000/catalogd:v1
	  nsenter -t $(cat "$DIR/node1/pid") -n -- bin/kubectl-catalog push config/samples/catalog/configs 10.99.0.1:5000/catalogs/sample:v1
	All commands that connect to addresses of the cluster need this prefix.
UP
wait -n "${process[@]}" || true
echo "a node exited; the logs are in $DIR/*/log" >&2
exit 1
