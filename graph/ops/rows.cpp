// Rows of tables: which ones a step touches, and sums by row (graph/passes/table_lookups.hpp). A table of R rows in K
// pieces has row r in piece r mod K, as its row r / K: frequent rows, which often have small numbers, are then in all
// pieces alike.
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

std::int64_t pieces_of(const ShapeContext& c) {
  const std::int64_t pieces = c.attributes().integer("K"), rows = c.attributes().integer("rows");
  if (pieces < 1 || rows < 0) invalid_argument("{} pieces of {} rows: there must be at least 1 piece", pieces, rows);
  return pieces;
}

void distinct_rows_shape(ShapeContext& c) {
  const auto pieces = static_cast<int>(pieces_of(c));
  for (int k = 0; k < pieces; ++k) c.set_output(k, Shape{kUnknown});
  for (int i = 0; i < c.num_inputs(); ++i) c.set_output(pieces + i, shapes::with_rank(c.input(i), 1, "ids"));
}

void sum_rows_shape(ShapeContext& c) {
  const auto pieces = static_cast<int>(pieces_of(c));
  const Shape indices = shapes::with_rank(c.input(0), 1, "indices");
  Shape sums = shapes::at_least_rank(c.input(1), 1, "values");
  if (sums.has_rank()) {
    shapes::merge_dim(indices[0], sums[0], "the numbers of indices and of rows of 'values'");
    sums.set_dim(0, kUnknown);
  }
  for (int k = 0; k < pieces; ++k) {
    c.set_output(k, Shape{kUnknown});
    c.set_output(pieces + k, sums);
  }
}

void join_rows_shape(ShapeContext& c) {
  Shape table = shapes::at_least_rank(c.input(0), 1, "pieces");
  for (int i = 1; i < c.num_inputs() && table.has_rank() && c.input(i).has_rank(); ++i)
    shapes::merge(table.without(0), "a row of the first piece", c.input(i).without(0), "a row of another");
  if (table.has_rank()) table.set_dim(0, c.attributes().integer("rows"));
  c.set_output(0, table);
}

}  // namespace

void register_row_ops(OpRegistry& ops) {
  // The distinct ids, ascending, as rows of each of K pieces; and for each id its place among the rows of piece 0, then
  // those of piece 1, and so on.
  ops.add(Op("DistinctRows")
              .input_list("ids", "Ti", "N")
              .output_list("rows", "Ti", "K")
              .output_list("places", "Ti", "N")
              .type("Ti", {DType::i64})
              .attr("K", AttrType::integer)
              .attr("rows", AttrType::integer)
              .shape(distinct_rows_shape)
              .no_gradient());
  // The distinct indices, ascending, as rows of each of K pieces, with the sum of the values of each: those of an index
  // that occurs several times are added in order, the first being the start; those of 16 bits in f32, rounded once.
  ops.add(Op("SumRows")
              .input("indices", "Ti")
              .input("values", "T")
              .output_list("rows", "Ti", "K")
              .output_list("sums", "T", "K")
              .type("T", kFloatTypes)
              .type("Ti", {DType::i64})
              .attr("K", AttrType::integer)
              .attr("rows", AttrType::integer)
              .shape(sum_rows_shape)
              .no_gradient());
  // The table with these K pieces.
  ops.add(Op("JoinRows")
              .input_list("pieces", "T", "K")
              .output("table", "T")
              .type("T")
              .attr("rows", AttrType::integer)
              .shape(join_rows_shape)
              .no_gradient());
}

}  // namespace troupe
