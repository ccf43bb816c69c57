#!/usr/bin/env bash
# fuzz.sh [TIME]: runs every fuzz target of the module for TIME each (a duration of go test; default 60s), two at a time
# with one worker each. A finding fails the run and stays in the package's testdata/fuzz.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=${1:-60s}
targets=$(grep -rhoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' --with-filename internal apis cmd hack | sed 's/:func /:/' | sort)
[ -n "$targets" ] || {
	echo "fuzz: found no target" >&2
	exit 1
}
export time scratch
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# endedLate reports whether a run failed only because its time ended while a worker was busy, which Go before 1.27
# sometimes reports as a failure of the target (golang/go#75804). A real finding is written to a file that the log names.
endedLate() { grep -qx '    context deadline exceeded' "$1" && ! grep -q 'Failing input written' "$1"; }

# run PACKAGE TARGET runs a built target and prints its output at the end. Interesting inputs are minimized with 10
# tries; the default of 60 s would use up a short run.
run() {
	local log=$scratch/$2.log failed=
	cd "$1"
	"$scratch/${1//\//-}" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$time" -test.fuzzminimizetime 10x -test.parallel 1 \
		-test.fuzzcachedir "$(go env GOCACHE)/fuzz/$(go list .)" >"$log" 2>&1 || endedLate "$log" || failed=yes
	echo "== fuzz: $2 of ./$1 for $time"
	if [ -n "$failed" ]; then cat "$log"; else tail -n 2 "$log"; fi
	[ -z "$failed" ]
}
export -f run endedLate

# Building before running: `go test -fuzz` would link the tests of a package again for each of its targets.
cut -d: -f1 <<<"$targets" | xargs -n 1 dirname | sort -u | while read -r package; do
	go test -toolexec "'$PWD/hack/fuzztool.sh'" -ldflags=-w -fuzz . -c -o "$scratch/${package//\//-}" "./$package"
done
# shellcheck disable=SC2016 # run expands in the shells of xargs
sed -E 's|/[^/]*:| |' <<<"$targets" | xargs -P 2 -L 1 bash -c 'run "$@"' run
echo "fuzz: $(wc -w <<<"$targets") targets ran for $time each and found nothing"
