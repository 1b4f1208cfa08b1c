# ukmem_warnings: the warnings every target is built with.
add_library(ukmem_warnings INTERFACE)
target_compile_options(ukmem_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wpointer-arith -Wundef -Wvla -Wwrite-strings
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes -Wconversion -Wno-sign-conversion>
  $<$<BOOL:${UKMEM_WERROR}>:-Werror>)
