# ukmem_warnings: the warnings every target is built with. -Wshadow is for C only: in
# C++ it objects to a struct and a function of one name, as internal headers have them.
add_library(ukmem_warnings INTERFACE)
target_compile_options(ukmem_warnings INTERFACE
  -Wall -Wextra -Wpointer-arith -Wundef -Wvla -Wwrite-strings
  $<$<COMPILE_LANGUAGE:C>:-Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wconversion -Wno-sign-conversion>
  $<$<BOOL:${UKMEM_WERROR}>:-Werror>)
