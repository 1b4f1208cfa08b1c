#!/usr/bin/env bash
# git: builds a repository of some hundred files and commits, merges, clones,
# checks and repacks it, without and with the library; every object of both the
# repository and its clone must be the same.
#	git.sh LIBRARY WITNESS
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need git

export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org

commit_at() {
	export GIT_AUTHOR_DATE="$1 +0000" GIT_COMMITTER_DATE="$1 +0000"
	git add -A
	git commit -q -m "commit $1"
}

# describe REPOSITORY - everything in it that is reachable, by content
describe() {
	git -C "$1" log --all --graph --stat --format='%H %T %an %at %s'
	git -C "$1" rev-list --objects --all | sha256sum
	git -C "$1" cat-file --batch-all-objects --batch | sha256sum
	git -C "$1" fsck --full --strict
}

# scenario DIR - leaves its description in DIR.txt
scenario() {
	local i j now=1000000000
	git init -q -b main "$1"
	cd "$1"
	for i in $(seq 20); do
		mkdir -p "dir$i/deep"
		for j in $(seq 20); do
			seq "$i" "$((i * j))" >"dir$i/deep/file$j"
		done
	done
	for i in $(seq 150); do
		seq "$i" 3 $((i * 20)) >"dir$((i % 20 + 1))/deep/file$((i % 7 + 1))"
		commit_at $((now + i))
	done
	git checkout -q -b side HEAD~50
	seq 100000 >big
	commit_at $((now + 200))
	export GIT_AUTHOR_DATE="$((now + 201)) +0000" GIT_COMMITTER_DATE="$((now + 201)) +0000"
	git checkout -q main
	git merge -q -m merge side
	git tag -a -m one v1
	git clone -q --no-local "$1" "$1.clone"
	git gc -q --aggressive
	{
		git blame --line-porcelain dir5/deep/file1
		git grep -c 77 v1
		describe "$1"
		describe "$1.clone"
	} >"$1.txt"
}

(scenario "$work/without")
with_library scenario "$work/with"
expect_same "$work/without.txt" "$work/with.txt"
expect_used git
