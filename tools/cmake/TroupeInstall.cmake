# `cmake --install`: the programs (component runtime); libraries, headers, a package, so that find_package(troupe)
# defines troupe::actors and the rest, and example programs (component development).
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/troupe)
set(folders messages graph onnx saved_model devices kernels scheduler actors)
list(TRANSFORM folders PREPEND troupe_ OUTPUT_VARIABLE libraries)
list(APPEND libraries troupe_protocol)

install(TARGETS ${libraries} EXPORT troupe-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(EXPORT troupe-targets NAMESPACE troupe:: DESTINATION ${package_dir} COMPONENT development)

include(PublicHeaders)
foreach(header IN LISTS TROUPE_PUBLIC_HEADERS)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe/${folder}
    COMPONENT development)
endforeach()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/apps/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe COMPONENT development)

configure_package_config_file(${PROJECT_SOURCE_DIR}/tools/cmake/troupe-config.cmake.in
  ${PROJECT_BINARY_DIR}/troupe-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/troupe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/troupe-config.cmake
  ${PROJECT_BINARY_DIR}/troupe-config-version.cmake
  ${PROJECT_SOURCE_DIR}/tools/cmake/FindCAF.cmake
  ${PROJECT_SOURCE_DIR}/tools/cmake/FindGOMP.cmake
  ${PROJECT_SOURCE_DIR}/tools/cmake/FindISAL.cmake
  ${PROJECT_SOURCE_DIR}/tools/cmake/FindRE2.cmake
  ${PROJECT_SOURCE_DIR}/tools/cmake/Findhttplib.cmake
  ${PROJECT_SOURCE_DIR}/tools/cmake/Findmicrohttpd.cmake
  ${PROJECT_SOURCE_DIR}/tools/cmake/FindoneDNN.cmake
  ${PROJECT_SOURCE_DIR}/tools/cmake/TroupeOpLibrary.cmake
  DESTINATION ${package_dir} COMPONENT development)
