#include "troupe/graph/data/batch_schema.hpp"

#include <set>

#include <troupe/messages/error.hpp>

namespace troupe {

void check_schema(const BatchSchema& schema) {
  if (schema.empty()) invalid_argument("a batch has at least one component");
  std::set<std::string_view> names;
  for (const BatchComponent& component : schema) {
    if (component.name.empty()) invalid_argument("a component of a batch has no name");
    if (!names.insert(component.name).second)
      invalid_argument("a batch has two components '{}': give them different names", component.name);
    if (!component.shape.has_rank())
      invalid_argument("component '{}': the rank of an example must be known", component.name);
  }
}

std::string to_string(const BatchSchema& schema) {
  std::string text;
  for (const BatchComponent& component : schema)
    text += fmt::format("{}{} {}{}{}", text.empty() ? "" : ", ", component.name, name(component.dtype),
                        component.shape.to_string(), component.whole ? " of the batch" : "");
  return text;
}

}  // namespace troupe
