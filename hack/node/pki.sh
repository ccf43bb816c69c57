# pki.sh is sourced by up.sh. It writes the keys, certificates, tokens and kubeconfigs of the cluster to DIR, once.
# Each component has its own token, and with it only the rights of its RBAC role.

pki() { # pki writes DIR/pki
	local user group token ec=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
	openssl genrsa -out sa.key 2048
	openssl rsa -in sa.key -pubout -out sa.pub
	openssl req -x509 "${ec[@]}" -keyout ca.key -out ca.crt -days 3650 -subj /CN=ca
	openssl req "${ec[@]}" -keyout apiserver.key -out apiserver.csr -subj /CN=kube-apiserver
	openssl x509 -req -in apiserver.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -out apiserver.crt -extfile <(
		echo "subjectAltName=IP:10.99.0.1,IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
	)
	while read -r user group; do
		token=$(openssl rand -hex 16)
		echo "$token,$user,$user,\"$group\"" >>tokens.csv
		kubeconfig "$token" >"${user##*:}.kubeconfig"
	done <<-USERS
		admin system:masters
		system:kube-controller-manager
		system:kube-scheduler
		system:kube-proxy
		system:node:node1 system:nodes
		system:node:node2 system:nodes
	USERS
}

kubeconfig() { # kubeconfig TOKEN
	cat <<-CONFIG
		apiVersion: v1
		kind: Config
		clusters: [{name: node, cluster: {server: "https://10.99.0.1:6443", certificate-authority-data: $(base64 -w0 ca.crt)}}]
		users: [{name: node, user: {token: "$1"}}]
		contexts: [{name: node, context: {cluster: node, user: node}}]
		current-context: node
	CONFIG
}

if [ ! -f "$DIR/kubeconfig" ]; then
	rm -rf "$DIR/pki"
	mkdir "$DIR/pki"
	(umask 077 && cd "$DIR/pki" && pki 2>"$DIR/pki.log")
	cp "$DIR/pki/admin.kubeconfig" "$DIR/kubeconfig"
fi

# Kubectl accepts no flags before the name of a plugin, so the environment names the kubeconfig and the plugin's directory.
plugins=$(realpath -m "$(dirname "${BASH_SOURCE[0]}")/../../bin")
cat >"$DIR/kubectl" <<-SCRIPT
	#!/bin/sh
	KUBECONFIG='$DIR/kubeconfig' PATH='$plugins':"\$PATH" exec nsenter -t "\$(cat '$DIR/node1/pid')" -n -- '$DIR/bin/kubectl' "\$@"
SCRIPT
chmod +x "$DIR/kubectl"
