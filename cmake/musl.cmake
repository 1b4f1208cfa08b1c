# A toolchain: Debian's musl-gcc (package musl-tools), which sees musl's headers alone. The kernel's are put
# behind them, as Alpine's package linux-headers has them. There are no libraries of C++ for it, so the
# preset `musl` builds the library and the drop-in. On Alpine itself nothing of this is needed.
set(CMAKE_C_COMPILER musl-gcc)
set(kernel_headers ${CMAKE_BINARY_DIR}/kernel-headers)
file(MAKE_DIRECTORY ${kernel_headers})
find_path(kernel_asm asm/errno.h PATHS /usr/include/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu /usr/include
  REQUIRED NO_CACHE NO_DEFAULT_PATH)
foreach(folder /usr/include/linux /usr/include/asm-generic ${kernel_asm}/asm)
  get_filename_component(name ${folder} NAME)
  file(CREATE_LINK ${folder} ${kernel_headers}/${name} SYMBOLIC)
endforeach()
add_compile_options("$<$<COMPILE_LANGUAGE:C>:SHELL:-idirafter ${kernel_headers}>")
