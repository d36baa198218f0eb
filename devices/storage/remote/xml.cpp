#include "troupe/devices/storage/remote/xml.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <utility>
#include <vector>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::size_t kMostDepth = 16;

bool is_xml_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == ':';
}

// UTF-8 of a code point; "" if it is none.
std::string utf8_of(std::uint32_t code) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(value); };
  if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return "";
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xC0 | code >> 6), byte(0x80 | (code & 0x3F))};
  if (code < 0x10000) return {byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 0x3F)), byte(0x80 | (code & 0x3F))};
  return {byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 0x3F)), byte(0x80 | (code >> 6 & 0x3F)),
          byte(0x80 | (code & 0x3F))};
}

class XmlReader {
 public:
  XmlReader(std::string_view xml, FunctionRef<void(std::string_view, const std::string&)> leaf)
      : xml_(xml), leaf_(leaf) {}

  void read() {
    if (xml_.starts_with("<?xml")) {
      const std::size_t end = xml_.find("?>");
      if (end == xml_.npos) expected("?>");
      at_ = end + 2;
    }
    skip_space();
    begin_element();
    while (!open_.empty()) {
      if (!xml_.substr(at_).starts_with('<'))
        take_text();
      else if (xml_.substr(at_).starts_with("</"))
        end_element();
      else
        begin_element();
    }
    skip_space();
    if (at_ != xml_.size()) expected("its end");
  }

 private:
  struct Open {
    std::size_t parent_path;  // its length
    bool has_elements = false;
  };

  [[noreturn]] void expected(std::string_view what) const {
    fail(Code::data_loss, "XML: expected {} at byte {} of {}", what, at_, xml_.size());
  }
  void skip_space() {
    while (at_ < xml_.size() && is_xml_space(xml_[at_])) ++at_;
  }
  void take(std::string_view text) {
    if (!xml_.substr(at_).starts_with(text)) expected(fmt::format("'{}'", text));
    at_ += text.size();
  }
  std::string_view take_name() {
    const std::size_t begin = at_;
    while (at_ < xml_.size() && is_name_byte(xml_[at_])) ++at_;
    if (at_ == begin) expected("a name");
    return xml_.substr(begin, at_ - begin);
  }

  void begin_element() {
    take("<");
    const std::string_view name = take_name();
    if (open_.size() == kMostDepth) expected(fmt::format("at most {} elements in one another", kMostDepth));
    if (!open_.empty()) open_.back().has_elements = true;
    open_.push_back({path_.size()});
    if (!path_.empty()) path_ += '/';
    path_ += name;
    text_.clear();
    skip_space();
    while (at_ < xml_.size() && is_name_byte(xml_[at_])) skip_attribute();
    if (!xml_.substr(at_).starts_with("/>")) return take(">");
    at_ += 2;
    close();
  }
  void skip_attribute() {
    take_name();
    skip_space();
    take("=");
    skip_space();
    const char quote = at_ < xml_.size() ? xml_[at_] : '\0';
    if (quote != '"' && quote != '\'') expected("a quoted value");
    const std::size_t end = xml_.find(quote, at_ + 1);
    if (end == xml_.npos) expected("the value's end");
    at_ = end + 1;
    skip_space();
  }
  void end_element() {
    take("</");
    const std::size_t parent = open_.back().parent_path;
    take(std::string_view(path_).substr(parent == 0 ? 0 : parent + 1));
    skip_space();
    take(">");
    close();
  }
  void close() {
    const Open closed = open_.back();
    if (!closed.has_elements) leaf_(path_, text_);
    open_.pop_back();
    path_.resize(closed.parent_path);
    text_.clear();
  }

  void take_text() {
    while (at_ < xml_.size() && xml_[at_] != '<') {
      if (xml_[at_] == '&')
        take_reference();
      else
        text_ += xml_[at_++];
    }
    if (at_ == xml_.size()) expected("'<'");
  }
  void take_reference() {
    constexpr std::array<std::pair<std::string_view, char>, 5> kNamed = {
        {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}};
    const std::size_t end = xml_.substr(at_, 16).find(';');
    if (end == xml_.npos) expected("a reference, '&' to ';'");
    std::string_view name = xml_.substr(at_ + 1, end - 1);
    for (const auto& [known, c] : kNamed)
      if (name == known) {
        text_ += c;
        at_ += end + 1;
        return;
      }
    if (!name.starts_with('#')) expected("a known reference");
    name.remove_prefix(1);
    const int base = name.starts_with('x') ? 16 : 10;
    if (base == 16) name.remove_prefix(1);
    std::uint32_t code = 0;
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), code, base);
    const std::string bytes = error == std::errc() && stop == name.data() + name.size() ? utf8_of(code) : "";
    if (bytes.empty()) expected("the number of a character");
    text_ += bytes;
    at_ += end + 1;
  }

  const std::string_view xml_;
  const FunctionRef<void(std::string_view, const std::string&)> leaf_;
  std::size_t at_ = 0;
  std::vector<Open> open_;
  std::string path_;  // of the innermost element
  std::string text_;  // since the last tag
};

}  // namespace

void read_xml(std::string_view xml, FunctionRef<void(std::string_view path, const std::string& text)> leaf) {
  XmlReader(xml, leaf).read();
}

}  // namespace troupe
