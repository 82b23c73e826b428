# What the demo and the tests need of a machine, for scripts that are in the root of the repository. Source it.

# need PROGRAM PACKAGES... looks for programs that Go does not bring, and installs the Debian packages of those that are missing.
need() {
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

# need_go wants the version of go.mod. From 1.21 on Go fetches it by itself, unless it was told not to.
need_go() {
	local want have
	want=$(sed -n 's/^go //p' go.mod)
	command -v go >/dev/null || { echo "install Go $want or newer (https://go.dev/doc/install), then run this again" >&2; return 1; }
	have=$(go env GOVERSION) && have=${have#go} && [ "$(printf '%s\n' "$want" "${have%% *}" | sort -V | head -n 1)" = "$want" ] && return
	echo "install Go $want or newer (https://go.dev/doc/install), then run this again; here is $(GOTOOLCHAIN=local go version 2>&1 | head -n 1)" >&2
	return 1
}

# need_clusters is for what runs the playground.
need_clusters() {
	[ "$(uname -s)" = Linux ] || { echo "clusters are made of Linux namespaces: this needs Linux" >&2; return 1; }
	[ "$(id -u)" = 0 ] || { echo "clusters are made of network namespaces, mounts and cgroups: run this as root" >&2; return 1; }
}
