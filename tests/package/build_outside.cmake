# cmake -DBUILD=... -DSOURCE=... -DWORK=... -DCOMPILER=... -DFLAGS=... -P build_outside.cmake
# -DPYTHON=... instead of -DBUILD=...: of the package that its pip makes of the source, with UNITY and ARCHITECTURES as in the build beside it.
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

function(build folder)
  # Warnings are errors here too: the public headers must not hand any to those who include them.
  get_filename_component(name ${folder} NAME)
  run(${CMAKE_COMMAND} -G Ninja -S ${folder} -B ${WORK}/${name} -DCMAKE_PREFIX_PATH=${prefix}
      -DCMAKE_CXX_COMPILER=${COMPILER} "-DCMAKE_CXX_FLAGS=${FLAGS} -Wall -Wextra -Werror")
  run(${CMAKE_COMMAND} --build ${WORK}/${name})
endfunction()

file(REMOVE_RECURSE ${WORK})
set(prefix ${WORK}/prefix)
if(PYTHON)
  set(prefix ${WORK}/package/meshwright)
endif()
set(program ${prefix}/bin/meshwright)
set(plugin ${WORK}/template/bin/plugins/intra/cheapest_node.so)

if(PYTHON)
  set(ENV{CXX} ${COMPILER})
  set(ENV{CMAKE_ARGS} "-DCMAKE_UNITY_BUILD=${UNITY} -DCMAKE_CUDA_ARCHITECTURES=${ARCHITECTURES}")
  run(${PYTHON} -m pip install --quiet --disable-pip-version-check --no-deps --target ${WORK}/package ${SOURCE})
  set(ENV{PYTHONPATH} ${WORK}/package)
  run(${PYTHON} -c "import torch, meshwright\nmodel = meshwright.autoparallelize(torch.nn.Linear(8, 4), (torch.ones(2, 8),))\nprint(*model(torch.ones(2, 8)).shape)")
  expect("^2 4\n$")
  run(${PYTHON} -m meshwright plugins list)
else()
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
  run(${program} plugins list)
endif()
expect("matmul")

if(NOT PYTHON)  # that headers and the CMake package are in pip's package too, the op below shows
  build(${SOURCE}/sdk/template)
  run(${program} plugins check ${plugin})
  expect("accepted, intra/cheapest_node")

  set(ENV{MESHWRIGHT_PLUGIN_PATH} ${WORK}/template/bin/plugins)
  run(${program} plugins describe cheapest_node)
  expect("prefer_last = false")
endif()

# A third party's op: its rule is held against the truth, and a model that uses it is planned, run and compared.
build(${SOURCE}/examples/third_party_op)
set(family ${WORK}/third_party_op/bin/plugins/ops/squared_relu.so)
run(${program} plugins check ${family})
expect("accepted, ops/squared_relu.*assignments were executed and compared with one device: all equal")

unset(ENV{MESHWRIGHT_PLUGIN_PATH})
set(plan ${WORK}/plan.json)
set(cluster ${SOURCE}/configs/clusters/a100x8_nvlink_pairs.toml)
run(${program} plan ${SOURCE}/examples/third_party_op/model.pt2 --cluster ${cluster} -o ${plan})
run(${CMAKE_COMMAND} -E cat ${plan})
expect("thirdparty.squared_relu runs replicated: no op family serves it")

set(ENV{MESHWRIGHT_PLUGIN_PATH} ${WORK}/third_party_op/bin/plugins)
run(${program} plan ${SOURCE}/examples/third_party_op/model.pt2 --cluster ${cluster} -o ${plan})
run(${CMAKE_COMMAND} -E cat ${plan})
expect("\"unruled_ops\": \\[\\]")
run(${program} verify ${plan})
expect("8 ranks compute what 1 computes over 3 steps: largest relative error")

# One that depends on the part that a rank has, and its emitter.
build(${SOURCE}/examples/third_party_emitter)
run(${program} plugins check ${WORK}/third_party_emitter/bin/plugins/ops/linear_bias.so)
expect("accepted, ops/linear_bias.*assignments were executed and compared with one device: all equal")
set(ENV{MESHWRIGHT_PLUGIN_PATH} ${WORK}/third_party_emitter/bin/plugins)
run(${program} plan ${SOURCE}/examples/third_party_emitter/model.pt2 --cluster ${cluster} --mesh 2x4 --set "pins.linear_bias=\"d1, d2\"" -o ${plan})
run(${program} verify ${plan})
expect("8 ranks compute what 1 computes over 3 steps: largest relative error")
run(${program} emit ${plan} --backend torch)
expect("rows=positions")
expect("def linear_bias")
