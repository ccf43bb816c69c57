#!/usr/bin/env bash
# verify.sh: updates every generated, formatted and tidied file, and fails if that changes the tree. `make verify` runs it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step() { # step WHAT COMMAND...
	echo "== verify: $1" >&2
	shift
	"$@" || {
		echo "verify: '$*' failed" >&2
		exit 1
	}
}

tidy() {
	local module
	for module in . hack/controlplane hack/helm hack/node/coredns hack/olmv0 hack/operatorcontroller hack/opm hack/tools; do
		go -C "$module" mod tidy -diff || {
			echo "$module/go.mod is not tidy: go -C $module mod tidy" >&2
			return 1
		}
	done
}

scripts() {
	command -v shellcheck >/dev/null || {
		echo "shellcheck is not installed; scripts are not checked" >&2
		return 0
	}
	git ls-files -z '*.sh' .ci/run | xargs -0 shellcheck
}

step "scripts" scripts
step "generated files" make --no-print-directory generate
step "go mod tidy" tidy
step "go vet" go vet ./...
step "lint and format" make --no-print-directory lint

changes=$(git status --porcelain)
if [ -n "$changes" ]; then
	git --no-pager diff
	echo "verify: the tree is not clean:
$changes
Run 'make generate' and commit what you want to keep; verify checks commits." >&2
	exit 1
fi
echo "verify: everything is up to date and the tree is clean"
