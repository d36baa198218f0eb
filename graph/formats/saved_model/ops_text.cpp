// TensorFlow's ops on strings, tables and ragged rows.
#include <fmt/format.h>

#include <troupe/graph/formats/saved_model/node.hpp>

namespace troupe {
namespace {

void ascii_only(const TfNode& node) {
  if (!node.string("encoding", "").empty())
    fail(Code::unimplemented, "the encoding '{}' is not supported: letters other than ASCII's stay as they are",
         node.string("encoding", ""));
}
void tf_string_lower(TfNode& node) {
  ascii_only(node);
  node.set(string_lower(node.in(0)));
}
void tf_string_upper(TfNode& node) {
  ascii_only(node);
  node.set(string_upper(node.in(0)));
}
void tf_string_strip(TfNode& node) { node.set(string_strip(node.in(0))); }
void tf_string_length(TfNode& node) {
  if (node.string("unit", "BYTE") != "BYTE") fail(Code::unimplemented, "lengths in characters are not supported");
  node.set(cast(string_length(node.in(0)), DType::i32));
}
void tf_string_join(TfNode& node) {
  node.set(string_join(node.in(0, node.num_inputs()), node.string("separator", "")));
}
void tf_static_regex_replace(TfNode& node) {
  node.set(regex_replace(node.in(0), node.string("pattern", ""), node.string("rewrite", ""),
                         {.global = node.boolean("replace_global", true)}));
}
void tf_static_regex_full_match(TfNode& node) { node.set(regex_full_match(node.in(0), node.string("pattern", ""))); }
std::string text_in(const TfNode& node, int input, const char* what) {
  const auto value = node.known(input);
  if (!value || value->dtype() != DType::string || value->num_elements() != 1)
    fail(Code::unimplemented, "the {} must be a constant", what);
  return value->item<std::string>();
}
void tf_regex_replace(TfNode& node) {
  node.set(regex_replace(node.in(0), text_in(node, 1, "pattern"), text_in(node, 2, "rewrite"),
                         {.global = node.boolean("replace_global", true)}));
}
void tf_regex_full_match(TfNode& node) { node.set(regex_full_match(node.in(0), text_in(node, 1, "pattern"))); }
void tf_as_string(TfNode& node) {
  if (is_floating(node.in(0).dtype()) || node.integer("width", -1) >= 0)
    fail(Code::unimplemented, "numbers as text are supported for integers without a width");
  node.set(as_string(node.in(0)));
}
void tf_string_to_number(TfNode& node) { node.set(string_to_number(node.in(0), node.dtype("out_type", DType::f32))); }

// Positions (row, place in the row) [m,2], the parts [m], and the number of rows and of the parts of the longest [2].
void tf_string_split(TfNode& node) {
  if (node.integer("maxsplit", -1) >= 0) fail(Code::unimplemented, "a limit of parts is not supported");
  const Ragged parts = string_split(node.in(0), text_in(node, 1, "separator"));
  const Output rows = row_ids(parts), size = element_count(parts.values);
  const Output places = range(as_scalar(size)) - gather(parts.row_splits, rows);
  node.set(0, stack({rows, places}, 1));
  node.set(1, parts.values);
  const Output number = element_count(parts.row_splits) - 1.0;
  const Output begins = slice(parts.row_splits, {0}, reshape(number, Shape{1}));
  const Output lengths = slice(parts.row_splits, {1}, {-1}) - begins;
  const Output none = constant(node.graph(), {std::int64_t{0}});
  node.set(2, stack({number, max(concat({lengths, none}, 0), {0})}, 0));
}

void tf_table_find(TfNode& node) {
  const TfResource& table = node.resource(0);
  if (!table.keys.valid()) invalid_argument("{} is no table", table.name);
  const Output x = node.in(1);
  node.set(table_lookup(x, constant(node.graph(), table.keys), constant(node.graph(), table.values), node.in(2)));
}
void tf_table_size(TfNode& node) {
  node.set(constant<std::int64_t>(node.graph(), node.resource(0).keys.num_elements()));
}

// How often each number below the size occurs in a vector, or the sum of its weights.
void tf_bincount(TfNode& node) {
  const Output x = node.in(0), weights = node.in(2);
  if (!x.shape().has_rank() || x.shape().rank() > 1 || node.boolean("binary_output", false))
    fail(Code::unimplemented, "counts of {} are not supported, but those of vectors", x.shape().to_string());
  const bool weighted = !weights.shape().has_rank() || weights.shape() != Shape{0};
  const Output each = weighted ? weights : cast(ones_like(x), weights.dtype());
  const Output size = node.index_in(1).scalar_in(x);
  const Output flat = reshape(x, Shape{kUnknown});
  const Output counted = less(cast(flat, DType::i64), size);
  node.set(
      unsorted_segment_sum(boolean_mask(reshape(each, Shape{kUnknown}), counted), boolean_mask(flat, counted), size));
}

// Rows of different lengths as a matrix [rows,width], filled up with `otherwise`. The width is that of the longest row
// where it is -1.
Output padded_rows(Output values, Output row_of_value, Output rows, Output otherwise, std::int64_t width) {
  Graph& graph = *values.graph;
  const Output ids = cast(row_of_value, DType::i64);
  const Output lengths = unsorted_segment_sum(ones_like(ids), ids, rows);
  const Output begins = cumsum(lengths, 0, {.exclusive = true});
  const Output places = range(as_scalar(element_count(ids))) - gather(begins, ids);
  const Output none = constant(graph, {std::int64_t{0}});
  const Output size = width >= 0 ? constant<std::int64_t>(graph, width) : max(concat({lengths, none}, 0), {0});
  const Output fits = less(places, size);
  const Output at = stack({boolean_mask(ids, fits), boolean_mask(places, fits)}, 1);
  const Output empty = fill(stack({rows, size}, 0), otherwise);
  return tensor_scatter(empty, at, boolean_mask(values, fits));
}

void tf_ragged_to_tensor(TfNode& node) {
  const std::vector<std::string> types = node.strings("row_partition_types");
  const Integers shape = node.integers_in(0, "the shape");
  const Output values = node.in(1), otherwise = as_scalar(node.in(2));
  if (shape.size() != 2 || !values.shape().has_rank() || values.shape().rank() != 1)
    fail(Code::unimplemented, "a ragged tensor of {} dimensions is not supported, but those of 2", shape.size());
  Output rows, ids;
  if (types == std::vector<std::string>{"FIRST_DIM_SIZE", "VALUE_ROWIDS"}) {
    rows = as_scalar(cast(node.in(3), DType::i64));
    ids = node.in(4);
  } else if (types == std::vector<std::string>{"ROW_SPLITS"}) {
    const Ragged ragged{values, cast(node.in(3), DType::i64)};
    rows = element_count(ragged.row_splits) - 1.0;
    ids = row_ids(ragged);
  } else {
    fail(Code::unimplemented, "rows that are given by '{}' are not supported", fmt::join(types, ", "));
  }
  Output out = padded_rows(values, ids, rows, otherwise, shape[1]);
  if (shape[1] >= 0) out = reshape(out, Shape{kUnknown, shape[1]});
  node.set(out);
}

constexpr TfOp kTfTextOps[] = {
    {"AsString", tf_as_string},
    {"DenseBincount", tf_bincount},
    {"LookupTableFindV2", tf_table_find},
    {"LookupTableSizeV2", tf_table_size},
    {"RaggedTensorToTensor", tf_ragged_to_tensor},
    {"RegexFullMatch", tf_regex_full_match},
    {"RegexReplace", tf_regex_replace},
    {"StaticRegexFullMatch", tf_static_regex_full_match},
    {"StaticRegexReplace", tf_static_regex_replace},
    {"StringJoin", tf_string_join},
    {"StringLength", tf_string_length},
    {"StringLower", tf_string_lower},
    {"StringSplitV2", tf_string_split, "indices,values,shape"},
    {"StringStrip", tf_string_strip},
    {"StringToNumber", tf_string_to_number},
    {"StringUpper", tf_string_upper},
};

}  // namespace

std::span<const TfOp> tensorflow_text_ops() { return kTfTextOps; }

}  // namespace troupe
