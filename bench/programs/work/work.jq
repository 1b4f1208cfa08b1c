# SPDX-License-Identifier: MIT
# Objects grouped, sorted, counted and put together anew.
(group_by(.city) | map({city: .[0].city, count: length, total: (map(.amount) | add),
	tags: (map(.tags[]) | group_by(.) | map({key: .[0], value: length}) | from_entries)})),
(map(select(.address.number > 150) | .name |= ascii_upcase | del(.tags)
	| .address.street |= (split(" ") | sort | join("-"))) | sort_by(.amount, .id)),
(map(tojson) | map(fromjson | .address.number) | add)
