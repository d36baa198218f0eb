# Functions that declare libraries, programs and tests.

# troupe_sources(<target> [BATCH n] SOURCES ...): compiles up to n KiB of consecutive sources as one, so that headers
# are read and templates instantiated once for all of them. A batch has one language and the same compile options; a
# source with its own definitions or SKIP_UNITY_BUILD_INCLUSION, and a generated one are compiled alone. So sources of a
# target must not define the same name twice, not even in unnamed namespaces. n is chosen such that no batch takes more
# than 10 seconds. May be called again for the same target.
function(troupe_sources target)
  cmake_parse_arguments(ARG "" "BATCH" "SOURCES" ${ARGN})
  set(most 0)
  if(ARG_BATCH)
    math(EXPR most "1024 * ${ARG_BATCH}")
  endif()
  set(batch)
  set(batch_size 0)
  set(batch_kind)
  get_target_property(number ${target} TROUPE_BATCHES)
  if(NOT number)
    set(number 0)
  endif()
  foreach(source IN LISTS ARG_SOURCES ITEMS "")
    set(kind)  # of the sources in a batch
    set(size 0)
    if(source MATCHES "\\.(cpp|cu)$")
      set(extension ${CMAKE_MATCH_1})
      foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS GENERATED SKIP_UNITY_BUILD_INCLUSION LANGUAGE)
        get_source_file_property(${property} ${source} ${property})
      endforeach()
      if(LANGUAGE STREQUAL CXX)  # sources of the emulated GPU
        set(extension cpp)
      endif()
      if(NOT COMPILE_OPTIONS)
        set(COMPILE_OPTIONS)
      endif()
      if(NOT COMPILE_DEFINITIONS AND NOT GENERATED AND NOT SKIP_UNITY_BUILD_INCLUSION)
        set(kind "${extension}: ${COMPILE_OPTIONS}")
        get_filename_component(path ${source} ABSOLUTE)
        file(SIZE ${path} size)
      endif()
    endif()
    list(LENGTH batch length)
    math(EXPR size "${size} + ${batch_size}")
    # Ends a batch that is full, or that the next source does not fit.
    if("${source}" STREQUAL "" OR (length GREATER 0 AND kind AND (size GREATER most OR NOT kind STREQUAL batch_kind)))
      if(length EQUAL 1)
        target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/${batch})
      elseif(length GREATER 1)
        math(EXPR number "${number} + 1")
        string(REGEX MATCH "^(cpp|cu): (.*)$" unused "${batch_kind}")
        set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}_${number}.${CMAKE_MATCH_1})
        set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${CMAKE_MATCH_2}")
        # Relative to the source root: the text is the same in every clone.
        list(TRANSFORM batch PREPEND "#include \"")
        list(TRANSFORM batch APPEND "\"\n")
        list(JOIN batch "" text)
        file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
        target_sources(${target} PRIVATE ${file})
      endif()
      math(EXPR size "${size} - ${batch_size}")
      set(batch)
    endif()
    if(kind)
      set(batch_size ${size})
      file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${path})
      list(APPEND batch ${path})
      set(batch_kind ${kind})
    elseif(source)
      target_sources(${target} PRIVATE ${source})
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES TROUPE_BATCHES ${number})
endfunction()

