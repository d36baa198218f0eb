// RNN, GRU and LSTM, as loops of TensorFlow: While with a body for one step. Formulas and weights are those of ONNX
// (graph/builder/recurrent.hpp); what the inputs contribute is one product before the loop.
#include <algorithm>

#include <troupe/graph/formats/saved_model/export_node.hpp>

namespace troupe {
namespace {

using Texts = std::vector<std::string>;
using Reals = std::vector<double>;

// Adds nodes to the graph or to a body.
class TfOps {
 public:
  explicit TfOps(TfGraphWriter& writer) : writer_(writer) {}
  TfName operator()(const std::string& op, const TfNames& inputs, const Attributes& attributes = {}) const {
    return writer_.add(op, inputs, attributes).at(0);
  }
  TfNames parts(const TfName& x, std::int64_t count) const {
    return writer_.add("Split", {integer(1), x}, {{"num_split", count}});
  }
  TfName integer(std::int32_t value) const { return writer_.constant(Tensor::scalar(value)); }
  TfGraphWriter& writer() const { return writer_; }

 private:
  TfGraphWriter& writer_;
};

class TfRecurrentWriter {
 public:
  explicit TfRecurrentWriter(const TfExportNode& node)
      : node_(node), a_(node.attributes()), cell_(node.node().op->name), units_(node.dim(2, 2)) {
    if (a_.real("clip") != 0) fail(Code::unimplemented, "activations with bounds (clip) are not written");
    if (cell_ == "LSTM" && (a_.boolean("input_forget") || node.shape(7) != Shape{0}))
      fail(Code::unimplemented, "an LSTM with peepholes, or without a gate to forget, is not written");
    if (node.shape(4) != Shape{0}) lengths_ = node.cast(node.in(4), DType::i32);
  }

  void write() {
    const std::string& direction = a_.string("direction");
    const std::int64_t directions = direction == "bidirectional" ? 2 : 1;
    const auto split = [&](int input) {
      if (node_.shape(input) == Shape{0}) return TfNames(static_cast<std::size_t>(directions));
      return node_.add_many("Unpack", {node_.in(input)}, {{"num", directions}});
    };
    const TfNames w = split(1), r = split(2), bias = split(3), h = split(5),
                  c = cell_ == "LSTM" ? split(6) : TfNames(2);
    TfNames ys, last_h, last_c;
    for (std::size_t d = 0; d < static_cast<std::size_t>(directions); ++d) {
      reverse_ = direction == "reverse" || d == 1;
      activation_ = d * a_.get<Texts>("activations").size() / static_cast<std::size_t>(directions);
      const TfNames out = run(w[d], r[d], bias[d], h[d], c[d]);
      ys.push_back(out[0]);
      last_h.push_back(out[1]);
      if (cell_ == "LSTM") last_c.push_back(out[2]);
    }
    node_.set(0, node_.add("Pack", ys, {{"axis", std::int64_t{1}}}));
    node_.set(1, node_.add("Pack", last_h));
    if (cell_ == "LSTM") node_.set(2, node_.add("Pack", last_c));
  }

 private:
  // The inputs of a step; of those after the states, the body changes none.
  struct Values {
    TfName step{}, items{}, h{}, c{}, steps{}, x{}, r{}, bias{}, lengths{};
  };

  TfName reversed(const TfName& x) const {  // each sequence, if there are lengths
    if (!reverse_) return x;
    if (lengths_.empty()) return node_.add("ReverseV2", {x, node_.integers({0})});
    return node_.add("ReverseSequence", {x, lengths_}, {{"seq_dim", std::int64_t{0}}, {"batch_dim", std::int64_t{1}}});
  }
  TfName state(const TfName& given) const {
    if (!given.empty()) return given;
    const TfName dims = node_.joined({node_.dims_of(node_.in(0), 1, 1), node_.integers({units_})});
    return node_.add("Fill", {dims, node_.number_like(0, 0)});
  }

