#include "troupe/messages/named_sums.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::size_t kDigits = 16;  // hexadecimal, of a double

[[noreturn]] void bad_line(std::string_view line) {
  fail(Code::data_loss, "named sums: expected 'NAME VALUE ...' with values of {} hexadecimal digits, found '{}'",
       kDigits, line.substr(0, 80));
}

double parse_bits(std::string_view digits, std::string_view line) {
  std::uint64_t bits = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  if (digits.size() != kDigits || error != std::errc() || end != digits.data() + digits.size()) bad_line(line);
  return std::bit_cast<double>(bits);
}

NamedSum parse_line(std::string_view line) {
  const std::string_view name = line.substr(0, line.find(' '));
  if (name.empty()) bad_line(line);
  NamedSum sum{.name = std::string(name), .values = {}};
  for (std::string_view rest = line.substr(name.size()); !rest.empty();) {
    if (rest.front() != ' ') bad_line(line);
    const std::string_view digits = rest.substr(1, rest.find(' ', 1) - 1);
    sum.values.push_back(parse_bits(digits, line));
    rest.remove_prefix(1 + digits.size());
  }
  return sum;
}

}  // namespace

const NamedSum* find(const NamedSums& sums, std::string_view name) {
  const auto found = std::ranges::find(sums, name, &NamedSum::name);
  return found == sums.end() ? nullptr : &*found;
}

bool can_add(const NamedSums& total, const NamedSums& more) {
  return std::ranges::all_of(more, [&](const NamedSum& sum) {
    const NamedSum* before = find(total, sum.name);
    return !before || before->values.size() == sum.values.size();
  });
}

void add(NamedSums& total, const NamedSums& more) {
  for (const NamedSum& sum : more) {
    const auto before = std::ranges::find(total, sum.name, &NamedSum::name);
    if (before == total.end()) {
      total.push_back(sum);
      continue;
    }
    if (before->values.size() != sum.values.size())
      invalid_argument("'{}' has {} sums, unlike earlier ones with {}", sum.name, sum.values.size(),
                       before->values.size());
    for (std::size_t i = 0; i < sum.values.size(); ++i) before->values[i] += sum.values[i];
  }
}

std::string to_string(const NamedSums& sums) {
  std::string text;
  for (const NamedSum& sum : sums) {
    text += sum.name;
    for (const double value : sum.values) text += fmt::format(" {:016x}", std::bit_cast<std::uint64_t>(value));
    text += '\n';
  }
  return text;
}

NamedSums parse_sums(std::string_view text) {
  NamedSums sums;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.size() == text.size() || find(sums, line.substr(0, line.find(' ')))) bad_line(line);
    sums.push_back(parse_line(line));
    text.remove_prefix(line.size() + 1);
  }
  return sums;
}

}  // namespace troupe
