# cache.sh is sourced by the scripts that fetch or build programs for tests.
shopt -s inherit_errexit

# in_cache NAME KEY MAKE prints the directory for KEY in the user's cache. If it does not exist, the function MAKE fills
# the directory that it gets as argument. Only a complete directory gets its final name, so an interrupted run does no
# harm. Runs for the same NAME wait for each other, so that parallel ones do not make the same directory twice.
in_cache() {
	local cache=${XDG_CACHE_HOME:-$HOME/.cache}/catalogd/$1
	local out=$cache/$2
	if [ ! -d "$out" ]; then
		mkdir -p "$cache"
		lock "$cache/lock" "$1"
		[ -d "$out" ] || make_in_cache "$cache" "$out" "$3"
		exec 9>&-
	fi
	echo "$out"
}

# lock FILE NAME holds the lock of a file, as descriptor 9. Without flock (macOS), parallel runs do the work twice.
lock() {
	command -v flock >/dev/null || return 0
	exec 9>"$1"
	flock -n 9 && return
	echo "Waiting for another process that fetches or builds $2." >&2
	flock 9
}

make_in_cache() { # make_in_cache CACHE OUT MAKE
	find "$1" -maxdepth 1 -name '*.unfinished' -mmin +120 -exec rm -rf {} +
	unfinished=$(mktemp -d "$2.XXXXXX.unfinished")
	trap 'rm -rf "$unfinished"' EXIT
	"$3" "$unfinished" >&2 9>&- # a child that survives must not keep the lock
	chmod 0755 "$unfinished"
	mv -T "$unfinished" "$2" 2>/dev/null || [ -d "$2" ]
}

# module_key FLAGS... prints a key for what is built from the module in this directory: it changes with the module's
# sums, the flags and the toolchain.
module_key() {
	{ cat go.mod go.sum; echo "$@"; go env GOVERSION GOOS GOARCH; } | sha256sum | cut -c1-16
}

# given VARIABLE NAME: if the environment variable names the program, prints that and ends the script.
given() {
	local program=${!1:-}
	[ -n "$program" ] || return 0
	[ -x "$program" ] || {
		echo "$1 is $program, which is not executable; unset it to use a cached $2" >&2
		exit 1
	}
	echo "$program"
	exit
}

# go_program NAME PACKAGE MODULE DURATION FLAGS... builds a program of the module in this directory, once, and prints its
# path. MODULE is the module whose version the program has.
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
			echo "$tool not found, so Debian's packages cannot be fetched; $1" >&2
			exit 1
		}
	done
}

# debian_packages DIRECTORY PACKAGE... fetches packages and extracts them to DIRECTORY/root. It does not install them, as
# that would start their services on this machine.
debian_packages() {
	local dir=$1 package
	shift
	# The package lists may be missing or stale; `apt-get update` needs root.
	download() { (cd "$dir" && apt-get -q -o APT::Sandbox::User=root download "$@" </dev/null); }
	download "$@" || { apt-get update -q </dev/null && download "$@"; }
	for package in "$dir"/*.deb; do
		dpkg -x "$package" "$dir/root"
	done
	rm "$dir"/*.deb
}
