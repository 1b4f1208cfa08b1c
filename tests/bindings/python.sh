#!/usr/bin/env bash
# The package of Python: built by pip without network, installed into a fresh environment, and used.
#	python.sh SOURCE_DIR BUILD_DIR
# shellcheck source=common.sh disable=SC2154 # it sets $work
. "$(dirname "$0")/common.sh"
source=$1 build=$2
python=/usr/bin/python3

"$python" -c 'import setuptools, wheel, venv, ensurepip, pip' 2>"$work/missing" ||
	skip "python3-venv, -pip, -setuptools or -wheel is not installed: $(tail -1 "$work/missing")"
unset PYTHONPATH PYTHONHOME PYTHONMALLOC PYTHONDEVMODE PYTHONWARNINGS PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE
unset LD_PRELOAD PIP_FIND_LINKS
export PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONFIG_FILE=/dev/null

# setuptools writes beside setup.py, so it works on a copy that leads back to the sources.
mkdir -p "$work/tree/bindings"
cp -r "$source/bindings/python" "$work/tree/bindings/python"
for name in CMakeLists.txt LICENSE LICENSES.third-party cmake include src tools; do
	ln -s "$source/$name" "$work/tree/$name"
done
UKMEM_BUILD_DIR=$build "$python" -m pip wheel -q --no-build-isolation --no-deps -w "$work/wheels" \
	"$work/tree/bindings/python" >"$work/said" 2>&1 || fail "pip wheel: $(tail -20 "$work/said")"
wheel=$(echo "$work"/wheels/ukmem-*-py3-none-linux_*.whl)
[[ -f $wheel ]] || fail "the wheel is named $(ls "$work/wheels")"
for name in LICENSE LICENSES.third-party; do
	"$python" -m zipfile -l "$wheel" | grep "\.dist-info/.*$name " >/dev/null || fail "the wheel has no $name"
done
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install -q "$wheel"
[[ $("$work/venv/bin/pip" show -v ukmem) == *$'\nLicense: MIT\n'* ]] || fail "pip knows no licence of the package"
# In place it would have neither the library nor the tool.
if "$python" -m pip install -q --no-build-isolation --no-deps --target "$work/in_place" \
	--editable "$work/tree/bindings/python" >"$work/said" 2>&1; then
	fail "pip installed the package in place"
fi
grep -q "ukmem cannot be installed in place" "$work/said" || fail "pip --editable: $(tail -20 "$work/said")"
# Without UKMEM_BUILD_DIR each wheel is of the sources as they are now, also where an earlier build lies.
mkdir "$work/bin"
cat >"$work/bin/cmake" <<END
#!/bin/sh
[ "\$1" = --build ] || exit 0
echo built >>"$work/builds"
mkdir -p "\$2/src/malloc" "\$2/tools"
cp "$build/src/malloc/libukmem-malloc.so" "\$2/src/malloc"
cp "$build/tools/ukmem" "\$2/tools"
END
chmod +x "$work/bin/cmake"
for time in first second; do
	PATH=$work/bin:$PATH "$python" -m pip wheel -q --no-build-isolation --no-deps -w "$work/again" \
		"$work/tree/bindings/python" >"$work/said" 2>&1 || fail "the $time pip wheel: $(tail -20 "$work/said")"
done
(($(wc -l <"$work/builds") == 2)) || fail "the second wheel has what was built for the first"
cd "$work" || exit
export UKMEM_MALLOC_LIB='' UKMEM_CONF=''
python=$work/venv/bin/python

# Elsewhere: a clear error.
"$python" - <<'PY'
import ukmem

assert not ukmem.running()
for function in (ukmem.stats, ukmem.gauges, ukmem.trim):
    try:
        function()
    except ukmem.NotRunning as error:
        assert "python -m ukmem run script.py" in str(error) and ukmem.library() in str(error), error
    else:
        raise SystemExit(f"{function.__name__} did not raise")
PY

cat >script.py <<'PY'
import sys

import ukmem

assert sys.argv[1:] == ["a", "--b"], sys.argv
assert ukmem.running()
assert ukmem.library() in open("/proc/self/maps").read(), "another drop-in"
before = ukmem.gauges()
data = bytearray(b"x") * (8 << 20)
after = ukmem.gauges()
assert after.allocated >= before.allocated + (8 << 20), (before, after)
assert after.allocated <= after.active <= after.mapped, after
del data
assert ukmem.gauges().allocated < before.allocated + (1 << 20)
assert ukmem.trim() >= 8 << 20
stats = ukmem.stats()
assert abs(stats["gauges"]["allocated"] - ukmem.gauges().allocated) < 1 << 20, stats["gauges"]
assert any(cache["cache"] == "kmalloc-64" for cache in stats["caches"]), stats.keys()
print("ran on", stats["percpu"]["mode"])
PY
[[ $("$python" -m ukmem run script.py a --b) == ran* ]] || fail "the script did not run to its end"
(ulimit -f 0 && "$python" -m ukmem run -c 'import ukmem; assert ukmem.stats()["caches"]') ||
	fail "no statistics where no file may be written to"
# Python 3.12 and later start no thread in atexit handlers. An older one does, unless it is kept from it.
cat >at_exit.py <<'PY'
import atexit
import threading

import ukmem


def refuse(thread):
    raise RuntimeError("can't create new thread at interpreter shutdown")


threading.Thread.start = refuse
atexit.register(lambda: print(ukmem.stats()["percpu"]["mode"]))
PY
[[ $("$python" -m ukmem run at_exit.py) ]] || fail "no statistics in an atexit handler"
[[ $(PYTHONMALLOC=malloc "$work/venv/bin/ukmem" run script.py a --b) == ran* ]] || fail "PYTHONMALLOC"
"$python" -m ukmem run --stats script.py a --b 2>&1 | grep -q kmalloc-64 || fail "no statistics at exit"
"$python" -m ukmem run --conf dirty_max:0 -c 'import ukmem; assert ukmem.running()'
echo 'import ukmem; assert ukmem.running()' >module.py
"$python" -m ukmem run -m module
# As Python itself takes them: a value in the same word, and other options in front.
"$python" -m ukmem run -c'import ukmem; assert ukmem.running()' || fail "-c and its code in one word"
"$python" -m ukmem run --conf dirty_max:0 -O -W ignore -c 'import ukmem, sys; assert ukmem.running() and sys.flags.optimize' ||
	fail "options of Python in front of -c"
# The script's Python has the options that the command's has.
"$python" -X dev -W error -uBm ukmem run -c '
import sys
assert sys.flags.dev_mode and "error" in sys.warnoptions and sys.flags.dont_write_bytecode, (sys.flags, sys.warnoptions)
assert sys.stdout.write_through or sys.version_info < (3, 10)
' || fail "a script does not get the options -X dev -W error -uB"
[[ $("$python" -m ukmem run echo other) == other ]] || fail "another program"
version=$(sed -n 's/^project(ukmem VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
[[ $("$python" -m ukmem --version) == "ukmem $version" ]] || fail "the tool is of another version"
[[ $wheel == *"ukmem-$version-"* ]] || fail "the package is of another version than $version"
echo "$(basename "$wheel"), $(stat -c %s "$wheel") bytes"
