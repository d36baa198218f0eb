// troupe-data stats: what values the components have.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/data/commands.hpp"
#include "tools/data/element_text.hpp"
#include "tools/data/progress.hpp"
#include "tools/data/summary.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::data_tool {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kFrequentShown = 5;

struct ComponentSummary {
  NumberSummary numbers{};
  StringSummary strings{};
};

bool is_whole(DType dtype) { return is_integer(dtype) || dtype == DType::boolean; }

std::string number_text(long double value, DType dtype) {
  if (is_whole(dtype)) return fmt::format("{:.0f}", value);
  return fmt::format("{:.6g}", static_cast<double>(value));
}

ordered_json number_json(long double value, DType dtype) {
  if (!std::isfinite(value)) return nullptr;
  if (!is_whole(dtype)) return static_cast<double>(value);
  if (value < 0) return static_cast<std::int64_t>(value);
  return static_cast<std::uint64_t>(value);
}

void print_numbers(const BatchComponent& c, const NumberSummary& s) {
  if (s.count == s.nans) {
    fmt::print("  {} values{}\n", s.count, s.nans > 0 ? ", all NaN" : "");
    return;
  }
  fmt::print("  {} values: {} to {}, mean {:.6g}, deviation {:.6g}; {} zeros{}{}\n", s.count,
             number_text(s.least, c.dtype), number_text(s.greatest, c.dtype), s.mean, s.deviation(), s.zeros,
             s.nans > 0 ? fmt::format(", {} NaN", s.nans) : "",
             s.infinite > 0 ? fmt::format(", {} infinite", s.infinite) : "");
}

void print_strings(const StringSummary& s) {
  if (s.count == 0) {
    fmt::print("  0 values\n");
    return;
  }
  fmt::print("  {} values of {} to {} bytes, mean {:.1f}; {}{} distinct{}\n", s.count, s.shortest, s.longest,
             static_cast<double>(s.bytes) / static_cast<double>(s.count), s.exact() ? "" : "about ", s.distinct(),
             s.empty > 0 ? fmt::format(", {} empty", s.empty) : "");
  for (const auto& [text, count] : s.most_frequent(kFrequentShown))
    fmt::print("  {:>12} {}\n", fmt::format("{}{}", s.exact() ? "" : "at least ", count), shown_string(text));
}

ordered_json summary_json(const BatchComponent& c, const ComponentSummary& s) {
  ordered_json line = {{"component", c.name}, {"dtype", name(c.dtype)}, {"shape", c.shape.to_string()}};
  if (c.dtype == DType::string) {
    const StringSummary& strings = s.strings;
    ordered_json frequent = ordered_json::array();
    for (const auto& [text, count] : strings.most_frequent(kFrequentShown))
      frequent.push_back({{"value", text}, {"count", count}});
    line.update({{"values", strings.count},
                 {"least_bytes", strings.count == 0 ? 0 : strings.shortest},
                 {"most_bytes", strings.longest},
                 {"bytes", strings.bytes},
                 {"empty", strings.empty},
                 {"distinct", strings.distinct()},
                 {"exact", strings.exact()}});
    line["most_frequent"] = std::move(frequent);
    return line;
  }
  const NumberSummary& n = s.numbers;
  line.update({{"values", n.count},
               {"min", number_json(n.least, c.dtype)},
               {"max", number_json(n.greatest, c.dtype)},
               {"mean", n.mean},
               {"deviation", n.deviation()},
               {"zeros", n.zeros},
               {"nan", n.nans},
               {"infinite", n.infinite}});
  return line;
}

}  // namespace

int stats(FileSystem& files, const std::string& pattern, const Options& options) {
  CountingFiles counted(files);
  const Input input = open_input(counted, pattern, options.input);
  tell_notes(input);
  std::vector<ComponentSummary> summaries(input.schema.size());
  std::uint64_t damaged = 0;
  ProgressBar bar("reading", counted, bytes_of(files, input));
  Walk how;
  how.element = [&](data::Element&& element) {
    for (std::size_t i = 0; i < element.size(); ++i) {
      if (element[i].dtype() != DType::string)
        summaries[i].numbers.add(element[i]);
      else
        for (const std::string& text : element[i].values<std::string>()) summaries[i].strings.add(text);
    }
    bar.update();
    return true;
  };
  if (options.input.skip) how.damage = [&](const Error&) { ++damaged; };
  const Walked walked = walk(counted, input, how);
  bar.clear();
  if (!options.json)
    fmt::print("{}: {} elements{}\n", pattern, walked.elements,
               damaged > 0 ? fmt::format(", {} damaged ones left out", damaged) : "");
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    const BatchComponent& component = input.schema[i];
    if (options.json) {
      fmt::print("{}\n",
                 summary_json(component, summaries[i]).dump(-1, ' ', false, ordered_json::error_handler_t::replace));
      continue;
    }
    fmt::print("{} {}{}\n", component.name, name(component.dtype), component.shape.to_string());
    if (component.dtype == DType::string)
      print_strings(summaries[i].strings);
    else
      print_numbers(component, summaries[i].numbers);
  }
  return 0;
}

}  // namespace troupe::data_tool
