#include "troupe/graph/data/component_function.hpp"

#include <algorithm>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe::data {
namespace {

std::size_t component_of(const BatchSchema& elements, const std::string& name) {
  const auto found = std::ranges::find(elements, name, &BatchComponent::name);
  if (found == elements.end())
    invalid_argument("there is no component '{}': the elements are {}", name, to_string(elements));
  return static_cast<std::size_t>(found - elements.begin());
}

MapToRow row_function(std::size_t at, const ComponentFunction& made) {
  if (!made.to_row) return nullptr;
  return [at, to_row = made.to_row](const Element& element, const ElementContext& context, std::int64_t row,
                                    std::span<Tensor> out) {
    copy_to_row(std::span(element).first(at), row, out.first(at));
    to_row(element[at], context, row, out[at]);
    copy_to_row(std::span(element).subspan(at + 1), row, out.subspan(at + 1));
  };
}

}  // namespace

Transformation on_component(const std::string& function, const std::string& component,
                            std::function<ComponentFunction(const BatchComponent&)> prepare) {
  return {.name = fmt::format("{} {}", function, component),
          .prepare = [component, prepare = std::move(prepare)](const BatchSchema& elements) {
            const std::size_t at = component_of(elements, component);
            const ComponentFunction made = prepare(elements[at]);
            BatchSchema schema = elements;
            schema[at] = made.result;
            return Transformation::Prepared{
                .schema = std::move(schema),
                .function =
                    [at, apply = made.function](const Element& element, const ElementContext& context) {
                      Element out = element;
                      out[at] = apply(element[at], context);
                      return out;
                    },
                .to_row = row_function(at, made)};
          }};
}

}  // namespace troupe::data