  // y [steps,batch,units], the last h, the last c.
  TfNames run(const TfName& w, const TfName& r, const TfName& bias, const TfName& h, const TfName& c) {
    Values v;
    v.x = node_.add("BatchMatMulV2", {reversed(node_.in(0)), w}, {{"adj_y", true}});
    if (!bias.empty()) {
      const TfNames both = node_.add_many("Split", {node_.integer32(0), bias}, {{"num_split", std::int64_t{2}}});
      v.x = node_.add("AddV2", {v.x, both[0]});
      v.bias = both[1];
    }
    v.r = r;
    v.lengths = lengths_;
    v.h = state(h);
    if (cell_ == "LSTM") v.c = state(c);
    const TfName steps = node_.add("Reshape", {node_.dims_of(node_.in(0), 0, 1), node_.integers({})});
    v.steps = node_.cast(steps, DType::i32);
    v.step = node_.integer32(0);
    const TfName item = node_.constant(
        Tensor::of<std::int32_t>(Shape{2}, std::vector<std::int32_t>{-1, static_cast<std::int32_t>(units_)}));
    v.items = node_.add("TensorListReserve", {item, v.steps}, {{"element_dtype", node_.dtype(0)}});
    const TfNames made =
        node_.add_many("StatelessWhile", list_of(v),
                       {{"cond", FunctionName{function("cond", v)}}, {"body", FunctionName{function("body", v)}}});
    const TfName y = node_.add("TensorListStack", {made[1], item}, {{"element_dtype", node_.dtype(0)}});
    return {reversed(y), made[2], cell_ == "LSTM" ? made[3] : TfName()};
  }

  template <class V, class Visit>
  static void for_each(V& v, const Visit& visit) {
    for (auto* value : {&v.step, &v.items, &v.h, &v.c, &v.steps, &v.x, &v.r, &v.bias, &v.lengths})
      if (!value->empty()) visit(*value);
  }
  static TfNames list_of(const Values& v) {
    TfNames out;
    for_each(v, [&](const TfName& value) { out.push_back(value); });
    return out;
  }

  std::string function(const char* part, const Values& outside) const {
    TfGraphWriter writer(node_.writer().state(), node_.writer().graph(), false);
    Values v = outside;
    int i = 0;
    for_each(
        v, [&](TfName& value) { value = writer.argument(fmt::format("value_{}", i++), node_.writer().dtype(value)); });
    const TfNames arguments = list_of(v);
    const TfOps add(writer);
    const bool body = std::string_view(part) == "body";
    const TfNames results = body ? list_of(step_of(add, v)) : TfNames{add("Less", {v.step, v.steps})};
    const std::string name = writer.state().unique_name(fmt::format("{}_{}", function_prefix(), part));
    writer.add_function(name, arguments, results);
    return name;
  }
  std::string function_prefix() const {
    std::string out = node_.node().name;
    std::ranges::replace(out, '/', '_');
    return out;
  }

  Values step_of(const TfOps& add, const Values& v) const {
    Values next = v;
    const TfName x = add("GatherV2", {v.x, v.step, add.integer(0)});
    if (cell_ == "LSTM")
      lstm(add, v, x, next);
    else
      next.h = cell_ == "GRU" ? gru(add, v, x) : activated(add, 0, add("AddV2", {x, product(add, v.h, v.r, v.bias)}));
    TfName y = next.h;
    if (!v.lengths.empty()) {  // behind the end of a sequence its state stays, and y is 0
      const TfName runs = add("ExpandDims", {add("Less", {v.step, v.lengths}), add.integer(1)});
      y = add("SelectV2", {runs, next.h, add("ZerosLike", {next.h})});
      next.h = add("SelectV2", {runs, next.h, v.h});
      if (!v.c.empty()) next.c = add("SelectV2", {runs, next.c, v.c});
    }
    next.items = add("TensorListSetItem", {v.items, v.step, y});
    next.step = add("AddV2", {v.step, add.integer(1)});
    return next;
  }

