// Attention, as TensorFlow's ops.
#include <limits>

#include <troupe/graph/formats/saved_model/export_node.hpp>

namespace troupe {
namespace {

// y = softmax(scale q k' + mask) v. Where several heads share keys, q [..., heads, queries, depth] becomes
// [..., shared, heads / shared queries, depth].
class TfAttentionWriter {
 public:
  explicit TfAttentionWriter(const TfExportNode& node) : node_(node), a_(node.attributes()) {
    grouped_ = node.dim(0, -3) != node.dim(1, -3);
    masked_ = node.shape(3) != Shape{0};
    leading_ = node.rank(0) - 3;
  }

  void write() {
    if (node_.wants(1)) fail(Code::unimplemented, "its second output is for gradients");
    TfName scores = node_.add("BatchMatMulV2", {queries(), wide(1)}, {{"adj_y", true}});
    if (grouped_)
      scores = node_.add("Reshape", {scores, node_.joined({of(0, 0, leading_ + 2), of(1, leading_ + 1, 1)})});
    if (a_.real("softcap") != 0) {
      const TfName cap = number(a_.real("softcap"));
      scores = node_.add("Mul", {node_.add("Tanh", {node_.add("RealDiv", {scores, cap})}), cap});
    }
    TfName weights = softmax(masked(scores));
    if (grouped_)
      weights = node_.add("Reshape", {weights, node_.joined({of(1, 0, leading_ + 1), rest(), of(1, leading_ + 1, 1)})});
    TfName y = node_.add("BatchMatMulV2", {weights, wide(2)});
    if (grouped_) y = node_.add("Reshape", {y, node_.joined({of(0, 0, leading_ + 2), of(2, leading_ + 2, 1)})});
    node_.set(node_.cast(y, node_.dtype(0)));
  }

 private:
  DType sums() const { return node_.dtype(0) == DType::f64 ? DType::f64 : DType::f32; }
  TfName number(double value) const { return node_.scalar_of(sums(), value); }
  TfName none() const { return number(-std::numeric_limits<double>::infinity()); }
  TfName wide(int input) const { return node_.cast(node_.in(input), sums()); }
  TfName rest() const { return node_.integers({-1}); }
  TfName of(int input, std::int64_t begin, std::int64_t count) const {
    return node_.dims_of(node_.in(input), begin, count);
  }
  TfName count(int input) const { return node_.add("Reshape", {of(input, leading_ + 1, 1), node_.integers({})}); }

  TfName queries() const {
    const TfName q = node_.add("Mul", {wide(0), number(a_.real("scale"))});
    if (!grouped_) return q;
    return node_.add("Reshape", {q, node_.joined({of(1, 0, leading_ + 1), rest(), of(0, leading_ + 2, 1)})});
  }
  // Where there is no attention, scores are -inf.
  TfName masked(TfName scores) const {
    if (masked_ && node_.dtype(3) == DType::boolean) scores = node_.add("SelectV2", {node_.in(3), scores, none()});
    if (masked_ && node_.dtype(3) != DType::boolean) scores = node_.add("AddV2", {scores, wide(3)});
    if (!a_.boolean("causal")) return scores;
    const TfName first = node_.integer(a_.integer("causal_offset")), zero = node_.integer(0), one = node_.integer(1);
    const TfName last = node_.add("Range", {first, node_.add("AddV2", {count(0), first}), one});
    const TfName columns = node_.add("ExpandDims", {last, node_.integer(1)});
    const TfName seen = node_.add("GreaterEqual", {columns, node_.add("Range", {zero, count(1), one})});
    return node_.add("SelectV2", {seen, scores, none()});
  }
  // A query that attends to no key has weights of 0, not NaN.
  TfName softmax(const TfName& scores) const {
    const TfName weights = node_.add("Softmax", {scores});
    if (!masked_ && (!a_.boolean("causal") || a_.integer("causal_offset") >= 0)) return weights;
    const TfName most = node_.reduced("Max", scores, {-1}, true);
    return node_.add("SelectV2", {node_.add("Equal", {most, none()}), number(0), weights});
  }

  const TfExportNode& node_;
  const Attributes& a_;
  bool grouped_ = false, masked_ = false;
  std::int64_t leading_ = 0;
};

void write_tf_attention(TfExportNode& node) { TfAttentionWriter(node).write(); }

constexpr TfExportOp kTfAttentionWriters[] = {{"Attention", write_tf_attention}};

}  // namespace

std::span<const TfExportOp> tensorflow_attention_writers() { return kTfAttentionWriters; }

}  // namespace troupe
