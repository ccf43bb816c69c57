#!/usr/bin/env bash
# possible.sh: fails, with a list on stderr, if this machine lacks something that hack/node/up.sh needs.
set -euo pipefail

lacks=()
[ "$(uname -s)" = Linux ] || lacks+=("Linux")
[ "$(id -u)" = 0 ] || lacks+=("root")
for tool in apt-get dpkg ip nsenter openssl setpriv unshare; do
	command -v $tool >/dev/null || lacks+=("$tool")
done
if [ ${#lacks[@]} = 0 ]; then
	unshare --mount --net --pid --fork --cgroup ip link add node0 type bridge 2>/dev/null || lacks+=("the right to make namespaces and bridges")
fi
if [ ${#lacks[@]} -gt 0 ]; then
	printf -v list ', %s' "${lacks[@]}"
	echo "cannot run a cluster of real nodes here; missing: ${list#, }" >&2
	exit 1
fi
