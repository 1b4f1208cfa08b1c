# shellcheck shell=bash
# Shared by the tests of bindings. A test that cannot run here says why and exits with 77.
set -euo pipefail
export LC_ALL=C

work=$(mktemp -d "${TMPDIR:-/tmp}/ukmem-bindings.XXXXXX")
trap 'rm -rf "$work"' EXIT

skip() {
	echo "SKIP: $*"
	exit 77
}

fail() {
	echo "FAIL: $*" >&2
	exit 1
}

# first_of PROGRAM... - the first of these that is installed; nothing if none is
first_of() {
	local program
	for program in "$@"; do
		command -v "$program" && return
	done
	return 0
}
