#include "troupe/graph/builder/padding.hpp"

#include <array>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::array<std::pair<std::string_view, Padding>, 4> kPaddings{{{"SAME", Padding::same},
                                                                         {"VALID", Padding::valid},
                                                                         {"SAME_LOWER", Padding::same_lower},
                                                                         {"EXPLICIT", Padding::explicit_pads}}};
constexpr std::array<std::pair<std::string_view, DataFormat>, 2> kFormats{
    {{"channels_last", DataFormat::channels_last}, {"channels_first", DataFormat::channels_first}}};

template <class Table, class Value>
std::string name_of_choice(const Table& table, Value value) {
  for (const auto& [name, entry] : table)
    if (entry == value) return std::string(name);
  return {};
}

template <class Table>
auto parse_choice(std::string_view attribute, const Table& table, std::string_view text) {
  std::string names;
  for (const auto& [name, value] : table) {
    if (text == name) return value;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  invalid_argument("attribute '{}' is '{}', not one of {}", attribute, text, names);
}

}  // namespace

std::string to_string(Padding padding) { return name_of_choice(kPaddings, padding); }
std::string to_string(DataFormat format) { return name_of_choice(kFormats, format); }
Padding parse_padding(std::string_view text) { return parse_choice("padding", kPaddings, text); }
DataFormat parse_data_format(std::string_view text) { return parse_choice("data_format", kFormats, text); }

}  // namespace troupe
