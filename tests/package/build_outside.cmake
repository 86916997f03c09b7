# cmake -DBUILD=... -DTEMPLATE=... -DWORK=... -DCOMPILER=... -DFLAGS=... -P build_outside.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT code EQUAL 0)
    string(JOIN " " command ${ARGN})
    message(FATAL_ERROR "exit code ${code} from: ${command}\n${output}${errors}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect text)
  if(NOT output MATCHES "${text}")
    message(FATAL_ERROR "expected \"${text}\" in:\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
set(prefix ${WORK}/prefix)
set(program ${prefix}/bin/meshwright)
set(plugin ${WORK}/template/bin/plugins/intra/cheapest_node.so)

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
run(${program} plugins list)
expect("matmul")

# Warnings are errors here too: the public headers must not hand any to those who include them.
run(${CMAKE_COMMAND} -G Ninja -S ${TEMPLATE} -B ${WORK}/template -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_CXX_COMPILER=${COMPILER} "-DCMAKE_CXX_FLAGS=${FLAGS} -Wall -Wextra -Werror")
run(${CMAKE_COMMAND} --build ${WORK}/template)
run(${program} plugins check ${plugin})
expect("accepted, intra/cheapest_node")

set(ENV{MESHWRIGHT_PLUGIN_PATH} ${WORK}/template/bin/plugins)
run(${program} plugins describe cheapest_node)
expect("prefer_last = false")
