#!/usr/bin/env bash
# CPython under an address-space limit of 200 MB: a script runs into MemoryError,
# catches it, lets go and goes on, three times; without and with the library.
#	python_limit.sh LIBRARY WITNESS
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
python=/usr/bin/python3
[[ -x $python ]] || skip "$python is not installed"
export PYTHONMALLOC=malloc PYTHONHASHSEED=0

cat >"$work/limit.py" <<'PY'
import collections
import json


def fill(size, blocks):
    """Blocks of size bytes until memory is used up; how many there were."""
    try:
        while True:
            blocks.append(bytes(size))
    except MemoryError:
        count = len(blocks)
        del blocks
        return count


for size in (100, 5_000, 200_000):
    first = fill(size, [])
    again = fill(size, [])
    print(size, "filled at least 60 MB:", first * size >= 60_000_000)
    # It grows by an eighth: what has no room for the next step ends a ninth sooner.
    print(size, "in a list as much again:", again >= first * 8 // 10)
    counts = [fill(size, collections.deque()) for _ in range(4)]
    print(size, "as much again:", min(counts) >= counts[0] * 19 // 20)
    table = {str(i): list(range(i % 50)) for i in range(20_000)}
    print(size, "went on:", json.loads(json.dumps(table)) == table)
try:
    bytearray(1 << 40)
except MemoryError:
    print("1 TiB refused")
PY

scenario() {
	ulimit -v 200000
	"$python" "$work/limit.py"
}

(scenario) >"$work/without.txt"
with_library scenario >"$work/with.txt" || fail "exit status $? with the library"
cat "$work/with.txt"
if grep False "$work/with.txt"; then
	fail "the program did not recover"
fi
expect_same "$work/without.txt" "$work/with.txt"
expect_used "$python"
