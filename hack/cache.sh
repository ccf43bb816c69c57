# cache.sh is sourced by the scripts that get programs for tests to run.
shopt -s inherit_errexit

# in_cache NAME KEY MAKE prints the directory of the user's cache for KEY. If there is none yet, the function MAKE fills it,
# whose path is MAKE's argument. It has its name only once it is whole: a run that is interrupted leaves a directory with
# another name, which a later run removes.
in_cache() {
	local cache=${XDG_CACHE_HOME:-$HOME/.cache}/catalogd/$1
	local out=$cache/$2
	if [ ! -d "$out" ]; then
		mkdir -p "$cache"
		find "$cache" -maxdepth 1 -name '*.unfinished' -mmin +120 -exec rm -rf {} +
		unfinished=$(mktemp -d "$cache/$2.XXXXXX.unfinished")
		trap 'rm -rf "$unfinished"' EXIT
		"$3" "$unfinished" >&2
		chmod 0755 "$unfinished"
		mv -T "$unfinished" "$out" 2>/dev/null || [ -d "$out" ] # another run may have finished first, with the same
	fi
	echo "$out"
}

# module_key FLAGS... names what is built from the module in this directory: its sums, the flags and the toolchain. So an
# unchanged module is found built, and a changed one never meets old binaries.
module_key() {
	{ cat go.mod go.sum; echo "$@"; go env GOVERSION GOOS GOARCH; } | sha256sum | cut -c1-16
}
