#!/usr/bin/env bash
# fuzztool.sh TOOL ARG...: runs a tool of Go's, as -toolexec of hack/fuzz.sh. It keeps the compiler from instrumenting large libraries
# that come along and do not read what is fuzzed. With each input that it finds interesting the fuzzer sends the counters of the whole
# program to and fro, as JSON: with those of these libraries, two thirds of all, it does little else.
set -euo pipefail
skipped='^(net|(vendor|crypto|html|text|google\.golang\.org|k8s\.io/(api|apiextensions-apiserver|client-go|kube-openapi)'
skipped+='|github\.com/(antlr4-go|fxamacker|google/(cel-go|gnostic-models)|json-iterator))(/.*)?)$'

tool=$1
shift
if [ "${tool##*/}" != compile ]; then
	exec "$tool" "$@"
fi
if [ "$*" = -V=full ]; then # what go keeps in its cache, it keeps by this
	echo "$("$tool" -V=full) skips $skipped"
	exit
fi
if [[ ${TOOLEXEC_IMPORTPATH:-} =~ $skipped ]]; then
	for arg in "$@"; do
		shift
		[ "$arg" = -d=libfuzzer ] || set -- "$@" "$arg"
	done
fi
exec "$tool" "$@"
