#!/usr/bin/env bash
# possible.sh: fails, with a list on stderr, if this machine lacks something that tests in a browser need.
set -euo pipefail

lacks=()
[ -n "${CHROMIUM:-}" ] || command -v chromium chromium-browser google-chrome >/dev/null ||
	lacks+=("chromium (install it, or set CHROMIUM to its path)")
"$(dirname "${BASH_SOURCE[0]}")/install.sh" >/dev/null || lacks+=("axe-core")
if [ ${#lacks[@]} -gt 0 ]; then
	printf -v list ', %s' "${lacks[@]}"
	echo "cannot test in a browser here; missing: ${list#, }" >&2
	exit 1
fi
