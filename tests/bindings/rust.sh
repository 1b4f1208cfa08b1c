#!/usr/bin/env bash
# The crates of Rust: tests of modules, programs and documentation, with the library built from
# source; formatting and clippy; no crate needs a later Rust than the two of the project say. A full
# check also runs the tests with that Rust if rustup has it, links the installed library, compiles by
# musl-gcc, and runs the tests on a mock of the library, in Miri where the toolchain has that.
#	rust.sh SOURCE_DIR BUILD_DIR LIBDIR [full]
# BUILD_DIR/bindings/rust keeps what was compiled.
# shellcheck source=common.sh disable=SC2154 # it sets $work
. "$(dirname "$0")/common.sh"
source=$1 build=$2 libdir=$3 full=${4-}

cargo=$(first_of cargo)
[[ $cargo ]] || skip "cargo is not installed"
cd "$source/bindings/rust" || exit
export CARGO_TARGET_DIR=$build/bindings/rust CARGO_TERM_COLOR=never CARGO_NET_RETRY=0
cached=
if command -v ccache >/dev/null; then
	cached="ccache "
	export CC="ccache gcc"
fi
# The crates it depends on: those that are here already, else from the network.
if ! cargo fetch --locked --offline >"$work/fetched" 2>&1 &&
	! timeout 30 cargo fetch --locked >"$work/fetched" 2>&1; then
	skip "cargo cannot fetch cc, pkg-config and allocator-api2: $(tail -1 "$work/fetched")"
fi
options=(--offline --locked --features allocator-api2)

# tests NAME CARGO... - run cargo, and show what it said if it failed
tests() {
	local name=$1
	shift
	"$@" >"$work/said" 2>&1 || fail "$name: $(grep -v ' ok$' "$work/said" | tail -60)"
	awk -v name="$name" '/^test result: ok/ { n += $4 } END { print name ": " (n ? n " passed" : "ok") }' "$work/said"
}

tests "from source" cargo test "${options[@]}"
for tool in fmt clippy; do
	if ! cargo "$tool" --version >/dev/null 2>&1; then
		echo "NOTE: without cargo $tool"
	elif [[ $tool == fmt ]]; then
		cargo fmt --check
	else
		cargo clippy --quiet --all-targets "${options[@]}" -- -D warnings
	fi
done
oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' ukmem/Cargo.toml)
needed=$(cargo metadata --format-version 1 --offline --locked | grep -o '"rust_version":"[^"]*"' |
	cut -d'"' -f4 | sort -V | tail -1)
[[ $needed == "$oldest" ]] || fail "a crate needs Rust $needed, and rust-version is $oldest"
# A program has one cc 1.x for all its crates: an upper bound would exclude the others' needs.
bounded=$(cargo metadata --format-version 1 --no-deps --offline --locked | grep -o '"req":"[^"]*<[^"]*"') || true
[[ ! $bounded ]] || fail "a dependency has an upper bound: $bounded"
RUSTDOCFLAGS='-D warnings' cargo doc --quiet --no-deps "${options[@]}"
packed=$(cd ukmem-sys && cargo package --list --offline --allow-dirty 2>/dev/null | grep -c '^c/src/.*\.c$') || true
((packed > 100)) || fail "a package of ukmem-sys has $packed files of C"
for crate in ukmem ukmem-sys; do
	(cd "$crate" && cargo package --list --offline --allow-dirty 2>/dev/null | grep -qx LICENSE) ||
		fail "a package of $crate has no LICENSE"
done
# The build script of a crate that depends on ukmem-sys is told where the headers are.
mkdir -p "$work/user/src"
cat >"$work/user/Cargo.toml" <<END
[package]
name = "user"
version = "1.0.0"
edition = "2021"
[dependencies]
ukmem-sys = { path = "$PWD/ukmem-sys" }
[features]
system = ["ukmem-sys/system"]
END
cat >"$work/user/build.rs" <<'END'
fn main() {
    let include = std::env::var("DEP_UKMEM_INCLUDE").unwrap();
    assert!(std::path::Path::new(&include).join("ukmem/ukmem.h").is_file(), "{include}");
}
END
touch "$work/user/src/lib.rs"
cp Cargo.lock "$work/user"
user=(cargo check --offline --manifest-path "$work/user/Cargo.toml")
tests "a user of the headers" "${user[@]}"
[[ $full == full ]] || exit 0

# A cargo of that age cannot read the index of crates.io's that is here.
if rustup toolchain list 2>/dev/null | grep -q "^$oldest.0-"; then
	cargo vendor --quiet --offline --locked "$work/vendor" >/dev/null
	CARGO_TARGET_DIR=$work/oldest tests "Rust $oldest" cargo "+$oldest.0" test "${options[@]}" \
		--config 'source.crates-io.replace-with="vendor"' \
		--config "source.vendor.directory=\"$work/vendor\""
else
	echo "NOTE: without Rust $oldest"
fi

cmake --install "$build" --prefix "$work/prefix" >/dev/null
PKG_CONFIG_PATH=$work/prefix/$libdir/pkgconfig LD_LIBRARY_PATH=$work/prefix/$libdir \
	CARGO_TARGET_DIR=$work/system \
	tests "system's library" cargo test --lib --tests "${options[@]}" --features system
PKG_CONFIG_PATH=$work/prefix/$libdir/pkgconfig CARGO_TARGET_DIR=$work/system \
	tests "a user of the system's headers" "${user[@]}" --features system
# musl-gcc sees musl's headers alone.
if command -v musl-gcc >/dev/null; then
	CC=${cached}musl-gcc CARGO_TARGET_DIR=$work/musl tests musl-gcc cargo build -p ukmem-sys --offline --locked
else
	echo "NOTE: without musl-gcc"
fi
RUSTFLAGS='--cfg ukmem_mock' CARGO_TARGET_DIR=$work/mock tests mock cargo test --lib -p ukmem "${options[@]}"
for toolchain in "" +nightly; do
	# shellcheck disable=SC2086 # no toolchain is no word
	if cargo $toolchain miri --version >/dev/null 2>&1; then
		CARGO_TARGET_DIR=$work/miri tests Miri cargo $toolchain miri test --lib -p ukmem "${options[@]}"
		exit 0
	fi
done
echo "NOTE: without Miri: the toolchain does not have it"
