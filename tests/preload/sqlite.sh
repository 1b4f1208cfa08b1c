#!/usr/bin/env bash
# sqlite3: fills tables with ROWS (300 000) rows, indexes, joins, aggregates, deletes,
# vacuums and checks them, without and with the library; output and the dumped
# database must be the same.
#	sqlite.sh LIBRARY WITNESS [ROWS]
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need sqlite3

sed "s/ROWS/${3:-300000}/" >"$work/work.sql" <<'SQL'
PRAGMA page_size=4096;
CREATE TABLE item(id INTEGER PRIMARY KEY, owner INTEGER, weight INTEGER, name TEXT, blob BLOB);
CREATE TABLE owner(id INTEGER PRIMARY KEY, label TEXT);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ROWS)
INSERT INTO item SELECT i, (i * 7919) % 5003, (i * 104729) % 99991,
	printf('item-%08d-%s', (i * 31337) % 300007, hex(i * i)),
	CASE WHEN i % 1000 = 0 THEN zeroblob(i / 10) END FROM n;
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 5002)
INSERT INTO owner SELECT i, 'owner ' || (i * 17 % 101) FROM n;
COMMIT;
CREATE INDEX item_owner ON item(owner, weight);
CREATE UNIQUE INDEX item_name ON item(name, id);
ANALYZE;
SELECT count(*), sum(weight), max(name), total(length(blob)) FROM item;
SELECT o.label, count(*), sum(i.weight), min(i.name) FROM item i JOIN owner o ON o.id = i.owner
	GROUP BY o.label ORDER BY 3 DESC, 1;
SELECT a.id, b.id, a.weight FROM item a JOIN item b ON b.owner = a.owner AND b.weight = a.weight
	AND b.id > a.id ORDER BY 1, 2 LIMIT 500;
SELECT id, weight, rank() OVER (PARTITION BY owner % 10 ORDER BY weight, id) AS r
	FROM item WHERE id < 20000 ORDER BY r, id LIMIT 500;
SELECT group_concat(name, '/') FROM (SELECT name FROM item WHERE owner < 100 ORDER BY name);
UPDATE item SET name = name || '-' || weight WHERE weight % 3 = 0;
DELETE FROM item WHERE owner % 4 = 1;
VACUUM;
PRAGMA integrity_check;
SELECT count(*), sum(length(name)) FROM item;
SQL

# scenario NAME - database NAME.db, all output in NAME.txt
scenario() {
	sqlite3 -batch -bail "$work/$1.db" <"$work/work.sql" >"$work/$1.txt"
	sqlite3 -batch "$work/$1.db" .dump | sha256sum >>"$work/$1.txt"
}

scenario without
with_library scenario with
grep -qx ok "$work/with.txt" || fail "integrity_check did not say ok"
expect_same "$work/without.txt" "$work/with.txt"
expect_used sqlite3
