# Headers that nearly every source reads, parsed once: the standard library's, and for tests GoogleTest's. None of this tree:
# ccache takes a precompiled header for the same if only comments changed, and g++ then reads a header twice that it knows
# by `#pragma once`. A source still includes what it uses: `make nightly` compiles each by itself and without them, and
# tests/architecture reads the includes themselves. MESHWRIGHT_PRECOMPILE=OFF does without.
set(library_headers <algorithm> <array> <cmath> <cstdint> <functional> <map> <memory> <numeric> <optional> <set> <span> <string>
    <string_view> <tuple> <utility> <variant> <vector>)
set(test_headers <gtest/gtest.h> ${library_headers})

# What tests do themselves takes little time, and compiling it a third less.
set(test_options $<$<CONFIG:Release>:-O1>)

set(precompile OFF)
if(MESHWRIGHT_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(precompile ON)
endif()

# precompile_for(FOLDER): all targets of this folder and of those below it. A test program stays one source at a time under
# CMAKE_UNITY_BUILD, since files of tests call their helpers what their neighbours do; but not the two largest.
function(precompile_for folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    get_target_property(sources ${target} SOURCES)
    if(NOT "${sources}" MATCHES "\\.cpp" OR target MATCHES "^meshwright_(library|test)_headers$")
      continue()
    endif()
    if(type STREQUAL "EXECUTABLE" AND "${libraries}" MATCHES "GTest::")
      target_compile_options(${target} PRIVATE ${test_options})
      if(NOT target MATCHES "^(e2e|programs)_test$")
        set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
      endif()
    endif()
    if(NOT precompile)
      continue()
    endif()
    if(type MATCHES "^(OBJECT|STATIC|SHARED)_LIBRARY$")
      target_precompile_headers(${target} REUSE_FROM meshwright_library_headers)
    elseif(type STREQUAL "EXECUTABLE" AND "${libraries}" MATCHES "GTest::")
      target_precompile_headers(${target} REUSE_FROM meshwright_test_headers)
      # Of a std::string that is precompiled, g++ 12 says that its operator+ copies what is out of bounds (GCC bug 105329).
      target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below IN LISTS folders)
    precompile_for(${below})
  endforeach()
endfunction()

if(precompile)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/headers.cpp CONTENT "")  # written once
  add_library(meshwright_library_headers OBJECT ${CMAKE_BINARY_DIR}/generated/headers.cpp)
  target_precompile_headers(meshwright_library_headers PRIVATE ${library_headers})
endif()
if(precompile AND BUILD_TESTING)
  add_executable(meshwright_test_headers ${CMAKE_BINARY_DIR}/generated/headers.cpp)
  target_link_libraries(meshwright_test_headers PRIVATE GTest::gtest_main)
  target_compile_options(meshwright_test_headers PRIVATE ${test_options})
  target_precompile_headers(meshwright_test_headers PRIVATE ${test_headers})
endif()
precompile_for(${PROJECT_SOURCE_DIR})