# troupe_library(<name> [BATCH n] SOURCES ... LINK ... [PRIVATE_LINK ...] [OPTIONS ...]): the library of a folder, or
# the tested part of a program. Its objects are compiled once, by the target troupe_<name>_objects, and form a static
# library for programs, troupe_<name>, and a shared one for tests, troupe_<name>_shared.
function(troupe_library name)
  cmake_parse_arguments(ARG "" "BATCH" "SOURCES;LINK;PRIVATE_LINK;OPTIONS" ${ARGN})
  add_library(troupe_${name}_objects OBJECT)
  troupe_sources(troupe_${name}_objects BATCH ${ARG_BATCH} SOURCES ${ARG_SOURCES})
  target_link_libraries(troupe_${name}_objects PRIVATE ${ARG_LINK} ${ARG_PRIVATE_LINK} troupe_flags)
  target_compile_options(troupe_${name}_objects PRIVATE ${ARG_OPTIONS})

  add_library(troupe_${name} STATIC $<TARGET_OBJECTS:troupe_${name}_objects>)
  add_library(troupe::${name} ALIAS troupe_${name})
  set_target_properties(troupe_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(troupe_${name} PUBLIC ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK})
  set(libraries troupe_${name})
  if(TROUPE_BUILD_TESTS)
    add_library(troupe_${name}_shared SHARED EXCLUDE_FROM_ALL $<TARGET_OBJECTS:troupe_${name}_objects>)
    list(TRANSFORM ARG_LINK REPLACE "^(troupe_.*)$" "\\1_shared")
    target_link_libraries(troupe_${name}_shared PUBLIC ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK})
    set_target_properties(troupe_${name}_shared PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
    list(APPEND libraries troupe_${name}_shared)
  endif()
  foreach(library IN LISTS libraries)
    target_compile_features(${library} PUBLIC cxx_std_20)
    target_include_directories(${library} PUBLIC
      $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  endforeach()
endfunction()

# troupe_page(<source> PAGE page.html FOLDERS ... HEADER <include> FUNCTION <name>): makes a source with a function that
# returns a web page, with the parts of these folders that it includes (EmbedPage.cmake).
function(troupe_page source)
  cmake_parse_arguments(ARG "" "PAGE;HEADER;FUNCTION" "FOLDERS" ${ARGN})
  set(parts)
  foreach(folder IN LISTS ARG_FOLDERS)
    file(GLOB own CONFIGURE_DEPENDS ${folder}/*.js ${folder}/*.css)
    list(APPEND parts ${own})
  endforeach()
  list(JOIN ARG_FOLDERS "," folders)
  set(embed ${PROJECT_SOURCE_DIR}/tools/cmake/EmbedPage.cmake)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -D PAGE=${ARG_PAGE} -D FOLDERS=${folders} -D HEADER=${ARG_HEADER}
      -D FUNCTION=${ARG_FUNCTION} -D OUTPUT=${source} -P ${embed}
    DEPENDS ${ARG_PAGE} ${parts} ${embed}
    VERBATIM)
endfunction()

# troupe_program(<name> [BATCH n] SOURCES ... LINK ... [OPTIONS ...])
function(troupe_program name)
  cmake_parse_arguments(ARG "" "BATCH" "SOURCES;LINK;OPTIONS" ${ARGN})
  add_executable(${name})
  troupe_sources(${name} BATCH ${ARG_BATCH} SOURCES ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} troupe_flags)
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  set_target_properties(${name} PROPERTIES LINK_DEPENDS_NO_SHARED ON)
endfunction()

# troupe_test(<name> [BATCH n] [LIGHT] [EACH] SOURCES ... LINK ...): the tests of a folder, or of one of its rooms
# (<folder>_<room>; the target test_<folder> builds all rooms), as one program, which runs once per suite; with EACH,
# for tests that take seconds, once per test. LIGHT: the tests compute nothing themselves and are not optimised.
function(troupe_test name)
  cmake_parse_arguments(ARG "LIGHT;EACH" "BATCH" "SOURCES;LINK" ${ARGN})
  troupe_program(test_${name} BATCH ${ARG_BATCH} SOURCES ${ARG_SOURCES} LINK ${ARG_LINK} GTest::gtest_main)
  if(ARG_LIGHT)
    target_compile_options(test_${name} PRIVATE -O0)
  endif()
  string(REGEX REPLACE "_.*" "" folder ${name})
  if(TARGET test_${folder} AND NOT folder STREQUAL name)
    add_dependencies(test_${folder} test_${name})
  endif()
  set(tests ${CMAKE_CURRENT_BINARY_DIR}/test_${name}_tests.cmake)
  add_custom_command(TARGET test_${name} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:test_${name}> -D EACH=${ARG_EACH} -D OUTPUT=${tests}
      -D ENVIRONMENT=${TROUPE_TEST_ENVIRONMENT} -P ${PROJECT_SOURCE_DIR}/tools/cmake/ListTests.cmake
    BYPRODUCTS ${tests} VERBATIM)
  set(include ${CMAKE_CURRENT_BINARY_DIR}/test_${name}_include.cmake)
  file(CONFIGURE OUTPUT ${include} @ONLY CONTENT [[
if(EXISTS "@tests@")
  include("@tests@")
else()
  add_test(test_@name@_is_not_built "test_@name@_is_not_built")
endif()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${include})
endfunction()
