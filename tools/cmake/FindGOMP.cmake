# Finds GNU's OpenMP runtime, which oneDNN is linked with: GOMP::gomp, the same for every compiler. Its headers are not
# used (devices/cpu/openmp.hpp), so the library without its development files is sufficient.
find_library(GOMP_LIBRARY NAMES libgomp.so.1 gomp PATHS ${CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES})
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(GOMP REQUIRED_VARS GOMP_LIBRARY)
if(GOMP_FOUND AND NOT TARGET GOMP::gomp)
  add_library(GOMP::gomp UNKNOWN IMPORTED)
  set_target_properties(GOMP::gomp PROPERTIES IMPORTED_LOCATION ${GOMP_LIBRARY})
endif()
mark_as_advanced(GOMP_LIBRARY)
