#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# scripts/install-deps where the distribution has no clang 14: it names what it leaves out, and ends well. Where
# it has one: it is installed. No package is asked for in truth.
#	deps_test.sh SOURCE_DIR
set -euo pipefail
work=$(mktemp -d "${TMPDIR:-/tmp}/ukmem-deps.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail()
{
	echo "FAILED: $*"
	cat "$work/said" "$work/asked"
	exit 1
}

mkdir "$work/bin"
# All are installed but clang's.
cat >"$work/bin/dpkg-query" <<'END'
#!/bin/sh
for word; do case $word in clang-*) ;; *) echo "installed $word" ;; esac; done
END
cat >"$work/bin/apt-cache" <<'END'
#!/bin/sh
for word; do package=$word; done
case " $ARCHIVE " in *" $package "*) ;; *) exit 100 ;; esac
END
cat >"$work/bin/apt-get" <<'END'
#!/bin/sh
case $1 in install) echo "$*" >>"$ASKED" ;; esac
END
cat >"$work/bin/sudo" <<'END'
#!/bin/sh
[ "$1" != -n ] || shift
exec "$@"
END
chmod +x "$work/bin"/*
export PATH=$work/bin:$PATH ASKED=$work/asked ARCHIVE=

# install_deps ARCHIVE: the set of the linters, where the archive has these packages.
install_deps()
{
	: >"$ASKED"
	ARCHIVE=$1 "$source/scripts/install-deps" lint >"$work/said" 2>&1 || fail "with '$1' it ended with $?"
}

source=$1
install_deps ""
[[ ! -s $ASKED ]] || fail "it asks for packages that there are not"
for package in clang-format-14 clang-tidy-14; do
	grep -q "SKIPPED $package:" "$work/said" || fail "it does not say that $package is left out"
done
install_deps "clang-tidy-14"
grep -q ' clang-tidy-14$' "$ASKED" || fail "it does not ask for clang-tidy-14"
! grep -q clang-format-14 "$ASKED" || fail "it asks for clang-format-14, which there is not"
echo "install-deps: ok"
