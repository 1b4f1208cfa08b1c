#!/usr/bin/env bash
# BIND: a name server, linked to jemalloc, whose mallocx() and sdallocx() the library then serves as well. It answers
# for a zone of 20000 names, is told to read it again, and answers again; the same without and with the library, in
# which the zone must lie.
#	bind.sh LIBRARY WITNESS
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
PATH=$PATH:/usr/sbin
need named dig
trap 'stop_server; rm -rf "$work"' EXIT

NAMES=20000
port=$((20000 + RANDOM % 10000))

cat >"$work/named.conf" <<END
options {
	directory "$work"; pid-file "$work/pid"; session-keyfile "$work/key";
	listen-on port $port { 127.0.0.1; }; listen-on-v6 { none; };
	recursion no; dnssec-validation no;
};
controls { };
zone "example.test" { type primary; file "$work/zone"; };
END
{
	printf "%s\n" '@ 60 SOA ns a 1 60 60 60 60' '@ NS ns' 'ns A 127.0.0.1'
	awk -v n=$NAMES 'BEGIN {
		for (i = 0; i < n; i++)
			printf "h%d A 10.0.%d.%d\nh%d TXT \"%0*d\"\n", i, i / 256, i % 256, i, i % 200 + 1, i
	}'
} >"$work/zone"

server=
stop_server() {
	if [[ $server ]]; then
		kill "$server" 2>/dev/null || true
		wait "$server" || fail "the server ended with $?"
	fi
	server=
}

# ask - every 97th name's address and text
ask() {
	local i
	for ((i = 0; i < NAMES; i += 97)); do
		echo "h$i.example.test A"
		echo "h$i.example.test TXT"
	done >"$work/names"
	dig @127.0.0.1 -p "$port" +short +tries=3 -f "$work/names"
}

answers_or_ended() {
	[[ $(dig @127.0.0.1 -p "$port" +short +tries=1 +time=1 h7.example.test 2>&1) == 10.0.0.7 ]] ||
		! kill -0 "$server" 2>/dev/null
}

scenario() {
	local i figures
	named -f -c "$work/named.conf" 2>"$work/$1.log" &
	server=$!
	within answers_or_ended || fail "named does not answer: $(tail -1 "$work/$1.log")"
	kill -0 "$server" 2>/dev/null || skip "named does not run here: $(tail -1 "$work/$1.log")"
	ask >"$work/$1.txt"
	for ((i = 0; i < 3; i++)); do
		kill -HUP "$server"
		ask >>"$work/$1.txt"
	done
	look_at "$server"
	if [[ $1 == with && ${UKMEM_TOOL-} ]]; then
		figures=$(env -u LD_PRELOAD "$UKMEM_TOOL" gauges "$server") || return 0
		(($(awk '$1 == "allocated" { print $2 }' <<<"$figures") > NAMES * 200)) ||
			fail "the zone lies elsewhere: $figures"
	fi
	stop_server
}

scenario without
with_library scenario with
(($(grep -c '^10\.' "$work/with.txt") > NAMES * 4 / 100)) || fail "there are no addresses"
expect_same "$work/without.txt" "$work/with.txt"
expect_used named dig
