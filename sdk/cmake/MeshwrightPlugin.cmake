# add_plugin(NAME matmul KIND ops SOURCES matmul.cpp [LINK library...] [TESTS matmul_test.cpp...] [TEST_LINK library...]
#            [PRELUDE file...])
#
# Builds the plugin NAME (also its folder, its id and its name in `meshwright plugins list`) from SOURCES as one shared
# library that exports exactly one symbol, and a test program from TESTS. KIND is the plugin's kind (plugin.h). LINK
# names third-party libraries and sdk/lib libraries; they are linked statically where they can be and never exported.
# TEST_LINK names what the tests alone need. PRELUDE names what an emitter brings in the language that it writes: the files'
# texts, one after the other, are kPrelude in the generated "prelude_text.h". The texts in the folder `golden` of an op family are run against its rules
# (sdk/golden); its cases.txt is what `meshwright plugins check` executes.
set(MESHWRIGHT_SDK_CMAKE ${CMAKE_CURRENT_LIST_DIR})
set(MESHWRIGHT_GOLDEN_MAIN ${CMAKE_CURRENT_LIST_DIR}/golden_main.cpp)  # where it is installed
if(NOT EXISTS ${MESHWRIGHT_GOLDEN_MAIN})
  set(MESHWRIGHT_GOLDEN_MAIN ${CMAKE_CURRENT_LIST_DIR}/../golden/golden_main.cpp)
endif()

# meshwright_add_gtests(PROGRAM NAME [SHARDS n] [NIGHTLY pattern...] [PROPERTIES name value...])
#
# The cases of a GoogleTest program as the one test NAME, or as NAME.1 to NAME.n, each a process that loads plugins once and
# runs its share of the cases. NIGHTLY names cases, as --gtest_filter does, that run with MESHWRIGHT_NIGHTLY only. With
# MESHWRIGHT_DISCOVER each case is a test of its own: NAME.SUITE.CASE.
option(MESHWRIGHT_DISCOVER "Register each case of a test program as a test of its own" OFF)
function(meshwright_add_gtests program name)
  cmake_parse_arguments(arg "" "SHARDS" "NIGHTLY;PROPERTIES" ${ARGN})
  if(MESHWRIGHT_NIGHTLY)
    set(arg_NIGHTLY "")
  endif()
  set(filter "*")
  if(arg_NIGHTLY)
    list(JOIN arg_NIGHTLY ":" patterns)
    set(filter "*-${patterns}")
  endif()
  if(MESHWRIGHT_DISCOVER)
    gtest_discover_tests(${program} TEST_PREFIX ${name}. TEST_FILTER "${filter}" PROPERTIES ${arg_PROPERTIES})
    return()
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  foreach(shard RANGE 1 ${arg_SHARDS})
    set(test ${name})
    if(arg_SHARDS GREATER 1)
      set(test ${name}.${shard})
    endif()
    math(EXPR index "${shard} - 1")
    add_test(NAME ${test} COMMAND ${program} --gtest_brief=1 "--gtest_filter=${filter}")
    set_tests_properties(${test} PROPERTIES
      TIMEOUT 1200 ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${index}" ${arg_PROPERTIES})
  endforeach()
endfunction()

function(add_plugin)
  cmake_parse_arguments(arg "" "NAME;KIND" "SOURCES;LINK;TESTS;TEST_LINK;PRELUDE" ${ARGN})
  set(target meshwright_${arg_KIND}_${arg_NAME})
  # The objects are shared by the plugin and its tests, so that they are compiled once.
  add_library(${target}_objects OBJECT ${arg_SOURCES})
  target_include_directories(${target}_objects PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${target}_objects PUBLIC meshwright_kernel ${arg_LINK})
  if(arg_PRELUDE)
    meshwright_embed_prelude(${target}_objects ${arg_PRELUDE})
  endif()
  add_library(${target} MODULE)
  target_link_libraries(${target} PRIVATE ${target}_objects)
  target_link_options(${target} PRIVATE -Wl,-z,defs -Wl,-z,nodelete -Wl,--exclude-libs,ALL
                      -Wl,--version-script=${MESHWRIGHT_SDK_CMAKE}/plugin.map)
  # Said here, not left to the project, so that a plugin outside of this tree is built the same way.
  set_target_properties(${target}_objects PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON CXX_EXTENSIONS OFF)
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME ${arg_NAME} LINK_DEPENDS ${MESHWRIGHT_SDK_CMAKE}/plugin.map
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/plugins/${arg_KIND}
    BUILD_RPATH "$ORIGIN/../.." INSTALL_RPATH "$ORIGIN/../../..")
  install(TARGETS ${target} LIBRARY DESTINATION lib/meshwright/plugins/${arg_KIND})
  set_property(GLOBAL APPEND PROPERTY MESHWRIGHT_PLUGIN_TARGETS ${target})
  # What `meshwright plugins check` executes of an op family goes where the family goes.
  if(arg_KIND STREQUAL "ops" AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/cases.txt)
    configure_file(cases.txt ${CMAKE_BINARY_DIR}/bin/plugins/${arg_KIND}/${arg_NAME}.cases.txt COPYONLY)
    install(FILES cases.txt DESTINATION lib/meshwright/plugins/${arg_KIND} RENAME ${arg_NAME}.cases.txt)
  endif()
  if(arg_TESTS AND BUILD_TESTING)
    find_package(GTest REQUIRED)
    include(GoogleTest)
    add_executable(${target}_test ${arg_TESTS})
    target_link_libraries(${target}_test PRIVATE ${target}_objects ${arg_TEST_LINK} GTest::gtest_main)
    meshwright_add_gtests(${target}_test ${arg_KIND}.${arg_NAME})
  endif()
  if(arg_KIND STREQUAL "ops" AND BUILD_TESTING)
    meshwright_add_goldens(${target} ${arg_NAME})
  endif()
endfunction()

function(meshwright_embed_prelude target)
  set(prelude "")
  foreach(name IN LISTS ARGN)
    get_filename_component(file ${name} ABSOLUTE)
    file(READ ${file} text)
    # A string literal has a limit, which pieces that are joined do not share.
    string(APPEND prelude "R\"PY(${text})PY\"\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endforeach()
  set(generated ${CMAKE_BINARY_DIR}/generated/${target})
  file(CONFIGURE OUTPUT ${generated}/prelude_text.h @ONLY
       CONTENT "#pragma once\n\n#include <string_view>\n\ninline constexpr std::string_view kPrelude =\n${prelude}    ;\n")
  target_include_directories(${target} PRIVATE ${generated})
endfunction()

function(meshwright_add_goldens target name)
  file(GLOB goldens CONFIGURE_DEPENDS golden/*.txt)
  if(NOT goldens)
    return()
  endif()
  if(NOT TARGET meshwright_golden_main)  # the same for all families, so it is compiled once
    add_library(meshwright_golden_main OBJECT ${MESHWRIGHT_GOLDEN_MAIN})
    target_link_libraries(meshwright_golden_main PUBLIC meshwright_kernel)
  endif()
  add_executable(${target}_golden)
  target_link_libraries(${target}_golden PRIVATE meshwright_golden_main ${target}_objects)
  foreach(golden IN LISTS goldens)
    get_filename_component(stem ${golden} NAME_WE)
    add_test(NAME golden.${name}.${stem} COMMAND ${target}_golden ${golden})
  endforeach()
endfunction()
