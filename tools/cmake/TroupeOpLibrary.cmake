# Libraries that programs open at run time. They have their own copies of the Troupe code they use, and export only the
# functions by which they are opened.
#   troupe_op_library(<name> <sources>...): ops of one's own (<troupe/kernels/op_library.hpp>)
#   troupe_device_library(<name> <sources>...): devices (<troupe/devices/plugin.hpp>)
set_property(GLOBAL PROPERTY TROUPE_VERSION "${troupe_VERSION}")  # of this package, whoever calls the functions

function(_troupe_library name exports)
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE troupe::graph troupe::devices)
  set(map ${CMAKE_CURRENT_BINARY_DIR}/${name}_exports.map)
  file(CONFIGURE OUTPUT ${map} CONTENT "{ global: ${exports}; local: *; };\n" @ONLY)
  target_link_options(${name} PRIVATE LINKER:--version-script=${map} LINKER:--as-needed LINKER:--gc-sections)
  # The program has what sanitizers of clang call.
  if(NOT TROUPE_SANITIZE AND NOT "${CMAKE_CXX_FLAGS}" MATCHES "-fsanitize")
    target_link_options(${name} PRIVATE LINKER:--no-undefined)
  endif()
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
endfunction()

function(troupe_op_library name)
  _troupe_library(${name} troupe_op_library ${ARGN})
  get_property(version GLOBAL PROPERTY TROUPE_VERSION)
  target_compile_definitions(${name} PRIVATE TROUPE_VERSION="${version}")
endfunction()

function(troupe_device_library name)
  _troupe_library(${name} "troupe_plugin_abi; troupe_plugin" ${ARGN})
endfunction()
