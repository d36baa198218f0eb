#include "troupe/graph/builder/summary.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <troupe/graph/builder/core.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

// Attributes of the Identity that is a summary.
constexpr const char* kSummaryKind = "_summary";
constexpr const char* kSummaryTag = "_summary_tag";
constexpr const char* kSummaryOutputs = "_summary_max_outputs";

constexpr std::array<std::pair<std::string_view, SummaryKind>, 4> kSummaryKinds = {
    {{"scalar", SummaryKind::scalar},
     {"histogram", SummaryKind::histogram},
     {"image", SummaryKind::image},
     {"text", SummaryKind::text}}};

bool is_number(DType dtype) { return is_floating(dtype) || is_integer(dtype); }

void check_value(SummaryKind kind, const Output& value) {
  const DType dtype = value.dtype();
  const Shape& shape = value.shape();
  const auto refuse = [&](std::string_view wanted) {
    invalid_argument("it must be {}, not {}{}", wanted, name(dtype), shape.to_string());
  };
  switch (kind) {
    case SummaryKind::scalar:
      if (!is_number(dtype) || !shape.has_rank() || !shape.is_scalar()) refuse("a number, such as a mean");
      break;
    case SummaryKind::histogram:
      if (!is_number(dtype)) refuse("numbers");
      break;
    case SummaryKind::image:
      if (dtype != DType::u8 && !is_floating(dtype)) refuse("u8, or floats in [0, 1]");
      if (!shape.has_rank() || shape.rank() != 4 || shape[3] < 1 || shape[3] > 4)
        refuse("[n, height, width, channels] with 1 to 4 channels");
      break;
    case SummaryKind::text:
      if (dtype != DType::string || !shape.has_rank() || !shape.is_scalar()) refuse("one string");
      break;
  }
}

void add_summary(SummaryKind kind, const std::string& tag, const Output& value, int max_outputs = 1) {
  const std::string_view kind_name = kSummaryKinds[static_cast<std::size_t>(kind)].first;
  try {
    if (tag.empty()) invalid_argument("it has no name");
    if (!value.valid()) invalid_argument("its value is not a tensor");
    if (max_outputs < 1) invalid_argument("max_outputs must be at least 1, not {}", max_outputs);
    check_value(kind, value);
    Graph& graph = *value.graph;
    if (graph.around())
      invalid_argument("it is inside of a function of the graph (the body of a loop, a case): make it of the result");
    const Output node = identity(value);
    graph.set_attribute(node.source(), kSummaryKind, std::string(kind_name));
    graph.set_attribute(node.source(), kSummaryTag, graph.current_scope() + tag);
    if (kind == SummaryKind::image) graph.set_attribute(node.source(), kSummaryOutputs, std::int64_t{max_outputs});
  } catch (const Error& error) {
    throw error.within(fmt::format("summary::{} '{}'", kind_name, tag));
  }
}

}  // namespace

std::vector<SummaryOutput> summaries_of(Graph& graph, int first) {
  std::vector<SummaryOutput> out;
  std::set<std::string> tags;
  for (int id = first; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (!node.attributes.has(kSummaryKind)) continue;
    const auto kind = std::ranges::find(kSummaryKinds, node.attributes.string(kSummaryKind),
                                        [](const auto& known) { return known.first; });
    if (kind == kSummaryKinds.end()) continue;
    SummaryOutput found{.kind = kind->second, .tag = node.attributes.string(kSummaryTag), .value = graph.output(node)};
    if (found.kind == SummaryKind::image)
      found.max_outputs = static_cast<int>(node.attributes.integer(kSummaryOutputs));
    const std::string wanted = found.tag;
    for (int number = 1; !tags.insert(found.tag).second; ++number) found.tag = fmt::format("{}_{}", wanted, number);
    out.push_back(std::move(found));
  }
  return out;
}

namespace summary {

void scalar(const std::string& name, Output value) { add_summary(SummaryKind::scalar, name, value); }
void histogram(const std::string& name, Output values) { add_summary(SummaryKind::histogram, name, values); }
void image(const std::string& name, Output images, int max_outputs) {
  add_summary(SummaryKind::image, name, images, max_outputs);
}
void text(const std::string& name, Output text) { add_summary(SummaryKind::text, name, text); }

}  // namespace summary
}  // namespace troupe
