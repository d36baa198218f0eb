#include "troupe/devices/storage/remote/http_listing.hpp"

#include <algorithm>

#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/devices/storage/remote/xml.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

std::vector<DirectoryEntry> parse_http_listing(std::string_view xml) {
  std::vector<DirectoryEntry> out;
  read_xml(xml, [&](std::string_view path, const std::string& text) {
    const bool is_folder = path == "list/directory";
    if (path == "list") return;  // an empty folder
    if (!is_folder && path != "list/file") fail(Code::data_loss, "XML: expected a list of directories and files");
    // Names that lead elsewhere are no entries.
    if (text.empty() || text == "." || text == ".." || text.find('/') != text.npos) return;
    out.push_back({.name = percent_encode(text), .is_directory = is_folder});
  });
  std::ranges::sort(out, {}, &DirectoryEntry::name);
  return out;
}

std::string print_http_listing(std::span<const DirectoryEntry> entries) {
  std::string out = "<?xml version=\"1.0\"?>\n<list>\n";
  for (const DirectoryEntry& entry : entries) {
    const std::string_view element = entry.is_directory ? "directory" : "file";
    out.append("<").append(element).append(">");
    for (const char c : entry.name) {
      if (c == '&')
        out += "&amp;";
      else if (c == '<')
        out += "&lt;";
      else if (c == '>')
        out += "&gt;";
      else
        out += c;
    }
    out.append("</").append(element).append(">\n");
  }
  return out += "</list>\n";
}

}  // namespace troupe
