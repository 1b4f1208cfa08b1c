// SPDX-License-Identifier: MIT
//! Builds the library with the options of src/CMakeLists.txt, or finds the system's.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const SHIM: &str = "src/shim.c";

/// The files that CMake compiles: they are listed once.
fn sources(list: &Path) -> Vec<String> {
    let text = fs::read_to_string(list).expect("src/CMakeLists.txt cannot be read");
    let begin = text
        .find("set(UKMEM_SOURCES")
        .expect("src/CMakeLists.txt has no UKMEM_SOURCES");
    let words = &text[begin + "set(UKMEM_SOURCES".len()..];
    let end = words.find(')').expect("UKMEM_SOURCES has no end");
    let files: Vec<String> = words[..end].split_whitespace().map(String::from).collect();
    assert!(files.len() > 50, "UKMEM_SOURCES has {} files", files.len());
    files
}

fn has_kernel_headers(compiler: &cc::Tool, out: &Path) -> bool {
    let probe = out.join("kernel.c");
    fs::write(&probe, "#include <linux/futex.h>\n").unwrap();
    let mut command = compiler.to_command();
    command.arg("-fsyntax-only").arg(probe);
    let status = command.stderr(Stdio::null()).status();
    status.map_or(false, |status| status.success())
}

/// musl-gcc sees musl's headers alone: the kernel's are put behind them, as cmake/musl.cmake does.
fn add_kernel_headers(build: &mut cc::Build) {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    if has_kernel_headers(&build.get_compiler(), &out) {
        return;
    }

    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap();
    let mut places = vec![format!("/usr/include/{}-linux-gnu/asm", arch)];
    if env::var("HOST").unwrap().starts_with(&arch) {
        places.push("/usr/include/asm".to_string());
    }
    let asm = places.iter().find(|place| Path::new(place).is_dir());
    let asm = asm.unwrap_or_else(|| {
        panic!(
            "ukmem needs the kernel's headers (package linux-libc-dev or linux-headers): \
             the compiler does not find <linux/futex.h>, and there is no {}",
            places.join(" and no ")
        )
    });
    let headers = out.join("kernel-headers");
    let _ = fs::remove_dir_all(&headers); // of an earlier run
    fs::create_dir(&headers).unwrap();
    symlink("/usr/include/linux", headers.join("linux")).unwrap();
    symlink("/usr/include/asm-generic", headers.join("asm-generic")).unwrap();
    symlink(asm, headers.join("asm")).unwrap();
    build.flag("-idirafter").flag(headers.to_str().unwrap());
}

fn build_library() {
    let root = Path::new("c");
    let mut build = cc::Build::new();

    build
        .std("gnu11")
        .opt_level(2) // also in debug builds of the program
        .pic(true)
        .warnings(false)
        .define("_GNU_SOURCE", None)
        .define("NDEBUG", None)
        .define(
            "UKMEM_VERSION",
            Some(format!("\"{}\"", env!("CARGO_PKG_VERSION")).as_str()),
        )
        .flag("-fvisibility=hidden")
        .flag("-ftls-model=initial-exec")
        .flag("-fno-builtin-malloc")
        .flag("-fno-builtin-calloc")
        .flag("-fno-builtin-realloc")
        .include(root.join("include"))
        .include(root.join("src"));
    add_kernel_headers(&mut build);
    for file in sources(&root.join("src/CMakeLists.txt")) {
        build.file(root.join("src").join(file));
    }
    build.file(SHIM);
    build.compile("ukmem");
    let package = env::var("CARGO_MANIFEST_DIR").unwrap();
    println!("cargo:include={}/c/include", package);
    println!("cargo:rerun-if-changed=c/src");
    println!("cargo:rerun-if-changed=c/include");
}

#[cfg(feature = "system")]
fn use_system() {
    let library = pkg_config::Config::new()
        .atleast_version("0.2.0")
        .probe("ukmem")
        .expect("feature \"system\": pkg-config does not find ukmem");

    let mut build = cc::Build::new();
    build
        .std("gnu11")
        .opt_level(2)
        .pic(true)
        .define("_GNU_SOURCE", None)
        .includes(&library.include_paths)
        .file(SHIM);
    add_kernel_headers(&mut build);
    build.compile("ukmem_shim");
    let include = pkg_config::get_variable("ukmem", "includedir").unwrap();
    println!("cargo:include={}", include);
}

#[cfg(not(feature = "system"))]
fn use_system() {
    unreachable!("the feature is off");
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", SHIM);
    let os = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let width = env::var("CARGO_CFG_TARGET_POINTER_WIDTH").unwrap_or_default();
    if os != "linux" || width != "64" {
        panic!(
            "ukmem runs on 64-bit Linux, not on {} with {} bits",
            os, width
        );
    }
    if env::var_os("CARGO_FEATURE_SYSTEM").is_some() {
        use_system();
    } else {
        build_library();
    }
}
