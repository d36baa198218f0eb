// Attention and normalisations that opset 17 lacks: functions of our domain, composed of ONNX's ops.
#include <limits>

#include <troupe/graph/formats/onnx/onnx_export.hpp>

namespace troupe {
namespace {

// ---- attention

// What the steps of attention share. Scores are in the dtype of the sums.
class AttentionWriter {
 public:
  explicit AttentionWriter(OnnxExportNode& node) : node_(node), a_(node.attributes()) {
    for (int i = 0; i < 3; ++i)
      if (!node.shape(i).has_rank()) fail(Code::unimplemented, "the rank of its input {} must be known", i);
    rank_ = node.rank(0);
    const std::int64_t heads = node.shape(0)[-3], shared = node.shape(1)[-3];
    if (heads == kUnknown || shared == kUnknown) fail(Code::unimplemented, "the numbers of heads must be known");
    grouped_ = heads != shared;
    masked_ = node.shape(3) != Shape{0};
  }

  void write() {
    OnnxName scores = node_.add("MatMul", {queries(), node_.add("Transpose", {wide(1)}, {{"perm", last_exchanged()}})});
    if (grouped_) scores = node_.add("Reshape", {scores, sizes({part(0, 0, -1), part(1, -2, -1)})});
    if (a_.real("softcap") != 0) scores = capped(scores);
    OnnxName weights = softmax(masked(scores));
    if (grouped_) weights = node_.add("Reshape", {weights, sizes({part(1, 0, -2), rest(), part(1, -2, -1)})});
    OnnxName y = node_.add("MatMul", {weights, wide(2)});
    if (grouped_) y = node_.add("Reshape", {y, sizes({part(0, 0, -1), part(2, -1, kEnd)})});
    node_.set(narrow(y));
  }

 private:
  static constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

  DType own() const { return node_.dtype(0); }
  DType sums() const { return own() == DType::f64 ? DType::f64 : DType::f32; }
  OnnxName number(double value) const { return node_.scalar_of(sums(), value); }
  OnnxName none() const { return number(-std::numeric_limits<double>::infinity()); }
  OnnxName wide(int input) const {
    const OnnxName x = node_.in(input);
    return own() == sums() ? x : node_.add("Cast", {x}, {{"to", sums()}});
  }
  OnnxName narrow(const OnnxName& y) const { return own() == sums() ? y : node_.add("Cast", {y}, {{"to", own()}}); }

  Integers last_exchanged() const {
    Integers perm;
    for (std::int64_t d = 0; d < rank_; ++d) perm.push_back(d);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return perm;
  }
  // Sizes [begin, end) of an input.
  OnnxName part(int input, std::int64_t begin, std::int64_t end) const {
    Attributes range{{"start", begin}};
    if (end != kEnd) range.set("end", end);
    return node_.add("Shape", {node_.in(input)}, range);
  }
  OnnxName rest() const { return node_.integers({-1}); }
  OnnxName sizes(OnnxNames parts) const { return node_.add("Concat", std::move(parts), {{"axis", std::int64_t{0}}}); }
  OnnxName count(int input) const {
    return node_.add("Squeeze", {part(input, -2, -1), node_.integers({0})});  // of queries or keys
  }

  // Scaled; the heads that share keys become one with all their queries.
  OnnxName queries() const {
    const OnnxName q = node_.add("Mul", {wide(0), number(a_.real("scale"))});
    return grouped_ ? node_.add("Reshape", {q, sizes({part(1, 0, -2), rest(), part(0, -1, kEnd)})}) : q;
  }
  OnnxName capped(const OnnxName& scores) const {
    const OnnxName cap = number(a_.real("softcap"));
    return node_.add("Mul", {node_.add("Tanh", {node_.add("Div", {scores, cap})}), cap});
  }
  // Where there is no attention, scores are -inf.
  OnnxName masked(OnnxName scores) const {
    if (masked_ && node_.dtype(3) == DType::boolean) scores = node_.add("Where", {node_.in(3), scores, none()});
    if (masked_ && node_.dtype(3) != DType::boolean) scores = node_.add("Add", {scores, wide(3)});
    if (!a_.boolean("causal")) return scores;
    const OnnxName first = node_.integer(a_.integer("causal_offset")), zero = node_.integer(0), one = node_.integer(1);
    const OnnxName end = node_.add("Add", {count(0), first});
    const OnnxName last_keys = node_.add("Unsqueeze", {node_.add("Range", {first, end, one}), node_.integers({1})});
    const OnnxName seen = node_.add("GreaterOrEqual", {last_keys, node_.add("Range", {zero, count(1), one})});
    return node_.add("Where", {seen, scores, none()});
  }
  // A query that attends to no key has weights of 0, not NaN.
  OnnxName softmax(const OnnxName& scores) const {
    const OnnxName weights = node_.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
    if (!masked_ && (!a_.boolean("causal") || a_.integer("causal_offset") >= 0)) return weights;
    const OnnxName most = node_.add_reduction("ReduceMax", scores, {-1});
    return node_.add("Where", {node_.add("Equal", {most, none()}), number(0), weights});
  }

