#include "troupe/graph/builder/recurrent.hpp"

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/math.hpp>

namespace troupe {
namespace {

const char* to_attribute(Direction direction) {
  return direction == Direction::forward ? "forward" : direction == Direction::reverse ? "reverse" : "bidirectional";
}

// One call of an op, for the options that all cells have.
template <class Options>
class RecurrentCall {
 public:
  RecurrentCall(Output x, Output w, Output r, const Options& options) : options_(options) {
    Output steps_first = options.batch_major ? transpose(x, {1, 0, 2}) : x;
    inputs_ = {steps_first, w, r};
    add(options.bias);
    inputs_.push_back(options.lengths.valid() ? cast(options.lengths, DType::i64)
                                              : constant(*x.graph, Tensor(DType::i64, Shape{0})));
    add_state(options.initial_h);
    attributes_.set("U", x.dtype() == DType::f64 ? DType::f64 : DType::f32);
    attributes_.set("direction", std::string(to_attribute(options.direction)));
    attributes_.set("clip", options.clip);
  }

  void add(Output optional) {
    inputs_.push_back(optional.valid() ? optional : constant(*inputs_[0].graph, Tensor(inputs_[0].dtype(), Shape{0})));
  }
  void add_state(Output state) { add(state.valid() && options_.batch_major ? transpose(state, {1, 0, 2}) : state); }
  void set(std::string name, AttrValue value) { attributes_.set(std::move(name), std::move(value)); }
  void set_activations(std::vector<RecurrentActivation> defaults) {
    std::vector<RecurrentActivation> all = options_.activations.empty() ? defaults : options_.activations;
    const std::size_t directions = options_.direction == Direction::bidirectional ? 2 : 1;
    if (all.size() == defaults.size() && directions == 2)
      for (std::size_t i = 0; i < defaults.size(); ++i) all.push_back(RecurrentActivation(all[i]));
    std::vector<std::string> names;
    std::vector<double> alphas, betas;
    for (const RecurrentActivation& f : all) {
      names.push_back(f.name);
      alphas.push_back(f.alpha);
      betas.push_back(f.beta);
    }
    attributes_.set("activations", names);
    attributes_.set("alphas", alphas);
    attributes_.set("betas", betas);
  }
  // `states`: outputs after y that are states.
  Outputs run(const char* op, std::size_t states) {
    Outputs out = add_outputs(op, inputs_, attributes_, options_.name);
    if (!options_.batch_major) return out;
    out[0] = transpose(out[0], {2, 0, 1, 3});
    for (std::size_t i = 1; i <= states; ++i) out[i] = transpose(out[i], {1, 0, 2});
    return out;
  }

 private:
  const Options& options_;
  Outputs inputs_;
  Attributes attributes_;
};

}  // namespace

RnnOutputs rnn(Output x, Output w, Output r, RnnOptions options) {
  RecurrentCall call(x, w, r, options);
  call.set_activations({{"tanh"}});
  const Outputs out = call.run("RNN", 1);
  return {out[0], out[1]};
}

RnnOutputs gru(Output x, Output w, Output r, GruOptions options) {
  RecurrentCall call(x, w, r, options);
  call.set_activations({{"sigmoid"}, {"tanh"}});
  call.set("linear_before_reset", options.linear_before_reset);
  const Outputs out = call.run("GRU", 1);
  return {out[0], out[1]};
}

LstmOutputs lstm(Output x, Output w, Output r, LstmOptions options) {
  RecurrentCall call(x, w, r, options);
  call.add_state(options.initial_c);
  call.add(options.peepholes);
  call.set_activations({{"sigmoid"}, {"tanh"}, {"tanh"}});
  call.set("input_forget", options.input_forget);
  const Outputs out = call.run("LSTM", 2);
  return {out[0], out[1], out[2]};
}

}  // namespace troupe
