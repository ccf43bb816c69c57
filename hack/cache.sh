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

# given VARIABLE NAME: if the environment names the program, prints that and ends the script.
given() {
	local program=${!1:-}
	[ -n "$program" ] || return 0
	[ -x "$program" ] || {
		echo "$1 is $program, which is no program; unset it to have $2 found or made" >&2
		exit 1
	}
	echo "$program"
	exit
}

# go_program NAME PACKAGE MODULE HOW-LONG FLAGS... builds a program of the module in this directory, once, and prints its path. MODULE is the one
# whose version is its.
go_program() {
	local name=$1 package=$2 module=$3 long=$4 key out
	shift 4
	flags=("$@")
	key=$(module_key "${flags[@]}" "$(cat ./*.go)")
	make_program() { # make_program DIRECTORY
		local start=$SECONDS
		echo "Building $name $(go list -m -f '{{.Version}}' "$module"). Once; $long on two cores."
		go build "${flags[@]}" -o "$1/$name" "$package"
		echo "  $name built in $((SECONDS - start)) s"
	}
	out=$(in_cache "$name" "$key" make_program)
	echo "$out/$name"
}

# has_apt REMEDY fails where Debian's packages cannot be fetched.
has_apt() {
	local tool
	for tool in apt-get dpkg; do
		command -v "$tool" >/dev/null || {
			echo "There is no $tool to fetch Debian's packages with; $1" >&2
			exit 1
		}
	done
}

# debian_packages DIRECTORY PACKAGE... fetches packages and takes them apart, into DIRECTORY/root. They are not installed: that would start what
# they bring as services of this machine.
debian_packages() {
	local dir=$1 package
	shift
	# Package lists may be missing, or older than what the mirror still has; bringing them up to date takes root.
	download() { (cd "$dir" && apt-get -q -o APT::Sandbox::User=root download "$@" </dev/null); }
	download "$@" || { apt-get update -q </dev/null && download "$@"; }
	for package in "$dir"/*.deb; do
		dpkg -x "$package" "$dir/root"
	done
	rm "$dir"/*.deb
}
