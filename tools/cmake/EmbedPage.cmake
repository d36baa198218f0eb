# cmake -D PAGE=page.html -D OUTPUT=page.cpp -P EmbedPage.cmake: embeds the page as a string in a C++ source. In the
# page, a line "@{name}" includes the file of that name beside it.
get_filename_component(folder "${PAGE}" DIRECTORY)
file(READ "${PAGE}" page)
string(REGEX MATCHALL "@{[a-z_]+\\.[a-z]+}" places "${page}")
foreach(place IN LISTS places)
  string(REGEX REPLACE "[@{}]" "" name "${place}")
  file(READ "${folder}/${name}" part)
  string(REPLACE "${place}" "${part}" page "${page}")
endforeach()
file(WRITE "${OUTPUT}" "#include \"troupe/actors/introspection/page.hpp\"

namespace troupe {

std::string_view introspection_page() {
  static constexpr std::string_view page = R\"THE_PAGE(${page})THE_PAGE\";
  return page;
}

}  // namespace troupe
")
