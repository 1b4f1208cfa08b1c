#!/usr/bin/env bash
# Redis: a server is filled with every type, loaded by redis-benchmark from many
# clients, saved by a forked child, and started again from what was saved; replies
# and the digest of all data must be the same without and with the library. Debian's
# server is linked to jemalloc, whose malloc the library then replaces.
#	redis.sh LIBRARY WITNESS
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need redis-server redis-cli redis-benchmark
# A socket's path may have 107 characters.
((${#work} < 90)) || skip "the path of $work is too long for a socket"
trap 'stop_server; rm -rf "$work"' EXIT

server=
stop_server() {
	if [[ $server ]]; then
		kill "$server" 2>/dev/null || true
		wait "$server" || true
	fi
	server=
}

# ask ARGS... - a request to the server of this scenario
ask() {
	redis-cli -s "$work/socket" "$@"
}

answers() {
	[[ $(ask ping 2>/dev/null) == PONG ]]
}

start_server() {
	mkdir -p "$work/$1"
	redis-server --port 0 --unixsocket "$work/socket" --dir "$work/$1" --save '' \
		--enable-debug-command yes --daemonize no >>"$work/$1.log" &
	server=$!
	within answers || fail "the server does not answer: $(tail -5 "$work/$1.log")"
}

# Requests with answers that depend on nothing but the requests.
requests() {
	awk 'BEGIN {
		for (i = 0; i < 2000; i++) {
			text = sprintf("%0*d", i * 7919 % 900 + 1, i)
			print "SET string" i, text
			print "APPEND string" i * 31 % 2000, text
			print "HSET hash" i % 50, "field" i, text
			print "RPUSH list" i % 20, text
			print "ZADD sorted" i % 10, i * 104729 % 9973, "member" i
			print "SADD set" i % 10, i * 31337 % 3001
			print "PFADD log", i
			print "XADD stream" i % 5, i + 1 "-0 field", text
			if (i % 3 == 0)
				print "DEL string" i * 17 % 2000
			if (i % 100 == 99) {
				print "LTRIM list" i % 20, "10 200"
				print "ZRANGE sorted" i % 10, "0 -1 WITHSCORES"
				print "EVAL \"local s = {} for i = 1, 1000 do s[i] = i * 7 end" \
					" return table.concat(s)\" 0"
			}
		}
		print "PFCOUNT log"
		print "SORT set3 LIMIT 0 20"
		print "DEBUG DIGEST"
	}'
}

# scenario NAME - the replies in NAME.txt
scenario() {
	start_server "$1"
	requests | ask >"$work/$1.txt"
	redis-benchmark -s "$work/socket" -q -c 50 -n 10000 -P 16 -r 20000 -d 300 \
		-t set,get,lpush,lpop,sadd,hset,spop,zadd,mset >"$work/$1.bench"
	grep -q 'MSET.*requests per second' "$work/$1.bench" || fail "redis-benchmark failed"
	look_at "$server"
	# Its keys are random.
	ask flushall >>"$work/$1.txt"
	requests | ask >>"$work/$1.txt"
	ask save >>"$work/$1.txt"
	ask bgsave >>"$work/$1.txt"
	while [[ $(ask info persistence) == *rdb_bgsave_in_progress:1* ]]; do sleep 0.1; done
	ask info persistence | grep -o rdb_last_bgsave_status:ok >>"$work/$1.txt" ||
		fail "the forked child could not save"
	stop_server
	start_server "$1"
	ask debug digest >>"$work/$1.txt"
	ask memory doctor >/dev/null
	[[ $1 == without ]] || figures
	stop_server
}

# figure NAME - of INFO memory
figure() {
	ask info memory | tr -d '\r' | sed -n "s/^$1://p"
}

allocates_what_it_uses() {
	local used allocated
	used=$(figure used_memory)
	allocated=$(figure allocator_allocated)
	((allocated >= used * 9 / 10 && allocated <= used * 3 / 2))
}

# has_less_than BYTES - resident, in the allocator's pages
has_less_than() {
	(($(figure allocator_resident) < $1))
}

# What the server tells of its memory is true, and MEMORY PURGE gives it back. Only a server that is linked
# to jemalloc asks the allocator, by mallctl().
figures() {
	[[ $(figure mem_allocator) == jemalloc* ]] || return 0
	within allocates_what_it_uses || fail "what the allocator has is not what the server uses: $(ask info memory)"
	local before
	before=$(figure allocator_resident)
	ask flushall >/dev/null
	[[ $(ask memory purge) == OK ]] || fail "no purge"
	within has_less_than "$before" || fail "$before bytes were resident, and no less after a purge"
	[[ $(ask memory malloc-stats) == *llocated* ]] || fail "no statistics"
}

scenario without
with_library scenario with
[[ $(tail -1 "$work/with.txt") =~ ^[0-9a-f]{40}$ ]] || fail "there is no digest"
expect_same "$work/without.txt" "$work/with.txt"
# The file that a server is started from, a link or not.
expect_used redis-server redis-benchmark
