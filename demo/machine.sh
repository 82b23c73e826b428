# Requirements of the demo and the tests, sourced by scripts whose working directory is the root of the repository.

# require_programs PROGRAM PACKAGES... installs the Debian packages of missing programs.
require_programs() {
	local missing=()
	while [ $# -gt 0 ]; do
		command -v "$1" >/dev/null || missing+=("$2")
		shift 2
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	command -v apt-get >/dev/null || { echo "install ${missing[*]} (the names are Debian's), then run this again" >&2; return 1; }
	[ "$(id -u)" = 0 ] || { echo "as root: apt-get update && apt-get install ${missing[*]}; then run this again" >&2; return 1; }
	echo "installing ${missing[*]}"
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq ${missing[*]} >/dev/null
}

# require_go checks for the Go version of go.mod. Go 1.21 and later downloads it, unless GOTOOLCHAIN forbids that.
require_go() {
	local want current
	want=$(sed -n 's/^go //p' go.mod)
	command -v go >/dev/null || { echo "install Go $want or newer (https://go.dev/doc/install), then run this again" >&2; return 1; }
	current=$(go env GOVERSION) && current=${current#go} && [ "$(printf '%s\n' "$want" "${current%% *}" | sort -V | head -n 1)" = "$want" ] && return
	echo "install Go $want or newer (https://go.dev/doc/install), then run this again; found $(GOTOOLCHAIN=local go version 2>&1 | head -n 1)" >&2
	return 1
}

# require_clusters checks the requirements of the playground.
require_clusters() {
	[ "$(uname -s)" = Linux ] || { echo "clusters consist of Linux namespaces: run this on Linux" >&2; return 1; }
	[ "$(id -u)" = 0 ] || { echo "clusters consist of network namespaces, mounts and cgroups, which need root: run this as root" >&2; return 1; }
}
