#!/usr/bin/env bash
# Checks what the library shows to the dynamic linker: exactly libc's and jemalloc's allocation functions, the
# C++ operators, three names of its own, dlopen, dlmopen and, where there are critical sections, vfork and clone;
# hardly any thread-local variables (which would exhaust the static TLS block of programs that
# load it late), and libc as the only library it needs.
#	exports.sh LIBRARY WITNESS [debug]
# A debug build has the lock-order checks, which do keep thread-local state, and verifies the
# library at the end.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need nm readelf

# The list by which a Debian package that links the drop-in depends on it.
sed -n 's/^ \(\w*\)@Base .*/\1/p' "$(dirname "$0")/../../debian/libukmem-malloc.symbols" >"$work/expected"

# Where it can be what libc's is to its callers: src/malloc/dlopen.c, vfork.c.
case $(uname -m) in
x86_64 | aarch64) ;;
*) sed -i -e '/^dlm*open$/d' -e /vfork/d -e '/^clone$/d' "$work/expected" ;;
esac
# glibc's dlmopen, and the function by which its pthread_atfork registers handlers.
getconf GNU_LIBC_VERSION >/dev/null 2>&1 || sed -i -e /^dlmopen$/d -e /^__register_atfork$/d "$work/expected"

nm -D --defined-only "$library" | awk '{ print $NF }' | sort >"$work/exported"
expect_same "$work/expected" "$work/exported"
# The dynamic linker binds these for the library, too: the program may have its own.
readelf -rW "$library" | awk '/GLOB_DAT|JUMP_SLOT|JUMP_SLO/ { print $5 }' >"$work/bound"
for name in _Znwm _Znam _ZnwmSt11align_val_t _ZnamSt11align_val_t _ZdlPv _ZdaPv _ZdlPvSt11align_val_t \
	_ZdaPvSt11align_val_t; do
	grep -qx "$name" "$work/bound" || fail "$name is bound to the library's own"
done
# Locks held, forks under way: a few words.
tls=$(readelf -lW "$library" | awk '$1 == "TLS" { print $6 }')
if [[ ${3-} != debug ]] && ((${tls:-0} > 64)); then
	fail "the library has $((tls)) bytes of thread-local variables"
fi
if [[ ${3-} == debug ]] && ! grep -q "structures are not sound" "$library"; then
	fail "the debug build does not verify the library at the end"
fi
if readelf -dW "$library" | grep NEEDED | grep -v -e 'libc\.so' -e 'ld-linux'; then
	fail "the library needs more than libc"
fi
echo "$(wc -l <"$work/exported") names exported"