  TfName product(const TfOps& add, const TfName& h, const TfName& r, const TfName& bias) const {
    const TfName out = add("MatMul", {h, r}, {{"transpose_b", true}});
    return bias.empty() ? out : add("AddV2", {out, bias});
  }

  // Gates i, o, f, c.
  void lstm(const TfOps& add, const Values& v, const TfName& x, Values& next) const {
    const TfNames gates = add.parts(add("AddV2", {x, product(add, v.h, v.r, v.bias)}), 4);
    const TfName i = activated(add, 0, gates[0]), o = activated(add, 0, gates[1]), f = activated(add, 0, gates[2]);
    const TfName kept = add("Mul", {f, v.c}), added = add("Mul", {i, activated(add, 1, gates[3])});
    next.c = add("AddV2", {kept, added});
    next.h = add("Mul", {o, activated(add, 2, next.c)});
  }

  // Gates z, r, h.
  TfName gru(const TfOps& add, const Values& v, const TfName& x) const {
    const TfNames in = add.parts(x, 3);
    const TfNames state = add.parts(product(add, v.h, v.r, v.bias), 3);
    const TfName z = activated(add, 0, add("AddV2", {in[0], state[0]}));
    const TfName r = activated(add, 0, add("AddV2", {in[1], state[1]}));
    TfName inner;
    if (a_.boolean("linear_before_reset")) {
      inner = add("Mul", {r, state[2]});
    } else {
      const TfName rows = add.writer().add("Split", {add.integer(0), v.r}, {{"num_split", std::int64_t{3}}})[2];
      TfName bias;
      if (!v.bias.empty())
        bias = add.writer().add("Split", {add.integer(0), v.bias}, {{"num_split", std::int64_t{3}}})[2];
      inner = product(add, add("Mul", {r, v.h}), rows, bias);
    }
    const TfName c = activated(add, 1, add("AddV2", {in[2], inner}));
    return add("AddV2", {c, add("Mul", {z, add("Sub", {v.h, c})})});
  }

  TfName number(const TfOps& add, double value) const { return scalar_in(add.writer(), node_.dtype(0), value); }

  // f, g or h of the formulas.
  TfName activated(const TfOps& add, std::size_t which, const TfName& x) const {
    const std::string& name = a_.get<Texts>("activations").at(activation_ + which);
    const double alpha = a_.get<Reals>("alphas").at(activation_ + which);
    const double beta = a_.get<Reals>("betas").at(activation_ + which);
    constexpr std::pair<const char*, const char*> kSame[] = {{"relu", "Relu"},         {"tanh", "Tanh"},
                                                             {"sigmoid", "Sigmoid"},   {"softsign", "Softsign"},
                                                             {"softplus", "Softplus"}, {"elu", "Elu"}};
    for (const auto& [ours, theirs] : kSame)
      if (name == ours && (name != "elu" || alpha == 1)) return add(theirs, {x});
    if (name == "leaky_relu") return add("LeakyRelu", {x}, {{"alpha", alpha}});
    if (name == "affine" && alpha == 1 && beta == 0) return x;
    if (name != "affine" && name != "hard_sigmoid")
      fail(Code::unimplemented, "the activation '{}' is not written", name);
    const TfName line = add("AddV2", {add("Mul", {x, number(add, alpha)}), number(add, beta)});
    if (name == "affine") return line;
    return add("Minimum", {add("Maximum", {line, number(add, 0)}), number(add, 1)});
  }

  const TfExportNode& node_;
  const Attributes& a_;
  const std::string& cell_;
  std::int64_t units_;
  TfName lengths_{};
  bool reverse_ = false;
  std::size_t activation_ = 0;  // the first of the direction
};

void write_tf_recurrent(TfExportNode& node) { TfRecurrentWriter(node).write(); }

constexpr TfExportOp kTfRecurrentWriters[] = {
    {"GRU", write_tf_recurrent},
    {"LSTM", write_tf_recurrent},
    {"RNN", write_tf_recurrent},
};

}  // namespace

std::span<const TfExportOp> tensorflow_recurrent_writers() { return kTfRecurrentWriters; }

}  // namespace troupe
