# Compiler settings and third-party packages.
include(GNUInstallDirs)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# The cache is shared by all clones on a machine: paths below the source directory are made relative to the build
# directory before comparison; the build directory itself is not.
find_program(TROUPE_CCACHE ccache)
if(TROUPE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${TROUPE_CCACHE})
endif()

# A fast linker where one is installed.
include(CheckLinkerFlag)
foreach(linker mold lld)
  check_linker_flag(CXX -fuse-ld=${linker} TROUPE_LINKS_WITH_${linker})
  if(TROUPE_LINKS_WITH_${linker})
    add_link_options(-fuse-ld=${linker})
    break()
  endif()
endforeach()

# g++ spends a ninth of its time on garbage collection; with enough memory it need not collect.
cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY)  # MiB
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR memory_of_a_core "${memory} / ${cores}")
if(memory_of_a_core GREATER 3000)
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000>)  # KiB
endif()

find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Protobuf REQUIRED)
find_package(fmt REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(oneDNN REQUIRED)
find_package(ISAL REQUIRED)
find_package(CURL 7.85 REQUIRED)  # libcurl4-openssl-dev; with protocols by name
find_package(zstd REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(RE2 REQUIRED)
find_package(httplib REQUIRED)
find_package(microhttpd REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(CAF 0.17.6 REQUIRED COMPONENTS core io)

# The plug-in for NVIDIA GPUs (kernels/cuda) is built if the toolkit and cuDNN are installed and new enough; without
# NCCL's header its GPUs exchange tensors through the host.
set(TROUPE_HAS_CUDA OFF)
if(TROUPE_CUDA AND NOT TROUPE_SANITIZE)
  find_package(CUDAToolkit 13.0 QUIET)
  find_package(CUDNN 9 QUIET)
  find_package(NCCL 2.14.3 QUIET)  # the first with non-blocking communicators
  foreach(package CUDAToolkit CUDNN NCCL)
    if(NOT ${package}_FOUND AND ${package}_VERSION)
      message(STATUS "Troupe: ${package} ${${package}_VERSION} is too old and not used; "
        "CUDAToolkit 13.0, CUDNN 9 and NCCL 2.14.3 or newer are needed")
    endif()
  endforeach()
  if(CUDAToolkit_FOUND AND CUDNN_FOUND)
    set(TROUPE_HAS_CUDA ON)
    if(NOT CMAKE_CUDA_COMPILER)
      set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
    endif()
    if(TROUPE_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
    endif()
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 90)  # Hopper
    endif()
    enable_language(CUDA)
    # CMake 3.25 does not know nvcc's option for C++20.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  endif()
endif()
if(TROUPE_HAS_CUDA AND NOT NCCL_FOUND)
  message(STATUS "Troupe: no nccl.h; GPUs of different tasks will exchange tensors through the host")
endif()
message(STATUS "Troupe: CUDA toolkit ${TROUPE_HAS_CUDA}, native ${TROUPE_NATIVE}, sanitizers ${TROUPE_SANITIZE}")

# Flags of our own code only; consumers of the installed package do not inherit them.
add_library(troupe_flags INTERFACE)
# <troupe/...> is the library, as when installed; quoted includes start at the root.
target_include_directories(troupe_flags INTERFACE
  ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include ${PROJECT_BINARY_DIR})
target_compile_definitions(troupe_flags INTERFACE TROUPE_VERSION="${PROJECT_VERSION}")
# -ffp-contract=off: bit-identical results whether or not the compiler vectorises a loop (docs/design/numerics.md).
target_compile_options(troupe_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False positives of g++ 12 for default members of aggregates made with designated initializers.
  target_compile_options(troupe_flags INTERFACE -Wno-maybe-uninitialized)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # An unused `this` captured by an empty pack; loops marked for vectorising or unrolling without benefit.
  target_compile_options(troupe_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-unused-lambda-capture;-Wno-pass-failed>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # To g++, all sources of a batch (TroupeTargets.cmake) are headers.
  target_compile_options(troupe_flags INTERFACE -Wno-subobject-linkage)
endif()
if(TROUPE_NATIVE)
  target_compile_options(troupe_flags INTERFACE -march=native)
endif()
# Where no steps run (graph), optimisation is a third of the compile time and is left out.
set(TROUPE_COLD $<$<CONFIG:Release>:-O1>)
set(TROUPE_WARM $<$<CONFIG:Release>:-O2>)
# Protocols are fully checked, by TROUPE_WATCHED. So are the wire and parsers, by TROUPE_PARSER, which also lets fuzzers
# see what an input reaches. Everything else is checked for heap and static memory only: stack checks make it compile up
# to 1.6 times as long, those for undefined behaviour twice as long.
if(TROUPE_SANITIZE)
  # Unoptimised simulations of the protocols take minutes.
  # Checks are calls: inlining them at each access takes a seventh of the compile time.
  add_compile_options(-fsanitize=address -fno-omit-frame-pointer -O1 -g1)
  add_link_options(-fsanitize=address,undefined)
  # Nor is optimisation worthwhile where nothing is simulated or computed.
  set(TROUPE_COLD -O0)
  set(TROUPE_WARM -O0)
  set(TROUPE_WATCHED -fsanitize=undefined -fno-sanitize-recover=undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(--param=asan-stack=0 --param=asan-instrumentation-with-call-threshold=0)
    list(APPEND TROUPE_WATCHED --param=asan-stack=1)
  else()
    add_compile_definitions(__SANITIZE_ADDRESS__)  # as g++ does
    add_compile_options("SHELL:-mllvm -asan-instrumentation-with-call-threshold=0")
    set(TROUPE_COMPUTED "SHELL:-mllvm -asan-stack=0")  # can be given once
  endif()
endif()
set(TROUPE_PARSER ${TROUPE_WATCHED} $<$<BOOL:${TROUPE_FUZZ}>:-fsanitize=fuzzer-no-link>)
if(TROUPE_SANITIZE_THREADS)
  add_compile_options(-fsanitize=thread -O1 -g1)
  add_link_options(-fsanitize=thread)
  enable_language(C)
  add_library(troupe_clocklock SHARED ${PROJECT_SOURCE_DIR}/tools/sanitizers/clocklock.c)
  link_libraries($<BUILD_INTERFACE:troupe_clocklock>)
endif()

# In the build tree, this link provides <troupe/troupe.hpp>, as when installed.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include)
file(CREATE_LINK ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include/troupe SYMBOLIC)
