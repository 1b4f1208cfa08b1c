# This module decides what there is to test. UKMEM_CHECK=short leaves out what proves the same in another preset, and
# searches for less long; tests/README.md says what. In a full check all of these are ON but the last.
#   UKMEM_FULL     this is one
#   UKMEM_ONCE     here is what no option of the build changes: an optimised build without sanitizers. The
#                  second runs that ukmem_add_test's NORSEQ asks for are here alone, too, since
#                  ThreadSanitizer's build, which has no sections, tests fallback mode with the assertions
#   UKMEM_UNITS    here are the unit tests, and searches and storms: not in the build that only has the
#                  assertions, since the sanitizers' builds have them, too
#   UKMEM_THREADS  here are only tests with several threads: ThreadSanitizer has no more to say
set(UKMEM_CHECK full CACHE STRING "Which tests there are, and how long they search: full or short")
set_property(CACHE UKMEM_CHECK PROPERTY STRINGS full short)
if(NOT UKMEM_CHECK MATCHES "^(full|short)$")
  message(FATAL_ERROR "UKMEM_CHECK is full or short, not '${UKMEM_CHECK}'")
endif()
foreach(name FULL ONCE UNITS THREADS)
  set(UKMEM_${name} OFF)
endforeach()
if(UKMEM_CHECK STREQUAL "full")
  set(UKMEM_FULL ON)
endif()
if(UKMEM_FULL OR NOT (UKMEM_SANITIZE OR UKMEM_DEBUG))
  set(UKMEM_ONCE ON)
endif()
if(UKMEM_ONCE OR UKMEM_SANITIZE)
  set(UKMEM_UNITS ON)
endif()
if(NOT UKMEM_FULL AND UKMEM_SANITIZE STREQUAL "thread")
  set(UKMEM_THREADS ON)
endif()

# The commit's number chooses what a short check runs in turn. Without git it is 0.
execute_process(COMMAND git rev-parse --short=7 HEAD WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  OUTPUT_VARIABLE UKMEM_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
string(SUBSTRING "${UKMEM_COMMIT}" 0 7 UKMEM_COMMIT)
if(NOT UKMEM_COMMIT MATCHES "^[0-9a-f]+$")
  set(UKMEM_COMMIT 0)
endif()

# ukmem_in_turn(variable n item...): in a short check @n of the items, which the commit's number chooses.
function(ukmem_in_turn variable n)
  set(chosen ${ARGN})
  list(LENGTH chosen count)
  if(NOT UKMEM_FULL AND n LESS count)
    math(EXPR first "0x${UKMEM_COMMIT} % ${count}")
    list(APPEND chosen ${chosen})
    list(SUBLIST chosen ${first} ${n} chosen)
  endif()
  set(${variable} ${chosen} PARENT_SCOPE)
endfunction()

# ukmem_has_turn(variable name n): whether a short check runs what is called @name, as one commit of @n does; names take
# turns by their hash, so that each commit has its part of them.
function(ukmem_has_turn variable name n)
  set(turn 0)
  if(NOT UKMEM_FULL)
    string(MD5 hash "${name}")
    string(SUBSTRING ${hash} 0 7 hash)
    math(EXPR turn "(0x${UKMEM_COMMIT} + 0x${hash}) % ${n}")
  endif()
  if(turn)
    set(${variable} OFF PARENT_SCOPE)
  else()
    set(${variable} ON PARENT_SCOPE)
  endif()
endfunction()

# ukmem_length(variable full short): the length of a search.
function(ukmem_length variable full short)
  set(${variable} ${short} PARENT_SCOPE)
  if(UKMEM_FULL)
    set(${variable} ${full} PARENT_SCOPE)
  endif()
endfunction()
