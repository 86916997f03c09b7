# cmake -DOUTPUT=FILE -DINCLUDE=DIR -DVERSION=X.Y.Z -P WriteAbiTag.cmake
# Writes the header with MESHWRIGHT_ABI_TAG: kernel version and headers' hash from here, the rest from the compiler.
# A header that would not change is left alone; FILE.stamp is always renewed.
file(GLOB_RECURSE headers ${INCLUDE}/*.h)
list(SORT headers)
set(text "")
foreach(header IN LISTS headers)
  file(READ ${header} content)
  string(REPLACE ";" "\\;" content "${content}")
  string(REGEX REPLACE "/\\*([^*]|\\*[^/])*\\*/" "" content "${content}")
  string(REGEX REPLACE "//[^\n]*" "" content "${content}")
  string(REGEX REPLACE "[ \t\n]+" " " content "${content}")
  string(APPEND text "${content}\n")
endforeach()
string(SHA256 hash "${text}")
string(SUBSTRING ${hash} 0 16 hash)
set(written "// Written by WriteAbiTag.cmake: do not edit.
#pragma once

#define MESHWRIGHT_KERNEL_VERSION \"${VERSION}\"
#define MESHWRIGHT_HEADERS_HASH \"${hash}\"

#define MESHWRIGHT_STRING_(x) #x
#define MESHWRIGHT_STRING(x) MESHWRIGHT_STRING_(x)

#if defined(__clang__)
#define MESHWRIGHT_COMPILER \"clang-\" MESHWRIGHT_STRING(__clang_major__)
#else
#define MESHWRIGHT_COMPILER \"gcc-\" MESHWRIGHT_STRING(__GNUC__)
#endif

#include <cstddef>  // defines the standard library's own macros

#if defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI
#define MESHWRIGHT_STDLIB \"libstdcxx-cxx11\"
#elif defined(__GLIBCXX__)
#define MESHWRIGHT_STDLIB \"libstdcxx-old\"
#else
#define MESHWRIGHT_STDLIB \"other\"
#endif
#if defined(_GLIBCXX_DEBUG)
#define MESHWRIGHT_STDLIB_DEBUG \"on\"
#else
#define MESHWRIGHT_STDLIB_DEBUG \"off\"
#endif
#if defined(__has_feature)  // clang
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#elif __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define MESHWRIGHT_SANITIZER \"address\"
#elif defined(__SANITIZE_THREAD__)
#define MESHWRIGHT_SANITIZER \"thread\"
#else
#define MESHWRIGHT_SANITIZER \"none\"
#endif
#if __cplusplus >= 202302L
#define MESHWRIGHT_STANDARD \"c++23\"
#else
#define MESHWRIGHT_STANDARD \"c++20\"
#endif

#define MESHWRIGHT_ABI_TAG \\
  \"compiler=\" MESHWRIGHT_COMPILER \" standard=\" MESHWRIGHT_STANDARD \" stdlib=\" MESHWRIGHT_STDLIB \\
  \" stdlib_debug=\" MESHWRIGHT_STDLIB_DEBUG \" sanitizer=\" MESHWRIGHT_SANITIZER \" kernel=\" MESHWRIGHT_KERNEL_VERSION \\
  \" headers=\" MESHWRIGHT_HEADERS_HASH
")
set(current "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} current)
endif()
if(NOT current STREQUAL written)
  file(WRITE ${OUTPUT} "${written}")
endif()
file(TOUCH ${OUTPUT}.stamp)
