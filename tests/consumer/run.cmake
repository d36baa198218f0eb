# Installs the build in TROUPE_BUILD into a new prefix, then configures, builds and runs the consumer and the examples
# against it, one of them on a cluster.
#   cmake -D TROUPE_BUILD=DIR -D CONSUMER=DIR -D GENERATOR=NAME -D CXX=COMPILER -D C=COMPILER -D LAUNCHER=PROGRAM
#     -P run.cmake
set(work ${TROUPE_BUILD}/consumer)
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${result}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(build source)
  run(${CMAKE_COMMAND} -S ${source} -B ${work}/build -G ${GENERATOR} -D CMAKE_PREFIX_PATH=${work}/prefix
    -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -D CMAKE_BUILD_TYPE=Release --fresh)
  run(${CMAKE_COMMAND} --build ${work}/build)
endfunction()

foreach(component development runtime)
  run(${CMAKE_COMMAND} --install ${TROUPE_BUILD} --component ${component} --prefix ${work}/prefix)
endforeach()

build(${CONSUMER})
run(${work}/build/consumer)
if(NOT output MATCHES "a graph of its own.*product has shape \\[1,3\\]")
  message(FATAL_ERROR "the consumer printed:\n${output}")
endif()

# All installed headers together must compile without a warning, using only CMake's declared dependencies.
file(GLOB_RECURSE headers RELATIVE ${work}/prefix/include ${work}/prefix/include/troupe/*)
list(TRANSFORM headers PREPEND "#include <")
list(TRANSFORM headers APPEND ">\n")
list(JOIN headers "" text)
file(WRITE ${work}/headers.cpp "${text}")
separate_arguments(launcher UNIX_COMMAND "${LAUNCHER}")
run(${launcher} ${CXX} -std=c++20 -Wall -Wextra -Wpedantic -Werror -I${work}/prefix/include -c ${work}/headers.cpp
  -o ${work}/headers.o)

# A program in C, by pkg-config.
file(GLOB_RECURSE package ${work}/prefix/*/troupe-c.pc)
cmake_path(GET package PARENT_PATH folder)
set(ENV{PKG_CONFIG_PATH} ${folder})
run(pkg-config --cflags --libs troupe-c)
separate_arguments(flags UNIX_COMMAND "${output}")
cmake_path(GET folder PARENT_PATH libraries)
run(${C} -std=c11 -Wall -Wextra -pedantic -Werror ${CONSUMER}/c_consumer.c ${flags} -Wl,-rpath,${libraries}
  -o ${work}/c_consumer)
run(${work}/c_consumer)
if(NOT output MATCHES "^Troupe [0-9.]+: Relu\\(")
  message(FATAL_ERROR "the program in C printed:\n${output}")
endif()

# The installed examples are such a project too; one is a user program that trains on a cluster.
build(${work}/prefix/share/troupe/examples)
run(${work}/build/example_cluster)
if(NOT output MATCHES "Parameters: [0-9a-f]+\n$")
  message(FATAL_ERROR "the example printed:\n${output}")
endif()
set(alone "${CMAKE_MATCH_0}")
run(${work}/prefix/bin/troupe-launch --ps 2 --workers 2 -- ${work}/build/example_cluster)
string(FIND "${output}" "${alone}" found)
if(found LESS 0)
  message(FATAL_ERROR "without a cluster the example came to ${alone}, and on a cluster it printed:\n${output}")
endif()

# A library of ops, with a project of its own, on a cluster of three processes.
build(${work}/prefix/share/troupe/examples/op_library)
set(program ${work}/build/example_relu_sigmoid)
set(library ${work}/build/librelu_sigmoid.so)
run(${program} --op-library ${library})
if(NOT output MATCHES "^y f32.3. = 0.5 0.62245[0-9]* 0.88079[0-9]*\ndx f32.3. = 0 0.23500[0-9]* 0.10499[0-9]*\n$")
  message(FATAL_ERROR "the example of op libraries printed:\n${output}")
endif()
run(${work}/prefix/bin/troupe-launch --workers 3 -- ${program} --op-library ${library})
if(NOT output MATCHES "y f32.3. = 0.65077[0-9]* 0.65718[0-9]* 0.66973[0-9]*\n")
  message(FATAL_ERROR "on a cluster the example of op libraries printed:\n${output}")
endif()
execute_process(COMMAND ${program} RESULT_VARIABLE result ERROR_VARIABLE output)
if(result EQUAL 0 OR NOT output MATCHES "there is no op 'ReluSigmoid'")
  message(FATAL_ERROR "without its library the example of op libraries printed:\n${output}")
endif()
