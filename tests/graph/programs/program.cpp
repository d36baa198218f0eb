#include "tests/graph/programs/program.hpp"

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "tests/graph/programs/evaluate.hpp"
#include "tests/graph/programs/steps.hpp"
#include <troupe/graph/formats/text.hpp>

namespace troupe::testing {
namespace {

constexpr std::string_view kMark = "=== ";
constexpr std::size_t kColumns = 120;
constexpr std::string_view kContinues = "\\\n    ";

std::string without_blank_end(std::string text) {
  const auto last = text.find_last_not_of(" \n\r\t");
  text.erase(last == std::string::npos ? 0 : last + 1);
  return text;
}

// Lines as the text that an expectation is compared with.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) out.push_back(line);
  return out;
}

// The body of an expectation with each continued line in one piece.
std::string joined(std::string_view body) {
  std::string out;
  for (;;) {
    const auto at = body.find(kContinues);
    out += body.substr(0, at);
    if (at == body.npos) return out;
    body.remove_prefix(at + kContinues.size());
  }
}

// Breaks wide lines after a space: the inverse of joined().
std::string broken(const std::string& text) {
  std::string out;
  for (std::string line : lines_of(text)) {
    std::size_t room = kColumns;
    while (line.size() > room) {
      const auto space = line.rfind(' ', room - 2);
      if (space == std::string::npos) break;
      out.append(line, 0, space + 1).append(kContinues);
      line.erase(0, space + 1);
      room = kColumns - (kContinues.size() - 2);
    }
    out += line + "\n";
  }
  return without_blank_end(std::move(out));
}

std::string text_of(const Tensor& tensor) {
  return tensor.to_string(static_cast<int>(std::min<std::int64_t>(tensor.num_elements(), 1 << 20)));
}

// The lines of a section `values`, with the results that the graph has.
std::string evaluated(const Graph& graph, const std::string& body) {
  constexpr std::string_view kFeed = "feed ";
  Values given;
  const auto name_and_rest = [](std::string_view line) {
    const auto equals = line.find(" = ");
    if (equals == line.npos) invalid_argument("'{}': expected NAME = TENSOR", line);
    return std::pair(std::string(line.substr(0, equals)), line.substr(equals + 3));
  };
  const std::vector<std::string> lines = lines_of(body);
  for (const std::string& line : lines)
    if (line.starts_with(kFeed)) {
      const auto [name, tensor] = name_and_rest(std::string_view(line).substr(kFeed.size()));
      given[name] = parse_tensor(tensor);
    }
  const Values values = evaluate(graph, given);
  std::string out;
  for (const std::string& line : lines) {
    if (!line.starts_with(kFeed)) {
      const std::string name = line.substr(0, line.find(" = "));
      const auto value = values.find(name);
      out += name + " = " + (value == values.end() ? "no value" : text_of(value->second)) + "\n";
    } else {
      out += line + "\n";
    }
  }
  return out;
}

std::string counted(const Graph& graph) {
  std::map<std::string, int> counts;
  for (int id = 0; id < graph.size(); ++id) ++counts[graph.node(id).op->name];
  std::string out;
  for (const auto& [op, count] : counts) out += fmt::format("{} {}\n", count, op);
  return out;
}

class Runner {
 public:
  Outcome run(const Program& program) {
    Outcome out{.actual = program};
    for (std::size_t i = 0; i < program.sections.size(); ++i) {
      const Section& section = program.sections[i];
      const auto found = actual(section);
      if (!found) {
        step(section, i + 1 < program.sections.size() && program.sections[i + 1].name == "error");
        continue;
      }
      const std::string text = without_blank_end(*found);
      if (text == joined(section.body)) continue;
      out.actual.sections[i].body = broken(text);
      out.failures += fmt::format("line {}: section '{}' should be\n{}\nbut is\n{}\n", section.line, section.name,
                                  section.body, out.actual.sections[i].body);
    }
    return out;
  }

 private:
  // What an expectation should have said; none for a step.
  std::optional<std::string> actual(const Section& section) {
    if (section.name == "error") return std::exchange(error_, "no error");
    if (section.name == "notes") return std::exchange(state_.notes, "");
    if (section.name == "expect") return to_text(state_.whole());
    if (section.name == "part") return to_text(state_.part(section.options));
    if (section.name == "count") return counted(state_.whole());
    if (section.name == "values") return evaluated(state_.whole(), joined(section.body));
    return std::nullopt;
  }

  void step(const Section& section, bool may_fail) {
    try {
      run_step(section, state_);
    } catch (const Error& error) {
      if (!may_fail) throw error.within(fmt::format("line {}: section '{}'", section.line, section.name));
      error_ = error.to_string();
    }
  }

  State state_;
  std::string error_ = "no error";
};

}  // namespace

Program Program::parse(std::string_view text) {
  Program out;
  int number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    if (line.starts_with(kMark)) {
      const std::string opening = without_blank_end(line.substr(kMark.size()));
      const auto space = opening.find(' ');
      out.sections.push_back({.name = opening.substr(0, space),
                              .options = space == std::string::npos ? "" : opening.substr(space + 1),
                              .line = number});
    } else {
      (out.sections.empty() ? out.comment : out.sections.back().body) += line + "\n";
    }
  }
  if (out.sections.empty()) invalid_argument("the program has no section: expected a line \"=== graph\"");
  out.comment = without_blank_end(out.comment);
  for (Section& section : out.sections) section.body = without_blank_end(section.body);
  return out;
}

std::string Program::to_text() const {
  std::string out = comment + "\n\n";
  for (const Section& section : sections) {
    out += std::string(kMark) + section.name + (section.options.empty() ? "" : " " + section.options) + "\n";
    if (!section.body.empty()) out += section.body + "\n";
  }
  return out;
}

Outcome run(const Program& program) { return Runner().run(program); }

}  // namespace troupe::testing
