// Strings, lookup tables, embeddings by ragged ids.
#include <algorithm>

#include <troupe/graph/builder/text.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

void ragged_shape(ShapeContext& c) {
  const Shape x = shapes::with_rank(c.input(0), 1, "x");
  c.set_output(0, Shape{kUnknown});
  c.set_output(1, Shape{x[0] == kUnknown ? kUnknown : x[0] + 1});
}

void ngrams_shape(ShapeContext& c) {
  shapes::with_rank(c.input(0), 1, "values");
  const std::int64_t low = shapes::bounded(c.attributes(), "min_length", 1, 1000);
  shapes::bounded(c.attributes(), "max_length", low, 1000);
  c.set_output(0, Shape{kUnknown});
  c.set_output(1, shapes::with_rank(c.input(1), 1, "row_splits"));
}

void row_ids_shape(ShapeContext& c) {
  const Shape& values = shapes::at_least_rank(c.input(0), 1, "values");
  shapes::with_rank(c.input(1), 1, "row_splits");
  c.set_output(0, Shape{values.has_rank() ? values[0] : kUnknown});
}

void reduce_join_shape(ShapeContext& c) {
  const Shape& x = shapes::at_least_rank(c.input(0), 1, "x");
  if (x.has_rank()) c.set_output(0, x.sub(0, x.rank() - 1));
}

void hash_shape(ShapeContext& c) {
  shapes::bounded(c.attributes(), "buckets", 1, std::int64_t{1} << 62);
  c.set_output(0, c.input(0));
}

void find_shape(ShapeContext& c) {
  shapes::with_rank(c.input(1), 1, "keys");
  c.set_output(0, c.input(0));
}

void lookup_shape(ShapeContext& c) {
  const Shape keys = shapes::with_rank(c.input(1), 1, "keys");
  const Shape values = shapes::with_rank(c.input(2), 1, "values");
  shapes::merge_dim(keys[0], values[0], "the numbers of keys and values");
  shapes::with_rank(c.input(3), 0, "otherwise");
  c.set_output(0, c.input(0));
}

void word_piece_shape(ShapeContext& c) {
  shapes::with_rank(c.input(1), 1, "vocabulary");
  const std::int64_t length = shapes::bounded(c.attributes(), "length", 2, 1 << 20);
  if (!c.input(0).has_rank()) return;
  const Shape row{c.attributes().boolean("pad") ? length : kUnknown};
  for (int output = 0; output < 2; ++output) c.set_output(output, c.input(0).concatenated(row));
}

void embedding_shape(ShapeContext& c) {
  const std::string& combiner = c.attributes().string("combiner");
  if (combiner != "sum" && combiner != "mean" && combiner != "sqrtn")
    invalid_argument("attribute 'combiner' must be sum, mean or sqrtn, not '{}'", combiner);
  const Shape table = shapes::with_rank(c.input(0), 2, "table");
  const Shape ids = shapes::with_rank(c.input(1), 1, "ids");
  const Shape splits = shapes::with_rank(c.input(2), 1, "row_splits");
  if (splits[0] == 0) invalid_argument("'row_splits' is empty: it needs at least the element 0");
  if (c.num_inputs() > 4) invalid_argument("takes at most one tensor of weights");
  if (c.num_inputs() == 4)
    shapes::merge_dim(ids[0], shapes::with_rank(c.input(3), 1, "weights")[0], "the numbers of ids and weights");
  const std::int64_t rows = splits[0] == kUnknown ? kUnknown : splits[0] - 1;
  c.set_output(0, Shape{rows, table[1]});
  c.set_output(1, Shape{rows});
}

// y = scale_r sum w_i t_i with r the row of i; scale_r is output 1.
//   dt_i = scale_r w_i dy_r
//   dw_i = scale_r (t_i . dy_r) - c_i (y_r . dy_r + scale_r dscale_r) with c_i = 0 (sum), scale_r (mean),
//   scale_r^2 w_i (sqrtn)
void embedding_gradient(GradientContext& c) {
  const Output table = c.input(0), ids = c.input(1), g = c.grad();
  const Output rows = row_ids({ids, c.input(2)});
  const bool weighted = c.num_inputs() == 4;
  const Output dy = gather(g, rows), scale = gather(c.output(1), rows);
  if (c.needs(0)) {
    const Output factor = weighted ? scale * c.input(3) : scale;
    c.set_sparse(0, cast(ids, DType::i64), dy * expand_dims(factor, -1));
  }
  if (!weighted || !c.needs(3)) return;
  const Output along = sum(gather(table, ids) * dy, {1});
  Output dw = scale * along;
  const std::string& combiner = c.attributes().string("combiner");
  if (combiner != "sum") {
    Output flow = sum(c.output(0) * g, {1});
    if (c.has_grad(1)) flow = flow + c.output(1) * c.grad(1);
    const Output whole = gather(flow, rows);
    const Output factor = combiner == "mean" ? scale : square(scale) * c.input(3);
    dw = dw - factor * whole;
  }
  c.set(3, dw);
}

void normalizer_shape(ShapeContext& c) {
  const std::string& change = c.attributes().string("change_case");
  if (change != "none" && change != "lower" && change != "upper")
    invalid_argument("attribute 'change_case' must be none, lower or upper, not '{}'", change);
  const Shape& x = c.input(0);
  if (!x.has_rank()) return;
  if (x.rank() < 1 || x.rank() > 2 || (x.rank() == 2 && x[0] != 1 && x[0] != kUnknown))
    invalid_argument("'x' must be [c] or [1,c], but its shape is {}", x.to_string());
  Shape out = x;
  out.set_dim(-1, kUnknown);
  if (out.rank() == 2) out.set_dim(0, 1);
  c.set_output(0, out);
}

