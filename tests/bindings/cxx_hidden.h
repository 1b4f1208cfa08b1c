/* SPDX-License-Identifier: MIT */
/* The functions of the library of cxx_hidden.cpp. */
#ifndef TESTS_BINDINGS_CXX_HIDDEN_H
#define TESTS_BINDINGS_CXX_HIDDEN_H

#include <memory_resource>

#define SHOWN extern "C" __attribute__((__visibility__("default")))

SHOWN std::pmr::memory_resource *hidden_kmalloc_resource();
SHOWN std::pmr::memory_resource *hidden_resource_of_its_own();

#endif
