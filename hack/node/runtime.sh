#!/usr/bin/env bash
# runtime.sh: prints the directory of Debian's container runtime: bin (containerd, ctr, runc, nft), lib and cni.
# It extracts them from Debian's packages to the user's cache, once. It does not install them, as that would start containerd
# as a service and change the firewall.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../cache.sh"

# The libraries that nft and runc need and a minimal Debian lacks.
packages=(containerd runc containernetworking-plugins nftables
	libnftables1 libnftnl11 libmnl0 libjansson4 libgmp10 libxtables12 libedit2 libbsd0 libmd0 libseccomp2)

unpack() { # unpack DIRECTORY
	echo "Fetching Debian's containerd, runc, CNI plugins and nftables. Once; some 37 MB."
	debian_packages "$1" "${packages[@]}"
	mkdir "$1/bin" "$1/lib"
	find "$1/root/usr/bin" "$1/root/usr/sbin" -type f -exec mv -t "$1/bin" {} +
	find "$1/root" -path '*-linux-gnu*' -name '*.so.*' -exec mv -t "$1/lib" {} +
	mv "$1/root/usr/lib/cni" "$1/cni"
	rm -rf "$1/root"
	LD_LIBRARY_PATH=$1/lib "$1/bin/nft" --version
	LD_LIBRARY_PATH=$1/lib "$1/bin/runc" --version
}

key=$(. /etc/os-release && echo "${VERSION_CODENAME:-$VERSION_ID}")-$(dpkg --print-architecture)
in_cache runtime "$key" unpack
