// Transfer: where tensors enter and leave a partition. Passes create these ops; they have no kernels.
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

void push_sparse_shape(ShapeContext& c) {
  const Shape indices = shapes::with_rank(c.input(0), 1, "indices");
  const Shape& values = shapes::at_least_rank(c.input(1), 1, "values");
  if (values.has_rank()) shapes::merge_dim(indices[0], values[0], "the numbers of indices and of rows of 'values'");
}

Op shard_op(std::string name) {
  return Op(std::move(name)).type("T").attr("slice", AttrType::integer).attr("shard", AttrType::integer);
}

}  // namespace

void register_transfer_ops(OpRegistry& ops) {
  ops.add(Op("Feed")
              .output("out", "T")
              .type("T")
              .attr("index", AttrType::integer)
              .attr("shape", Shape::unknown_rank())
              .shape(shapes::from_attribute())
              .role(OpRole::feed));
  ops.add(Op("Fetch").input("x", "T").type("T").attr("index", AttrType::integer).role(OpRole::fetch));
  ops.add(Op("Send")
              .input("x", "T")
              .type("T")
              .attr("edge", AttrType::integer)
              .attr("to", AttrType::string)
              .role(OpRole::send));
  ops.add(Op("Recv")
              .output("out", "T")
              .type("T")
              .attr("shape", Shape::unknown_rank())
              .attr("edge", AttrType::integer)
              .attr("from", AttrType::string)
              .shape(shapes::from_attribute())
              .role(OpRole::receive));
  ops.add(Op("Contribute")
              .input("x", "T")
              .type("T")
              .attr("channel", AttrType::integer)
              .attr("reduction", "mean")
              .role(OpRole::contribute));
  ops.add(Op("Collect")
              .output("out", "T")
              .type("T")
              .attr("shape", Shape::unknown_rank())
              .attr("channel", AttrType::integer)
              .shape(shapes::from_attribute())
              .role(OpRole::collect));
  // With an ask, only the rows that the AskRows node of this number asks for, which is its control input.
  ops.add(shard_op("Pull")
              .output("out", "T")
              .attr("shape", Shape::unknown_rank())
              .attr("ask", std::int64_t{-1})
              .shape(shapes::from_attribute())
              .role(OpRole::pull));
  ops.add(Op("AskRows")
              .input("rows", DType::i64)
              .attr("slice", AttrType::integer)
              .attr("shard", AttrType::integer)
              .attr("ask", AttrType::integer)
              .shape([](ShapeContext& c) { shapes::with_rank(c.input(0), 1, "rows"); })
              .role(OpRole::ask_rows));
  ops.add(shard_op("Push").input("gradient", "T").role(OpRole::push));
  ops.add(shard_op("PushSparse")
              .input("indices", DType::i64)
              .input("values", "T")
              .shape(push_sparse_shape)
              .role(OpRole::push_sparse));
}

}  // namespace troupe
