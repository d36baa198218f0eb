# troupe_op_library(<name> <sources>...): a library of ops that programs load at run time
# (<troupe/kernels/op_library.hpp>). It has its own copies of the Troupe code it uses, and exports one function.
function(troupe_op_library name)
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE troupe::graph troupe::devices)
  target_compile_definitions(${name} PRIVATE TROUPE_VERSION="${troupe_VERSION}")
  set(exports ${CMAKE_CURRENT_BINARY_DIR}/${name}_exports.map)
  file(CONFIGURE OUTPUT ${exports} CONTENT "{ global: troupe_op_library; local: *; };\n" @ONLY)
  target_link_options(${name} PRIVATE
    LINKER:--version-script=${exports} LINKER:--as-needed LINKER:--no-undefined LINKER:--gc-sections)
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
endfunction()
