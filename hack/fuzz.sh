#!/usr/bin/env bash
# fuzz.sh [TIME]: runs every fuzz target of the module for TIME each (a duration of go test; default 60s), one after
# another. A finding fails the run and stays in the package's testdata/fuzz.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=${1:-60s}
targets=$(grep -rhoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' --with-filename internal apis cmd hack | sed 's/:func /:/' | sort)
[ -n "$targets" ] || {
	echo "fuzz: found no target" >&2
	exit 1
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
log=$scratch/log

# endedLate reports whether a run failed only because its time ended while a worker was busy, which Go before 1.27
# sometimes reports as a failure of the target (golang/go#75804). A real finding is written to a file that the log names.
endedLate() { grep -qx '    context deadline exceeded' "$log" && ! grep -q 'Failing input written' "$log"; }

# `go test -fuzz` would link the tests of a package again for each of its targets.
built=
for target in $targets; do
	package=$(dirname "${target%%:*}")
	name=${target##*:}
	if [ "$package" != "$built" ]; then
		go test -toolexec "'$PWD/hack/fuzztool.sh'" -fuzz . -c -o "$scratch/test" "./$package"
		built=$package
	fi
	echo "== fuzz: $name of ./$package for $time"
	# Minimize interesting inputs with 10 tries. The default of 60 s would use up a short run.
	(cd "$package" && "$scratch/test" -test.run '^$' -test.fuzz "^$name\$" -test.fuzztime "$time" -test.fuzzminimizetime 10x \
		-test.fuzzcachedir "$(go env GOCACHE)/fuzz/$(go list .)") | tee "$log" || endedLate
done
echo "fuzz: $(wc -w <<<"$targets") targets ran for $time each and found nothing"
