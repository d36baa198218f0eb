# cmake -D PAGE=page.html -D FOLDERS=a,b -D HEADER=path/page.hpp -D FUNCTION=name -D OUTPUT=page.cpp -P EmbedPage.cmake:
# embeds the page as a string in a C++ source. In the page, a line "@{name}" includes the file of that name, of the
# first folder that has it.
string(REPLACE "," ";" FOLDERS "${FOLDERS}")
file(READ "${PAGE}" page)
string(REGEX MATCHALL "@{[a-z_]+\\.[a-z]+}" places "${page}")
foreach(place IN LISTS places)
  string(REGEX REPLACE "[@{}]" "" name "${place}")
  set(part "")
  foreach(folder IN LISTS FOLDERS)
    if(NOT part AND EXISTS "${folder}/${name}")
      file(READ "${folder}/${name}" part)
    endif()
  endforeach()
  if(NOT part)
    message(FATAL_ERROR "${PAGE} includes ${name}, which none of ${FOLDERS} has")
  endif()
  string(REPLACE "${place}" "${part}" page "${page}")
endforeach()
file(WRITE "${OUTPUT}" "#include \"${HEADER}\"

namespace troupe {

std::string_view ${FUNCTION}() {
  static constexpr std::string_view page = R\"THE_PAGE(${page})THE_PAGE\";
  return page;
}

}  // namespace troupe
")
