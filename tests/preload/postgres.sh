#!/usr/bin/env bash
# PostgreSQL: a temporary cluster on a unix socket; joins, sorts, aggregates, JSON and
# parallel workers must give the same without and with the library, and pgbench's
# transactions of eight clients must leave accounts, tellers and branches that add up.
# The server refuses to run as root; then it all runs as the user postgres.
#	postgres.sh LIBRARY WITNESS
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"

bin=$( (find /usr/lib/postgresql/*/bin -maxdepth 0 2>/dev/null || true) | sort -V | tail -1)
PATH=${bin:+$bin:}$PATH
need initdb postgres pgbench psql
((${#work} < 85)) || skip "the path of $work is too long for a socket"
if ((EUID == 0)); then
	need runuser
	id postgres >/dev/null 2>&1 || skip "there is no user postgres to run the server as"
	runuser -u postgres -- test -r "$library" -a -r "$witness" -a -r "$0" ||
		skip "the user postgres may not read $library"
	status=0
	runuser -u postgres -- "$(realpath "$0")" "$library" "$witness" || status=$?
	exit "$status"
fi

server=
stop_server() {
	if [[ $server ]]; then
		kill -INT "$server" 2>/dev/null || true
		wait "$server" || true
	fi
	server=
}
trap 'stop_server; rm -rf "$work"' EXIT

export PGHOST=$work PGUSER=postgres PGDATABASE=postgres

start_server() {
	postgres -D "$work/$1" -k "$work" -h '' -c fsync=off -c shared_buffers=32MB \
		-c max_parallel_workers_per_gather=2 -c min_parallel_table_scan_size=0 \
		-c parallel_setup_cost=0 -c parallel_tuple_cost=0 >"$work/$1.log" 2>&1 &
	server=$!
	within pg_isready -q || fail "the server does not answer: $(tail -5 "$work/$1.log")"
}

queries() {
	cat <<'SQL'
CREATE TABLE item AS SELECT i AS id, i * 7919 % 5003 AS owner, i * 104729::bigint % 99991 AS weight,
	md5(i::text) AS name, repeat('x', i % 300) AS filler FROM generate_series(1, 20000) i;
CREATE UNIQUE INDEX ON item(id);
CREATE INDEX ON item(owner, weight);
CREATE INDEX ON item USING gin(to_tsvector('english', name || ' ' || filler));
ANALYZE item;
SET work_mem = '256kB';
SELECT md5(string_agg(name, ',' ORDER BY weight, id)) FROM item;
SELECT owner % 100, count(*), sum(weight), min(name) FROM item GROUP BY 1 ORDER BY 3, 1;
SELECT a.id, b.id FROM item a JOIN item b ON a.name > b.name AND a.owner = b.owner
	ORDER BY a.weight - b.weight, 1, 2 LIMIT 100;
SET work_mem = '64MB';
SELECT md5(jsonb_agg(to_jsonb(item) ORDER BY id)::text) FROM item WHERE id % 3 = 0;
SELECT id, rank() OVER (PARTITION BY owner % 10 ORDER BY weight, id) AS r FROM item
	ORDER BY r, id LIMIT 100;
SELECT count(*) FROM item WHERE name ~ '^[a-f]+[0-9]{2,5}[a-f].*7$';
DO $$ BEGIN FOR i IN 1..2000 LOOP
	UPDATE item SET filler = filler || i WHERE id = i * 7 % 20000;
	BEGIN PERFORM 1 / (i % 2); EXCEPTION WHEN division_by_zero THEN NULL; END;
END LOOP; END $$;
SELECT md5(string_agg(filler, '' ORDER BY id)) FROM item;
SQL
}

balances() {
	cat <<'SQL'
SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history)
	AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history)
	AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(delta) FROM pgbench_history)
	AND (SELECT count(*) FROM pgbench_history) = 1600;
SQL
}

# The tool looks at the server, and at a session that has just worked.
look_at_a_session() {
	[[ ${LD_PRELOAD-} && ${UKMEM_TOOL-} ]] || return 0
	local session
	psql -X -q -c "SELECT count(*) FROM item a JOIN item b USING (name)" -c "SELECT pg_sleep(60)" \
		>/dev/null 2>&1 &
	for _ in {1..100}; do
		session=$(psql -X -t -A -c "SELECT pid FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'")
		[[ ! $session ]] || break
		sleep 0.1
	done
	look_at "$server"
	look_at "$session"
	psql -X -q -t -c "SELECT pg_terminate_backend($session)" >/dev/null
	wait %% || true
}

# scenario NAME - the results in NAME.txt
scenario() {
	initdb -D "$work/$1" -U postgres -A trust -E UTF8 --no-locale --no-sync >"$work/$1.init"
	start_server "$1"
	queries | psql -X -q -t -A -v ON_ERROR_STOP=1 >"$work/$1.txt"
	pgbench -i -q -s 2 >"$work/$1.bench" 2>&1
	pgbench -n -S -c 8 -j 2 -t 500 >>"$work/$1.bench"
	pgbench -n -c 8 -j 2 -t 200 >>"$work/$1.bench"
	look_at_a_session
	echo "balances: $(balances | psql -X -t -A)" >>"$work/$1.txt"
	psql -X -q -c 'VACUUM FULL ANALYZE'
	stop_server
}

scenario without
with_library scenario with
grep -qx 'balances: t' "$work/with.txt" || fail "the balances do not add up"
expect_same "$work/without.txt" "$work/with.txt"
expect_used postgres pgbench psql initdb
