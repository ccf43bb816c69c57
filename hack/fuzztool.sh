#!/usr/bin/env bash
# fuzztool.sh TOOL ARG...: runs a Go tool, as -toolexec of hack/fuzz.sh. It keeps the compiler from instrumenting large
# libraries that do not read the fuzzed input. The fuzzer transfers the counters of the whole program, as JSON, with each
# interesting input; two thirds of them would belong to these libraries.
set -euo pipefail
skipped='^(net|(vendor|crypto|html|text|google\.golang\.org|k8s\.io/(api|apiextensions-apiserver|client-go|kube-openapi)'
skipped+='|github\.com/(antlr4-go|fxamacker|google/(cel-go|gnostic-models)|json-iterator))(/.*)?)$'

tool=$1
shift
if [ "${tool##*/}" != compile ]; then
	exec "$tool" "$@"
fi
if [ "$*" = -V=full ]; then # part of the key of the build cache
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
