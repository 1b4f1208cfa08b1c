#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes what programs work on: the same bytes on every machine.

    make_data.py KIND SIZE      KIND: json xml sql git
"""

import sys


class Numbers:
    """Numbers that look random, the same in each version of Python."""

    def __init__(self):
        self.state = 12345

    def below(self, limit):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        return (self.state >> 33) % limit

    def words(self, count):
        return " ".join(f"word{self.below(4000)}" for _ in range(count))


def write_json(size, numbers):
    """An array of objects, one a line."""
    def record(number):
        tags = ",".join(f'"tag{numbers.below(50)}"' for _ in range(numbers.below(6)))
        return f'{{"id":{number},"name":"name {numbers.below(size)}","city":"city {numbers.below(90)}",' \
            f'"amount":{numbers.below(10 ** 6) / 100},"tags":[{tags}],' \
            f'"address":{{"street":"{numbers.words(3)}","number":{numbers.below(300)}}}}}'

    print("[" + ",\n".join(map(record, range(size))) + "]")


def write_xml(size, numbers):
    """A catalogue with attributes, text and mixed content."""
    print('<?xml version="1.0"?>\n<catalogue xmlns:x="urn:x">')
    for number in range(size):
        print(f'<item id="i{number}" x:kind="kind{numbers.below(20)}"><name>{numbers.words(3)}</name>'
              f'<price currency="EUR">{numbers.below(10 ** 5) / 100}</price>'
              f'<text>{numbers.words(8)} <em>{numbers.words(2)}</em> &amp; {numbers.words(4)}</text></item>')
    print("</catalogue>")


def write_sql(size, numbers):
    """Tables that are filled, indexed, joined, updated and read."""
    print("""PRAGMA temp_store = memory;
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE purchase (id INTEGER PRIMARY KEY, customer INTEGER, item TEXT, price REAL, note TEXT);
BEGIN;""")
    customers = max(1, size // 20)
    for number in range(customers):
        print(f"INSERT INTO customer VALUES ({number}, 'name {numbers.below(size)}', "
              f"'city {numbers.below(90)}');")
    for number in range(size):
        print(f"INSERT INTO purchase VALUES ({number}, {numbers.below(customers)}, "
              f"'item {numbers.below(500)}', {numbers.below(10 ** 5) / 100}, '{numbers.words(4)}');")
    print("""COMMIT;
CREATE INDEX by_customer ON purchase (customer, price);
CREATE INDEX by_item ON purchase (item);
UPDATE purchase SET note = upper(note) || ' ' || item WHERE price > 500;
SELECT city, count(*), sum(price), group_concat(DISTINCT item) FROM purchase JOIN customer
 ON customer.id = purchase.customer GROUP BY city ORDER BY city;
SELECT name, json_group_array(json_object('item', item, 'price', price)) FROM customer JOIN purchase
 ON customer.id = purchase.customer GROUP BY customer.id ORDER BY name, customer.id;
SELECT json_extract(value, '$.item'), count(*) FROM
 (SELECT json_group_array(json_object('item', item, 'note', note)) AS list FROM purchase), json_each(list)
 GROUP BY 1 ORDER BY 2 DESC, 1;
SELECT substr(note, 1, 9) AS start, count(*) FROM purchase WHERE note LIKE '%word1%' GROUP BY start
 ORDER BY start;
DELETE FROM purchase WHERE id % 3 = 0;
SELECT count(*), sum(length(note)) FROM purchase;""")


def write_git(size, numbers):
    """A history for git fast-import: that many commits, which change a few of 200 files."""
    files = {}
    for commit in range(1, size + 1):
        print(f"commit refs/heads/main\nmark :{commit}\n"
              f"committer Someone <someone@example.com> {1600000000 + 60 * commit} +0000")
        message = f"change {commit}: {numbers.words(6)}\n"
        print(f"data {len(message)}\n{message}")
        for _ in range(1 + numbers.below(3)):
            name = f"folder{numbers.below(20)}/file{numbers.below(10)}.txt"
            lines = files.setdefault(name, [numbers.words(8) for _ in range(150)])
            for _ in range(1 + numbers.below(4)):
                lines[numbers.below(len(lines))] = numbers.words(8)
            lines.insert(numbers.below(len(lines)), numbers.words(5))
            text = "\n".join(lines) + "\n"
            print(f"M 100644 inline {name}\ndata {len(text)}\n{text}")
        print()


WRITERS = {"json": write_json, "xml": write_xml, "sql": write_sql, "git": write_git}


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in WRITERS:
        print(__doc__, file=sys.stderr)
        return 2
    WRITERS[sys.argv[1]](int(sys.argv[2]), Numbers())
    return 0


if __name__ == "__main__":
    sys.exit(main())
