# This module decides what there is to test. UKMEM_CHECK=short leaves out what proves the same in another preset, and
# searches for less long; tests/README.md says what. In a full check all of these are ON but the last.
#   UKMEM_FULL     this is one
#   UKMEM_ONCE     here is what no option of the build changes: an optimised build without sanitizers
#   UKMEM_NORSEQ   here is what ukmem_add_test's NORSEQ asks for: not in ThreadSanitizer's build, which has
#                  no sections, nor in AddressSanitizer's, to which both ways are alike; of storms and
#                  searches only once, too
#   UKMEM_THREADS  here are only tests with several threads: ThreadSanitizer has no more to say
set(UKMEM_CHECK full CACHE STRING "Which tests there are, and how long they search: full or short")
set_property(CACHE UKMEM_CHECK PROPERTY STRINGS full short)
if(NOT UKMEM_CHECK MATCHES "^(full|short)$")
  message(FATAL_ERROR "UKMEM_CHECK is full or short, not '${UKMEM_CHECK}'")
endif()
foreach(name FULL ONCE NORSEQ THREADS)
  set(UKMEM_${name} OFF)
endforeach()
if(UKMEM_CHECK STREQUAL "full")
  set(UKMEM_FULL ON)
endif()
if(UKMEM_FULL OR NOT (UKMEM_SANITIZE OR UKMEM_DEBUG))
  set(UKMEM_ONCE ON)
endif()
if(UKMEM_FULL OR NOT UKMEM_SANITIZE)
  set(UKMEM_NORSEQ ON)
endif()
if(NOT UKMEM_FULL AND UKMEM_SANITIZE STREQUAL "thread")
  set(UKMEM_THREADS ON)
endif()

# ukmem_length(variable full short): the length of a search.
function(ukmem_length variable full short)
  set(${variable} ${short} PARENT_SCOPE)
  if(UKMEM_FULL)
    set(${variable} ${full} PARENT_SCOPE)
  endif()
endfunction()
