#!/usr/bin/env bash
# fuzz.sh [TIME]: runs every fuzz target of the module for TIME each (a duration of go test; default 60s), one after another. A finding
# fails the run, and go test leaves it in the package's testdata/fuzz.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=${1:-60s}
targets=$(grep -rhoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' --with-filename internal apis cmd hack | sed 's/:func /:/' | sort)
[ -n "$targets" ] || {
	echo "fuzz: found no target" >&2
	exit 1
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# endedLate tells whether a run failed only because its time was over while a worker was busy, which go test before 1.27 takes for a failure
# of the target now and then (golang/go#75804). A finding is written to a file, and go test says to which.
endedLate() { grep -qx '    context deadline exceeded' "$log" && ! grep -q 'Failing input written' "$log"; }

for target in $targets; do
	package=./$(dirname "${target%%:*}")
	name=${target##*:}
	echo "== fuzz: $name of $package for $time"
	# What makes an input interesting is minimised for 10 tries, else for 60 s, which a short run does not have.
	go test -toolexec "'$PWD/hack/fuzztool.sh'" -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 10x "$package" | tee "$log" || endedLate
done
echo "fuzz: $(wc -w <<<"$targets") targets ran for $time each and found nothing"
