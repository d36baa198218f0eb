// The unit in which tools/build_report.py measures the compile cost of sources: the time to compile this file in the
// same build. Uses the standard library only; must never change.
#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>

std::map<std::string, std::vector<double>> build_reference(const std::vector<std::string>& lines) {
  static const std::regex form("([a-z_]+)\\s*=\\s*([-+0-9.e]+)");
  std::map<std::string, std::vector<double>> out;
  std::unordered_map<std::string, std::function<double(double)>> functions{{"half", [](double x) { return x / 2; }},
                                                                           {"twice", [](double x) { return x * 2; }}};
  for (const std::string& line : lines) {
    std::smatch match;
    if (!std::regex_match(line, match, form)) continue;
    const auto function = functions.find(match[1]);
    const double value = std::stod(match[2]);
    out[match[1]].push_back(function == functions.end() ? value : function->second(value));
  }
  std::mt19937_64 engine(1);
  for (auto& [name, values] : out) {
    std::shuffle(values.begin(), values.end(), engine);
    std::ranges::stable_sort(values);
  }
  return out;
}
