# Builds TARGET in BUILD with OPTIONS, and runs those tests whose names match TESTS, JOBS at once. Skips, saying so, where COMPILER
# can't make or the machine can't run a program with FLAGS.
cmake_minimum_required(VERSION 3.25)

# The thread sanitizer of older compilers knows fewer places where memory may lie than newer Linux kernels use
# ("unexpected memory mapping"): without randomised addresses all is where it expects it.
set(launch "")
find_program(setarch setarch)
if(setarch)
  execute_process(COMMAND ${setarch} -R ${CMAKE_COMMAND} -E true RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(NOT failed)
    set(launch ${setarch} -R)
  endif()
endif()

file(MAKE_DIRECTORY ${BUILD})
file(WRITE ${BUILD}/probe.cpp "#include <thread>\nint main() { std::thread([] {}).join(); }\n")
separate_arguments(flags UNIX_COMMAND "${FLAGS}")
execute_process(COMMAND ${COMPILER} ${flags} -pthread ${BUILD}/probe.cpp -o ${BUILD}/probe
                RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(failed)
  message("sanitizer test skipped: ${COMPILER} does not link with ${FLAGS}:\n${said}")
  return()
endif()
execute_process(COMMAND ${launch} ${BUILD}/probe RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(failed)
  message("sanitizer test skipped: programs built with ${FLAGS} do not run here:\n${said}")
  return()
endif()

# Whatever a sanitizer finds ends the program with an error. Each random test draws a few only.
set(ENV{ASAN_OPTIONS} "detect_leaks=1:detect_stack_use_after_return=1:check_initialization_order=1:strict_init_order=1")
set(ENV{UBSAN_OPTIONS} "print_stacktrace=1")
set(ENV{TSAN_OPTIONS} "second_deadlock_stack=1")
set(ENV{MESHWRIGHT_DRAWS} 2)

function(run what)
  string(TIMESTAMP start %s)
  execute_process(COMMAND ${launch} ${ARGN} WORKING_DIRECTORY ${SOURCE} RESULT_VARIABLE failed)
  string(TIMESTAMP end %s)
  math(EXPR seconds "${end} - ${start}")
  message("${NAME}: ${what} took ${seconds} s")
  if(failed)
    message(FATAL_ERROR "${NAME}: ${what} failed: ${ARGN}")
  endif()
endfunction()

run(configuring ${CMAKE_COMMAND} ${OPTIONS} -S ${SOURCE} -B ${BUILD} -G ${GENERATOR}
    -DCMAKE_CXX_COMPILER=${COMPILER} -DBUILD_TESTING=ON --log-level=WARNING)
run(compiling ${CMAKE_COMMAND} --build ${BUILD} --parallel ${JOBS} --target ${TARGET})
run(testing ${CTEST} --test-dir ${BUILD} --output-on-failure --parallel ${JOBS} --no-tests=error -R ${TESTS})
