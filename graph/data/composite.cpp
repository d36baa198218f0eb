#include "troupe/graph/data/composite.hpp"

#include <troupe/messages/error.hpp>

namespace troupe::data {
namespace {

constexpr std::string_view kIndices = ".indices", kValues = ".values", kDenseShape = ".dense_shape",
                           kRowSplits = ".row_splits";

bool is_part(const BatchSchema& schema, std::size_t at, const std::string& name, std::string_view part, int rank) {
  return at < schema.size() && schema[at].name == fmt::format("{}{}", name, part) && schema[at].shape.rank() == rank &&
         (part == kValues || schema[at].dtype == DType::i64);
}

bool known_behind_leading(const Shape& shape) {
  return shape.rank() > 0 && shape.dim(0) < 0 && shape.sub(1, shape.rank()).fully_known();
}

Composite composite_at(const BatchSchema& schema, std::size_t at) {
  const std::string& own = schema[at].name;
  const auto stem = [&](std::string_view part) {
    return own.substr(0, own.size() - std::min(own.size(), part.size()));
  };
  if (const std::string name = stem(kIndices); is_part(schema, at, name, kIndices, 2) && schema[at].shape.dim(1) >= 0 &&
                                               is_part(schema, at + 1, name, kValues, 1) &&
                                               is_part(schema, at + 2, name, kDenseShape, 1))
    return {Composite::Kind::sparse, name, at};
  const std::string name = stem(kValues);
  const int rank = schema[at].shape.rank();
  if (rank > 0 && is_part(schema, at, name, kValues, rank) && is_part(schema, at + 1, name, kRowSplits, 1))
    return {Composite::Kind::ragged, name, at};
  return {Composite::Kind::tensor, own, at};
}

BatchSchema ragged_parts(const std::string& name, DType dtype, const Shape& row_of_values) {
  return {{fmt::format("{}{}", name, kValues), dtype, Shape{kUnknown}.concatenated(row_of_values)},
          {fmt::format("{}{}", name, kRowSplits), DType::i64, Shape{kUnknown}}};
}

}  // namespace

void refuse_composite(const Composite& composite) {
  const bool sparse = composite.kind == Composite::Kind::sparse;
  invalid_argument("'{}' has the parts of a {} tensor: {}", composite.name, sparse ? "sparse" : "ragged",
                   sparse ? "use sparse_batch" : "map it to one tensor first");
}

std::vector<Composite> composites_of(const BatchSchema& schema) {
  std::vector<Composite> out;
  for (std::size_t at = 0; at < schema.size(); at += out.back().parts()) out.push_back(composite_at(schema, at));
  return out;
}

BatchSchema sparse_parts(const std::string& name, DType dtype, std::int64_t rank) {
  return {{fmt::format("{}{}", name, kIndices), DType::i64, Shape{kUnknown, rank}},
          {fmt::format("{}{}", name, kValues), dtype, Shape{kUnknown}},
          {fmt::format("{}{}", name, kDenseShape), DType::i64, Shape{rank}}};
}

BatchSchema uneven_schema(const BatchSchema& elements, Uneven uneven, std::int64_t rows) {
  BatchSchema out;
  const auto append = [&](const BatchSchema& parts) { out.insert(out.end(), parts.begin(), parts.end()); };
  for (const Composite& composite : composites_of(elements)) {
    const BatchComponent& first = elements[composite.first];
    const Shape& shape = first.shape;
    if (uneven == Uneven::sparse && composite.kind == Composite::Kind::sparse) {
      append(sparse_parts(composite.name, elements[composite.first + 1].dtype, shape.dim(1) + 1));
    } else if (composite.kind != Composite::Kind::tensor) {
      refuse_composite(composite);
    } else if (shape.fully_known()) {
      out.push_back({first.name, first.dtype, first.batch_shape(rows)});
    } else if (uneven == Uneven::sparse && shape.rank() == 1) {
      append(sparse_parts(first.name, first.dtype, 2));
    } else if (uneven == Uneven::ragged && known_behind_leading(shape)) {
      append(ragged_parts(first.name, first.dtype, shape.sub(1, shape.rank())));
    } else {
      invalid_argument("'{}' is {}{}: {}; padded_batch takes any shape", first.name, name(first.dtype),
                       shape.to_string(),
                       uneven == Uneven::sparse ? "a sparse batch has vectors of unknown length"
                                                : "in a ragged batch only the leading dimension may be unknown");
    }
  }
  return out;
}

}  // namespace troupe::data
