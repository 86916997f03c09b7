# cmake -DOUTPUT=FILE -DINCLUDE=DIR -DVERSION=X.Y.Z -P WriteAbiTag.cmake
# Writes the header with MESHWRIGHT_ABI_TAG: kernel version and headers' hash from here, the rest from the compiler; and for
# each kind of plugin the hash of the headers that it sees (plugin_kinds.txt).
# A header that would not change is left alone; FILE.stamp is always renewed.

cmake_minimum_required(VERSION 3.25)

# hash_of(RESULT HEADER...): of the files, without comments.
function(hash_of result)
  set(text "")
  foreach(header IN LISTS ARGN)
    file(READ ${header} content)
    string(REPLACE ";" "\\;" content "${content}")
    string(REGEX REPLACE "/\\*([^*]|\\*[^/])*\\*/" "" content "${content}")
    string(REGEX REPLACE "//[^\n]*" "" content "${content}")
    string(REGEX REPLACE "[ \t\n]+" " " content "${content}")
    string(APPEND text "${content}\n")
  endforeach()
  string(SHA256 hash "${text}")
  string(SUBSTRING ${hash} 0 16 hash)
  set(${result} ${hash} PARENT_SCOPE)
endfunction()

# with_included(RESULT HEADER...): the names, and those of the public headers that they include.
function(with_included result)
  set(open ${ARGN})
  set(found "")
  while(open)
    list(POP_FRONT open name)
    if(name IN_LIST found OR NOT EXISTS ${INCLUDE}/meshwright/${name}.h)
      continue()
    endif()
    list(APPEND found ${name})
    file(STRINGS ${INCLUDE}/meshwright/${name}.h lines REGEX "^#include \"meshwright/")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include \"meshwright/([a-z_]+)\\.h\".*" "\\1" included "${line}")
      list(APPEND open ${included})
    endforeach()
  endwhile()
  list(SORT found)
  set(${result} ${found} PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE headers ${INCLUDE}/*.h)
list(SORT headers)
hash_of(hash ${headers})
set(kinds "")
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/plugin_kinds.txt lines REGEX "^[a-z]+:")
foreach(line IN LISTS lines)
  string(REGEX MATCHALL "[a-z_]+" words "${line}")
  list(POP_FRONT words kind)
  with_included(names ${words})
  list(TRANSFORM names REPLACE "(.+)" "${INCLUDE}/meshwright/\\1.h" OUTPUT_VARIABLE files)
  hash_of(kind_hash ${files})
  string(APPEND kinds "    {\"${kind}\", \"${kind_hash}\"},\n")
endforeach()
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

#include <cstddef>
#include <string_view>

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

namespace meshwright::abi {

// The hash of the headers that plugins of a kind see; plugins of other kinds see all of them.
struct KindHash {
  std::string_view kind, hash;
};
inline constexpr KindHash kKindHashes[] = {
${kinds}};

template <std::size_t size>
struct Letters {
  char data[size];
};

// `text`, which holds MESHWRIGHT_ABI_TAG, with the hash of the kind's headers in it.
template <std::size_t size>
constexpr Letters<size> for_kind(const char (&text)[size], std::string_view kind) {
  Letters<size> made{};
  for (std::size_t i = 0; i < size; ++i) made.data[i] = text[i];
  const std::size_t at = std::string_view(text, size).rfind(\" headers=\") + std::string_view(\" headers=\").size();
  for (const KindHash& known : kKindHashes) {
    for (std::size_t i = 0; known.kind == kind && i < known.hash.size(); ++i) made.data[at + i] = known.hash[i];
  }
  return made;
}

}  // namespace meshwright::abi
")
set(current "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} current)
endif()
if(NOT current STREQUAL written)
  file(WRITE ${OUTPUT} "${written}")
endif()
file(TOUCH ${OUTPUT}.stamp)
