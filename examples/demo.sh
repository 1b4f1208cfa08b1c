#!/usr/bin/env bash
# Runs a real program on ukmem: CPython, with every object allocated by malloc,
# indexes some megabytes of text, first as it is and then under "ukmem run --stats".
# Shows what it found, what each run took, and the library's table of caches.
#	demo.sh BUILD_DIR [TEXT_FILE]
# Exits 0 if both runs found the same and the second one ran on ukmem, else 1.
set -euo pipefail
export LC_ALL=C PYTHONMALLOC=malloc PYTHONHASHSEED=0

usage() {
	echo "usage: $0 BUILD_DIR [TEXT_FILE]" >&2
	exit 2
}

fail() {
	echo "demo: $*" >&2
	exit 1
}

[[ $# == 1 || $# == 2 ]] || usage
ukmem=$1/tools/ukmem
here=$(dirname "$(realpath "$0")")
python=/usr/bin/python3
[[ -x $ukmem ]] || fail "$ukmem is missing: build first, for example with 'make library'"
[[ -x $python ]] || fail "$python is not installed"
work=$(mktemp -d "${TMPDIR:-/tmp}/ukmem-demo.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Text found on any machine: licences, Python's help and library, headers; up to 8 MB.
default_text() {
	"$python" - <<'PY'
import glob
import os
import sysconfig

python = sysconfig.get_path("stdlib")
places = ["/usr/share/common-licenses/*", f"{python}/pydoc_data/*.py", f"{python}/*.py"]
budget = 8_000_000
for place in places + ["/usr/include/*.h", "/usr/include/linux/*.h"]:
    for path in sorted(glob.glob(place)):
        if os.path.isfile(path) and not os.path.islink(path) and budget > 0:
            with open(path, "rb") as file:
                text = file.read(budget)
            budget -= len(text)
            os.write(1, text)
PY
}

# index NAME COMMAND... - its result in NAME.result, its measures in NAME.measures
index() {
	local name=$1
	shift
	"$@" "$python" "$here/index_text.py" "$text" "$work/$name.result" "$work/$name.measures"
}

if [[ $# == 2 ]]; then
	text=$2
	[[ -r $text ]] || fail "$text cannot be read"
else
	text=$work/text
	default_text >"$text"
fi
echo "Indexing $(($(stat -Lc %s "$text") / 1000)) kB of text with $("$python" --version), twice."

index plain env
index ukmem "$ukmem" run --stats 2>"$work/stats" || {
	cat "$work/stats" >&2
	fail "the run on ukmem failed"
}

echo
echo "What it found on ukmem:"
sed 's/^/  /' "$work/ukmem.result"
echo
echo "What ukmem did meanwhile (ukmem run --stats):"
sed 's/^/  /' "$work/stats"
echo
read -r plain_seconds plain_peak <"$work/plain.measures"
read -r ukmem_seconds ukmem_peak <"$work/ukmem.measures"
printf '%-18s %10s %12s\n' "" "seconds" "peak RSS MB"
printf '%-18s %10s %12s\n' "glibc malloc" "$plain_seconds" "$plain_peak"
printf '%-18s %10s %12s\n' "ukmem" "$ukmem_seconds" "$ukmem_peak"

same=no
if cmp -s "$work/plain.result" "$work/ukmem.result"; then
	same=yes
fi
# Objects served by the size classes; none if the program kept its own malloc.
served=$(awk '$1 ~ /^kmalloc-/ { n += $8 } END { printf "%.0f", n }' "$work/stats")
echo
echo "results identical: $same"
echo "allocations served by ukmem: $served"
[[ $same == yes ]] || fail "the results differ"
((served > 100000)) || fail "the program did not run on ukmem"