  OnnxExportNode& node_;
  const Attributes& a_;
  std::int64_t rank_ = 0;
  bool grouped_ = false, masked_ = false;
};

void compose_attention(OnnxExportNode& node) { AttentionWriter(node).write(); }
void write_attention(OnnxExportNode& node) { node.set_by_function(compose_attention); }

// ---- normalisations

OnnxName cast_between(const OnnxExportNode& node, const OnnxName& x, DType from, DType to) {
  return from == to ? x : node.add("Cast", {x}, {{"to", to}});
}

// x / sqrt(mean(x^2) + epsilon) scale, along the last dimension.
void compose_rms_norm(OnnxExportNode& node) {
  const DType own = node.dtype(0), sums = node.dtype(1);
  const OnnxName x = cast_between(node, node.in(0), own, sums);
  const OnnxName mean = node.add_reduction("ReduceMean", node.add("Mul", {x, x}), {-1});
  const OnnxName safe = node.add("Add", {mean, node.number_like(1, node.attributes().real("epsilon"))});
  const OnnxName inverse = node.add("Reciprocal", {node.add("Sqrt", {safe})});
  const OnnxName y = node.add("Mul", {node.add("Mul", {x, inverse}), node.in(1)});
  node.set(0, cast_between(node, y, sums, own));
  if (node.wants(1)) node.set(1, node.add("Squeeze", {inverse, node.integers({-1})}));
}
void write_rms_norm(OnnxExportNode& node) { node.set_by_function(compose_rms_norm); }

// x [n,c,...] as [n,groups,rest], which each have a mean and a deviation.
void compose_group_norm(OnnxExportNode& node) {
  const DType own = node.dtype(0), sums = node.dtype(1);
  const std::int64_t groups = node.attributes().integer("groups");
  const std::int64_t channels = node.shape(0).has_rank() ? node.shape(0)[1] : kUnknown;
  if (groups == 0 && channels == kUnknown) fail(Code::unimplemented, "the number of its channels must be known");
  const OnnxName x = cast_between(node, node.in(0), own, sums);
  const OnnxName rows = node.add("Reshape", {x, node.integers({0, groups == 0 ? channels : groups, -1})});
  const OnnxName mean = node.add_reduction("ReduceMean", rows, {-1});
  const OnnxName difference = node.add("Sub", {rows, mean});
  const OnnxName variance = node.add_reduction("ReduceMean", node.add("Mul", {difference, difference}), {-1});
  const OnnxName safe = node.add("Add", {variance, node.number_like(1, node.attributes().real("epsilon"))});
  const OnnxName inverse = node.add("Reciprocal", {node.add("Sqrt", {safe})});
  const OnnxName normal = node.add("Reshape", {node.add("Mul", {difference, inverse}), node.add("Shape", {x})});
  Integers by_channel(static_cast<std::size_t>(node.rank(0)) - 1, 1);
  by_channel[0] = -1;
  const OnnxName along = node.integers(by_channel);
  const OnnxName scaled = node.add("Mul", {normal, node.add("Reshape", {node.in(1), along})});
  const OnnxName y = node.add("Add", {scaled, node.add("Reshape", {node.in(2), along})});
  node.set(0, cast_between(node, y, sums, own));
  const OnnxName last = node.integers({-1});
  if (node.wants(1)) node.set(1, node.add("Squeeze", {mean, last}));
  if (node.wants(2)) node.set(2, node.add("Squeeze", {inverse, last}));
}
void write_group_norm(OnnxExportNode& node) {
  // Other runtimes normalise instances of f32 only.
  const bool instances = node.attributes().integer("groups") == 0 && node.dtype(0) == DType::f32;
  if (!instances || node.wants(1) || node.wants(2)) return node.set_by_function(compose_group_norm);
  node.set(node.add("InstanceNormalization", node.all_inputs(), {{"epsilon", node.attributes().real("epsilon")}}));
}

constexpr OnnxExportOp kAttentionWriters[] = {
    {"Attention", write_attention},
    {"GroupNorm", write_group_norm},
    {"RMSNorm", write_rms_norm},
};

}  // namespace

std::span<const OnnxExportOp> onnx_attention_writers() { return kAttentionWriters; }

}  // namespace troupe
