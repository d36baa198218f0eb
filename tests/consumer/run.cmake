# Installs the build in TROUPE_BUILD into a new prefix, then configures, builds and runs the consumer against it.
#   cmake -D TROUPE_BUILD=DIR -D CONSUMER=DIR -D GENERATOR=NAME -D CXX=COMPILER -D LAUNCHER=PROGRAM -P run.cmake
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

run(${CMAKE_COMMAND} --install ${TROUPE_BUILD} --component development --prefix ${work}/prefix)
run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${work}/build -G ${GENERATOR} -D CMAKE_PREFIX_PATH=${work}/prefix
  -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -D CMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/consumer)
if(NOT output MATCHES "product has shape \\[1,3\\]")
  message(FATAL_ERROR "the consumer printed:\n${output}")
endif()
