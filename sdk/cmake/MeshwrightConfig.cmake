# find_package(Meshwright): the kernel's library and headers, and add_plugin() to build a plugin against them.
include(${CMAKE_CURRENT_LIST_DIR}/MeshwrightTargets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/MeshwrightPlugin.cmake)
