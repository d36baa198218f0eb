// TensorFlow's gathers, scatters and segments.
#include <troupe/graph/formats/saved_model/node.hpp>

namespace troupe {
namespace {

void tf_gather_v2(TfNode& node) {
  node.set(gather(node.in(0), node.in(1),
                  {.axis = node.integer_in(2, "the axis"), .batch_dims = node.integer("batch_dims", 0)}));
}
void tf_gather(TfNode& node) { node.set(gather(node.in(0), node.in(1))); }
void tf_resource_gather(TfNode& node) {
  const TfResource& found = node.resource(0);
  if (!found.read) invalid_argument("{} is no variable", found.name);
  node.set(gather(node.graph().brought_in(found.read()), node.in(1), {.batch_dims = node.integer("batch_dims", 0)}));
}
void tf_gather_nd(TfNode& node) {
  node.set(gather_nd(node.in(0), node.in(1), {.batch_dims = node.integer("batch_dims", 0)}));
}
void tf_one_hot(TfNode& node) {
  const Output off = node.in(3), on = node.in(2);
  node.set(one_hot(node.in(0), node.integer_in(1, "the depth"),
                   {.values = stack({off, on}, 0), .axis = node.integer("axis", -1)}));
}
void tf_where(TfNode& node) { node.set(where(node.in(0))); }
void tf_scatter_nd(TfNode& node) { node.set(scatter_nd(node.in(0), node.in(1), node.index_in(2).in(node.in(0)))); }
enum class TfScatter { update, add, max, min };
template <TfScatter kScatter>
void tf_tensor_scatter(TfNode& node) {
  constexpr const char* kReductions[] = {"none", "add", "max", "min"};
  node.set(tensor_scatter(node.in(0), node.in(1), node.in(2),
                          {.reduction = kReductions[static_cast<std::size_t>(kScatter)]}));
}
void tf_unsorted_segment_sum(TfNode& node) {
  node.set(unsorted_segment_sum(node.in(0), node.in(1), node.index_in(2).scalar_in(node.in(0))));
}
void tf_unsorted_segment_prod(TfNode& node) {
  node.set(unsorted_segment_prod(node.in(0), node.in(1), node.index_in(2).scalar_in(node.in(0))));
}
void tf_invert_permutation(TfNode& node) { node.set(invert_permutation(node.in(0))); }

constexpr TfOp kTfIndexOps[] = {
    {"Gather", tf_gather},
    {"GatherNd", tf_gather_nd},
    {"GatherV2", tf_gather_v2},
    {"InvertPermutation", tf_invert_permutation},
    {"OneHot", tf_one_hot},
    {"ResourceGather", tf_resource_gather},
    {"ScatterNd", tf_scatter_nd},
    {"TensorScatterAdd", tf_tensor_scatter<TfScatter::add>},
    {"TensorScatterMax", tf_tensor_scatter<TfScatter::max>},
    {"TensorScatterMin", tf_tensor_scatter<TfScatter::min>},
    {"TensorScatterUpdate", tf_tensor_scatter<TfScatter::update>},
    {"UnsortedSegmentProd", tf_unsorted_segment_prod},
    {"UnsortedSegmentSum", tf_unsorted_segment_sum},
    {"Where", tf_where},
};

}  // namespace

std::span<const TfOp> tensorflow_index_ops() { return kTfIndexOps; }

}  // namespace troupe