void tf_idf_shape(ShapeContext& c) {
  const std::string& mode = c.attributes().string("mode");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    invalid_argument("attribute 'mode' must be TF, IDF or TFIDF, not '{}'", mode);
  const std::int64_t low = shapes::bounded(c.attributes(), "min_gram_length", 1, 1000);
  shapes::bounded(c.attributes(), "max_gram_length", low, 1000);
  shapes::bounded(c.attributes(), "max_skip_count", 0, 1'000'000);
  const Integers& indexes = c.attributes().integers("ngram_indexes");
  if (indexes.empty()) invalid_argument("attribute 'ngram_indexes' is empty");
  const auto [least, most] = std::ranges::minmax(indexes);
  if (least < 0 || most >= 100'000'000)
    invalid_argument("attribute 'ngram_indexes' has {}, not in [0, 10^8)", least < 0 ? least : most);
  const Shape& x = c.input(0);
  if (!x.has_rank()) return;
  if (x.rank() < 1 || x.rank() > 2) invalid_argument("'x' must be [c] or [n,c], but its shape is {}", x.to_string());
  Shape out = x;
  out.set_dim(-1, most + 1);
  c.set_output(0, out);
}

Op text_op(std::string name, DType result) {
  return Op(std::move(name)).input("x", DType::string).output("y", result).shape(shapes::same_as(0)).no_gradient();
}

const std::vector<DType> kKeyTypes{DType::string, DType::i32, DType::i64};
const std::vector<DType> kTableTypes{DType::string, DType::i32, DType::i64, DType::f32, DType::f64};

void register_strings(OpRegistry& ops) {
  for (const char* name : {"StringLower", "StringUpper", "StringStrip"}) ops.add(text_op(name, DType::string));
  ops.add(text_op("StringLength", DType::i64));
  ops.add(text_op("RegexFullMatch", DType::boolean).attr("pattern", AttrType::string));
  ops.add(text_op("RegexReplace", DType::string)
              .attr("pattern", AttrType::string)
              .attr("rewrite", AttrType::string)
              .attr("global", true));
  ops.add(text_op("StringToHashBucket", DType::i64)
              .attr("buckets", AttrType::integer)
              .attr("seed", std::int64_t{0})
              .shape(hash_shape));
  ops.add(text_op("StringReduceJoin", DType::string).attr("separator", std::string()).shape(reduce_join_shape));
  ops.add(Op("StringJoin")
              .input_list("xs", DType::string, "N")
              .output("y", DType::string)
              .attr("separator", std::string())
              .shape(shapes::broadcast_inputs)
              .no_gradient());
  ops.add(Op("StringSplit")
              .input("x", DType::string)
              .output("values", DType::string)
              .output("row_splits", DType::i64)
              .attr("separator", std::string())
              .shape(ragged_shape)
              .no_gradient());
  ops.add(Op("StringNGrams")
              .input("values", DType::string)
              .input("row_splits", DType::i64)
              .output("ngrams", DType::string)
              .output("ngram_splits", DType::i64)
              .attr("min_length", std::int64_t{1})
              .attr("max_length", std::int64_t{2})
              .attr("separator", std::string(" "))
              .shape(ngrams_shape)
              .no_gradient());
  ops.add(text_op("StringNormalizer", DType::string)
              .attr("change_case", std::string("none"))
              .attr("is_case_sensitive", false)
              .attr("stopwords", std::vector<std::string>{})
              .shape(normalizer_shape));
  ops.add(Op("TfIdfVectorizer")
              .input("x", "T")
              .output("y", DType::f32)
              .type("T", kKeyTypes)
              .attr("mode", AttrType::string)
              .attr("min_gram_length", AttrType::integer)
              .attr("max_gram_length", AttrType::integer)
              .attr("max_skip_count", AttrType::integer)
              .attr("ngram_counts", AttrType::integers)
              .attr("ngram_indexes", AttrType::integers)
              .attr("pool_integers", Integers{})
              .attr("pool_strings", std::vector<std::string>{})
              .attr("weights", std::vector<double>{})
              .shape(tf_idf_shape)
              .no_gradient());
}

}  // namespace

void register_text_ops(OpRegistry& ops) {
  register_strings(ops);
  ops.add(Op("RowIds")
              .input_shape("values", "T")
              .input("row_splits", DType::i64)
              .output("rows", DType::i64)
              .type("T")
              .shape(row_ids_shape)
              .no_gradient());
  ops.add(Op("TableFind")
              .input("x", "T")
              .input("keys", "T")
              .output("index", DType::i64)
              .type("T", kTableTypes)
              .shape(find_shape)
              .no_gradient());
  ops.add(Op("TableLookup")
              .input("x", "T")
              .input("keys", "T")
              .input("values", "Tvalues")
              .input("otherwise", "Tvalues")
              .output("y", "Tvalues")
              .type("T", kTableTypes)
              .type("Tvalues")
              .shape(lookup_shape)
              .no_gradient());
  ops.add(Op("WordPiece")
              .input("x", DType::string)
              .input("vocabulary", DType::string)
              .output("ids", DType::i64)
              .output("mask", DType::boolean)
              .attr("length", AttrType::integer)
              .attr("pad", true)
              .shape(word_piece_shape)
              .no_gradient());
  ops.add(Op("EmbeddingLookupSparse")
              .input("table", "T")
              .input("ids", "Tids")
              .input("row_splits", DType::i64)
              .input_list("weights", "T", "N")
              .output("y", "T")
              .output("scale", "T")
              .type("T", kFloatTypes)
              .type("Tids", kIndexTypes)
              .attr("combiner", std::string("mean"))
              .shape(embedding_shape)
              .gradient(embedding_gradient));
}

}  // namespace troupe
