#!/usr/bin/env bash
# node.sh NODE: process 1 of a node's namespaces, started by up.sh. It runs the node's components, and exits when one of
# them does.
set -euo pipefail
NODE=$1 ADDRESS=10.99.0.${1#node} STATE=$DIR/$1
trap 'exit 0' TERM INT

# own_view gives the components their own cgroups, /run, /var/log and /proc, and parts of /var/lib.
own_view() {
	local controllers c dir setting file
	mount --make-rshared /
	mount -t proc proc /proc
	hostname "$NODE"
	controllers=$(awk -F: '$1 != 0 {print $2}' /proc/self/cgroup)
	umount -R /sys/fs/cgroup
	mount -t sysfs sysfs /sys # for /sys/class/net
	if [ -n "$controllers" ]; then
		mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
		for c in $controllers; do
			dir=/sys/fs/cgroup/${c#name=}
			mkdir "$dir"
			mount -t cgroup -o "$c" cgroup "$dir"
		done
	else
		cgroup2
	fi
	mount -t tmpfs -o mode=755 run /run
	mkdir -p "$STATE"/{cni,cni-state,containerd,kubelet,var-log} /var/lib/{cni,kubelet}
	mount --bind "$STATE/cni-state" /var/lib/cni
	mount --bind "$STATE/kubelet" /var/lib/kubelet
	mount --bind "$STATE/var-log" /var/log
	mkdir -p "$DIR/volumes/tiny-$NODE"
	mount -t tmpfs -o size=24m tiny "$DIR/volumes/tiny-$NODE"
	# The kubelet sets these sysctls for the whole machine unless they have the wanted values, so it sees those.
	mkdir /run/sysctl
	for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
		kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
		file=/run/sysctl/$(basename "${setting%=*}")
		echo "${setting#*=}" >"$file"
		mount --bind "$file" "/proc/sys/${setting%=*}"
	done
	echo 1 >/proc/sys/net/ipv4/ip_forward
}

# cgroup2 makes the controllers of cgroup version 2 available to the kubelet. The root that delegates them must have no process.
cgroup2() {
	local process processes c controllers
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
	mkdir -p /sys/fs/cgroup/init
	mapfile -t processes </sys/fs/cgroup/cgroup.procs
	for process in "${processes[@]}"; do
		echo "$process" >/sys/fs/cgroup/init/cgroup.procs 2>/dev/null || true
	done
	read -ra controllers </sys/fs/cgroup/cgroup.controllers
	for c in "${controllers[@]}"; do
		echo "+$c" >/sys/fs/cgroup/cgroup.subtree_control
	done
}

run() { "$@" >"$STATE/log/$(basename "$1").log" 2>&1 & } # run PROGRAM ARGUMENTS... in the background

wait_for() { # wait_for COMMAND...
	local tries=0
	until "$@" >/dev/null 2>&1; do
		sleep 0.1
		tries=$((tries + 1))
		[ $tries -lt 1200 ] || { echo "$NODE: timed out: $*" >&2 && exit 1; }
	done
}

control_plane() {
	cd "$DIR/pki"
	run etcd --data-dir "$STATE/etcd" --unsafe-no-fsync \
		--listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380
	run kube-apiserver --etcd-servers=http://127.0.0.1:2379 --secure-port=6443 --advertise-address="$ADDRESS" \
		--service-cluster-ip-range=10.96.0.0/16 --kubelet-preferred-address-types=InternalIP --allow-privileged=true \
		--tls-cert-file=apiserver.crt --tls-private-key-file=apiserver.key --token-auth-file=tokens.csv --client-ca-file=ca.crt \
		--authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
		--service-account-issuer=https://kubernetes.default.svc --service-account-key-file=sa.pub --service-account-signing-key-file=sa.key
	wait_for kubectl --kubeconfig "$DIR/kubeconfig" get --raw /readyz
	run kube-controller-manager --kubeconfig=kube-controller-manager.kubeconfig --leader-elect=false --bind-address=127.0.0.1 \
		--use-service-account-credentials=true --service-account-private-key-file=sa.key --root-ca-file=ca.crt \
		--cert-dir="$STATE/controller-manager" --flex-volume-plugin-dir="$STATE/flexvolume"
	run kube-scheduler --kubeconfig=kube-scheduler.kubeconfig --leader-elect=false --bind-address=127.0.0.1 --cert-dir="$STATE/scheduler"
}

registry() {
	mkdir -p "$DIR/registry"
	cat >"$STATE/registry.yaml" <<-CONFIG
		version: 0.1
		log: {level: warn}
		storage: {filesystem: {rootdirectory: $DIR/registry}, delete: {enabled: true}}
		http: {addr: "$ADDRESS:5000"}
	CONFIG
	run docker-registry serve "$STATE/registry.yaml"
}

dns() {
	cat >"$STATE/Corefile" <<-CONFIG
		.:53 {
		  bind $ADDRESS
		  errors
		  kubernetes cluster.local in-addr.arpa {
		    kubeconfig $DIR/kubeconfig
		  }
		}
	CONFIG
	run coredns -conf "$STATE/Corefile"
}

# container_runtime runs containerd. Pods have routes rather than a bridge, so that replies of a Service are translated back
# even if both ends are on one node.
container_runtime() {
	cat >"$STATE/cni/10-pod.conflist" <<-CONFIG
		{"cniVersion": "1.0.0", "name": "pod", "plugins": [{"type": "ptp", "ipam": {
		  "type": "host-local", "ranges": [[{"subnet": "10.98.${NODE#node}.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
	CONFIG
	mkdir -p "$STATE/registries/_default"
	echo '[host."http://10.99.0.1:5000"]' >"$STATE/registries/_default/hosts.toml"
	cat >"$STATE/containerd.toml" <<-CONFIG
		version = 2
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "localhost/pause:1"
		  restrict_oom_score_adj = true
		  [plugins."io.containerd.grpc.v1.cri".cni]
		    bin_dir = "$RUNTIME/cni"
		    conf_dir = "$STATE/cni"
		  [plugins."io.containerd.grpc.v1.cri".registry]
		    config_path = "$STATE/registries"
		  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
		    runtime_type = "io.containerd.runc.v2"
	CONFIG
	run containerd -c "$STATE/containerd.toml" --root "$STATE/containerd" --state /run/containerd --address /run/containerd/containerd.sock
	wait_for ctr version
	sandbox_image | ctr -n k8s.io images import - >"$STATE/log/sandbox-image.log" 2>&1
}

sandbox_image() { # writes the image of pause as a tar archive for containerd
	local d=$STATE/sandbox
	mkdir -p "$d"
	tar --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$DIR/bin" -cf "$d/layer.tar" pause
	printf '{"architecture": "%s", "os": "linux", "config": {"Entrypoint": ["/pause"]}, "rootfs": {"type": "layers", "diff_ids": ["sha256:%s"]}}' \
		"$(dpkg --print-architecture)" "$(sha256sum <"$d/layer.tar" | cut -d' ' -f1)" >"$d/config.json"
	echo '[{"Config": "config.json", "RepoTags": ["localhost/pause:1"], "Layers": ["layer.tar"]}]' >"$d/manifest.json"
	tar -C "$d" -c manifest.json config.json layer.tar
}

# kubelet_and_proxy runs both with settings for machines that cannot raise limits and OOM scores, or have cgroup version 1,
# swap or a full disk.
kubelet_and_proxy() {
	cat >"$STATE/kubelet.yaml" <<-CONFIG
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		address: $ADDRESS
		authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
		authorization: {mode: AlwaysAllow}
		cgroupDriver: cgroupfs
		containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
		evictionHard: {memory.available: 50Mi, nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%", imagefs.inodesFree: "0%"}
		failCgroupV1: false
		failSwapOn: false
		imageGCHighThresholdPercent: 100
		imageGCLowThresholdPercent: 99
		maxOpenFiles: $(ulimit -Hn | sed s/unlimited/1000000/)
		oomScoreAdj: 0
		podLogsDir: $STATE/var-log/pods
		resolvConf: ""
		clusterDNS: [10.99.0.1]
		clusterDomain: cluster.local
		volumePluginDir: $STATE/flexvolume
	CONFIG
	cat >"$STATE/kube-proxy.yaml" <<-CONFIG
		apiVersion: kubeproxy.config.k8s.io/v1alpha1
		kind: KubeProxyConfiguration
		mode: nftables
		hostnameOverride: $NODE
		clusterCIDR: 10.98.0.0/16
		clientConnection: {kubeconfig: $DIR/pki/kube-proxy.kubeconfig}
		conntrack: {maxPerCore: 0, min: 0}
		oomScoreAdj: 0
	CONFIG
	wait_for kubectl --kubeconfig "$DIR/kubeconfig" get --raw /readyz
	run kubelet --config="$STATE/kubelet.yaml" --kubeconfig="$DIR/pki/$NODE.kubeconfig" --cert-dir="$STATE/kubelet-certificates" \
		--hostname-override="$NODE" --node-ip="$ADDRESS"
	run kube-proxy --config="$STATE/kube-proxy.yaml"
}

export PATH=$DIR/bin:$PATH LD_LIBRARY_PATH=$RUNTIME/lib HOME=$STATE
wait_for test -e "$STATE/connected" # up.sh has set up the network
own_view
if [ "$NODE" = node1 ]; then
	control_plane
	registry
	dns
fi
container_runtime
kubelet_and_proxy
ended=0
wait -n || ended=$?
echo "$NODE: a component ended ($ended)" >&2
exit 1
