#!/usr/bin/env bash
# sort: 100 MB of generated lines, with four threads, a buffer of 64 MB (so that it
# merges temporary files) and a compressor process, without and with the library.
#	sort.sh LIBRARY WITNESS [LINES]
# Of fewer LINES the buffer is smaller in proportion.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need sort gzip sha256sum

lines=${3:-2200000}
buffer=$((64 * lines / 2200000))M
seq 1 "$lines" | awk '{
	x = ($1 * 2654435761) % 4294967296
	printf "%010.0f %x key%d the line after number %d\n", x, x / 7, x % 1000, $1
}' >"$work/lines"
bytes=$(stat -c %s "$work/lines")
((bytes >= lines * 45)) || fail "only $bytes bytes were generated"

# scenario NAME - two orders: the whole line, and by two fields
scenario() {
	sort --parallel=4 -S "$buffer" -T "$work" "$work/lines" | sha256sum
	sort --parallel=4 -S "$buffer" -T "$work" --compress-program=gzip -k3,3 -k1,1nr "$work/lines" |
		sha256sum
}

scenario >"$work/without.sum"
with_library scenario >"$work/with.sum"
expect_same "$work/without.sum" "$work/with.sum"
[[ $(sort -u "$work/with.sum" | wc -l) == 2 ]] || fail "both orders gave the same output"
expect_used sort
