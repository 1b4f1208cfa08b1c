// SPDX-License-Identifier: MIT
//! Builds the library with the options of src/CMakeLists.txt, or finds the system's.

use std::env;
use std::fs;
use std::path::Path;

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
    for file in sources(&root.join("src/CMakeLists.txt")) {
        build.file(root.join("src").join(file));
    }
    build.file(SHIM);
    build.compile("ukmem");
    println!("cargo:rerun-if-changed=c/src");
    println!("cargo:rerun-if-changed=c/include");
}

#[cfg(feature = "system")]
fn use_system() {
    let library = pkg_config::Config::new()
        .atleast_version("0.2.0")
        .probe("ukmem")
        .expect("feature \"system\": pkg-config does not find ukmem");

    cc::Build::new()
        .std("gnu11")
        .opt_level(2)
        .pic(true)
        .define("_GNU_SOURCE", None)
        .includes(&library.include_paths)
        .file(SHIM)
        .compile("ukmem_shim");
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
