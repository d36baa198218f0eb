# Finds GNU libmicrohttpd, whose package has no CMake config file, and GnuTLS, which it uses for TLS.
find_path(MICROHTTPD_INCLUDE_DIR microhttpd.h)
find_library(MICROHTTPD_LIBRARY microhttpd)
find_path(GNUTLS_INCLUDE_DIR gnutls/gnutls.h)
find_library(GNUTLS_LIBRARY gnutls)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(microhttpd
  REQUIRED_VARS MICROHTTPD_LIBRARY MICROHTTPD_INCLUDE_DIR GNUTLS_LIBRARY GNUTLS_INCLUDE_DIR)
if(microhttpd_FOUND AND NOT TARGET microhttpd::microhttpd)
  add_library(microhttpd::microhttpd UNKNOWN IMPORTED)
  set_target_properties(microhttpd::microhttpd PROPERTIES
    IMPORTED_LOCATION ${MICROHTTPD_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES "${MICROHTTPD_INCLUDE_DIR};${GNUTLS_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES ${GNUTLS_LIBRARY})
endif()
mark_as_advanced(MICROHTTPD_INCLUDE_DIR MICROHTTPD_LIBRARY GNUTLS_INCLUDE_DIR GNUTLS_LIBRARY)
