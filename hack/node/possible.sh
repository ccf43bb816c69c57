#!/usr/bin/env bash
# possible.sh: says on stderr what this machine lacks for hack/node/up.sh, and fails if there is anything.
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
	printf 'no cluster of real nodes can be run here; this is missing: %s\n' "$(IFS=, && echo "${lacks[*]}" | sed 's/,/, /g')" >&2
	exit 1
fi
