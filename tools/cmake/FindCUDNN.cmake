# CUDNN::cudnn, beside the CUDA toolkit or in the system's directories; or, with CUDNN_PATH in the environment, in a
# Python package of cuDNN, which has the library under its full name only.
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV CUDNN_PATH PATH_SUFFIXES include)
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9
  HINTS ${CUDAToolkit_LIBRARY_DIR} ENV CUDNN_PATH PATH_SUFFIXES lib lib64)
include(TroupeVersion)
troupe_version_in("${CUDNN_INCLUDE_DIR}/cudnn_version.h" CUDNN CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR VERSION_VAR CUDNN_VERSION)
if(CUDNN_FOUND AND NOT TARGET CUDNN::cudnn)
  add_library(CUDNN::cudnn UNKNOWN IMPORTED)
  set_target_properties(CUDNN::cudnn PROPERTIES
    IMPORTED_LOCATION "${CUDNN_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${CUDNN_INCLUDE_DIR}")
endif()
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)
