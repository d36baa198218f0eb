// Cases of gradient_test.cpp: recurrent layers, attention.
#include "tests/kernels/gradient_cases.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe::testing {
namespace {

// Inputs: x, w, r, bias, initial_h, and of an LSTM initial_c and peepholes. 3 steps, batch 2, 2 inputs, 3 units.
std::vector<Shape> layer_shapes(std::int64_t gates, std::int64_t directions, bool lstm) {
  std::vector<Shape> out{{3, 2, 2},
                         {directions, gates * 3, 2},
                         {directions, gates * 3, 3},
                         {directions, 2 * gates * 3},
                         {directions, 2, 3}};
  if (lstm) out.push_back({directions, 2, 3}), out.push_back({directions, 9});
  return out;
}

GradientCase layer(std::string name, std::vector<Shape> shapes, std::function<Outputs(Graph&, const Outputs&)> build) {
  return {.name = std::move(name),
          .shapes = std::move(shapes),
          .build = std::move(build),
          .low = -1,
          .high = 1,
          .twice = false};
}

void add_rnn(std::vector<GradientCase>& out) {
  const std::vector<RecurrentActivation> activations{{"affine", 0.7, 0.1},
                                                     {"leaky_relu", 0.2},
                                                     {"thresholded_relu", 0.05},
                                                     {"scaled_tanh", 0.8, 1.1},
                                                     {"elu", 0.5},
                                                     {"hard_sigmoid", 0.4, 0.5},
                                                     {"softsign"},
                                                     {"softplus"},
                                                     {"relu"},
                                                     {"sigmoid"}};
  for (const RecurrentActivation& f : activations)
    out.push_back(layer("Rnn_" + f.name, layer_shapes(1, 1, false), [f](Graph&, const Outputs& x) {
      const RnnOutputs y = rnn(x[0], x[1], x[2], {.bias = x[3], .initial_h = x[4], .activations = {f}});
      return Outputs{y.y, y.last_h};
    }));
  out.push_back(
      layer("RnnBatchMajor", {{2, 3, 2}, {2, 3, 2}, {2, 3, 3}, {2, 6}, {2, 2, 3}}, [](Graph& g, const Outputs& x) {
        const RnnOutputs y = rnn(x[0], x[1], x[2],
                                 {.direction = Direction::bidirectional,
                                  .batch_major = true,
                                  .bias = x[3],
                                  .lengths = constant<std::int64_t>(g, {3, 1}),
                                  .initial_h = x[4],
                                  .clip = 0.6});
        return Outputs{y.y, y.last_h};
      }));
}

void add_gru(std::vector<GradientCase>& out) {
  for (const bool linear : {false, true}) {
    const std::string suffix = linear ? "Linear" : "";
    out.push_back(layer("Gru" + suffix, layer_shapes(3, 1, false), [=](Graph&, const Outputs& x) {
      const RnnOutputs y = gru(x[0], x[1], x[2], {.linear_before_reset = linear, .bias = x[3], .initial_h = x[4]});
      return Outputs{y.y, y.last_h};
    }));
    out.push_back(layer("GruLengths" + suffix, layer_shapes(3, 2, false), [=](Graph& g, const Outputs& x) {
      const RnnOutputs y = gru(x[0], x[1], x[2],
                               {.direction = Direction::bidirectional,
                                .linear_before_reset = linear,
                                .bias = x[3],
                                .lengths = constant<std::int64_t>(g, {2, 0}),
                                .initial_h = x[4]});
      return Outputs{y.y, y.last_h};
    }));
  }
}

void add_lstm(std::vector<GradientCase>& out) {
  out.push_back(layer("Lstm", layer_shapes(4, 1, true), [](Graph&, const Outputs& x) {
    const LstmOutputs y =
        lstm(x[0], x[1], x[2], {.bias = x[3], .initial_h = x[4], .initial_c = x[5], .peepholes = x[6], .clip = 0.9});
    return Outputs{y.y, y.last_h, y.last_c};
  }));
  out.push_back(layer("LstmInputForget", layer_shapes(4, 1, true), [](Graph&, const Outputs& x) {
    const LstmOutputs y = lstm(x[0], x[1], x[2],
                               {.direction = Direction::reverse,
                                .input_forget = true,
                                .bias = x[3],
                                .initial_h = x[4],
                                .initial_c = x[5],
                                .peepholes = x[6]});
    return Outputs{y.y, y.last_c};
  }));
  out.push_back(layer("LstmLengths", layer_shapes(4, 2, true), [](Graph& g, const Outputs& x) {
    const LstmOutputs y = lstm(x[0], x[1], x[2],
                               {.direction = Direction::bidirectional,
                                .bias = x[3],
                                .lengths = constant<std::int32_t>(g, {1, 3}),
                                .initial_h = x[4],
                                .initial_c = x[5],
                                .peepholes = x[6]});
    return Outputs{y.y, y.last_h, y.last_c};
  }));
  out.push_back(layer("LstmLastOnly", {{3, 2, 2}, {1, 12, 2}, {1, 12, 3}},
                      [](Graph&, const Outputs& x) { return Outputs{lstm(x[0], x[1], x[2]).last_h}; }));
}

void add_attention(std::vector<GradientCase>& out) {
  const auto attended = [](std::string name, std::vector<Shape> shapes, AttentionOptions options) {
    return GradientCase{.name = std::move(name),
                        .shapes = std::move(shapes),
                        .build = of([=](auto& x) {
                          AttentionOptions own = options;
                          own.scale = 0.8;
                          if (x.size() > 3) own.mask = x[3];
                          return attention(x[0], x[1], x[2], own);
                        }),
                        .low = -1,
                        .high = 1};
  };
  out.push_back(attended("Attention", {{2, 3, 4}, {2, 5, 4}, {2, 5, 2}}, {}));
  out.push_back(attended("AttentionCausalGrouped", {{2, 4, 3, 2}, {2, 2, 5, 2}, {2, 2, 5, 2}},
                         {.causal = true, .causal_offset = 1, .softcap = 1.2}));
  out.push_back(attended("AttentionMask", {{2, 2, 3, 2}, {2, 2, 4, 2}, {2, 2, 4, 3}, {2, 3, 4}}, {.softcap = 2}));
  out.push_back(attended("AttentionMaskOfKeys", {{2, 2, 3, 2}, {2, 1, 4, 2}, {2, 1, 4, 3}, {2, 1, 1, 4}}, {}));
  out.push_back(
      {.name = "AttentionOfNoKeys",  // for query 1, by either mask
       .shapes = {{1, 3, 2}, {1, 3, 2}, {1, 3, 2}},
       .build = of([](auto& x) {
         const Tensor some = Tensor::of<bool>(Shape{3, 3}, {true, true, false, false, false, false, true, false, true});
         const double none = -std::numeric_limits<double>::infinity();
         const Tensor added = Tensor::of<double>(Shape{3, 3}, {1, 0, none, none, none, none, none, 0, 2});
         const Output first = attention(x[0], x[1], x[2], {.mask = constant(*x[0].graph, some), .scale = 1});
         return first + attention(x[0], x[1], x[2], {.mask = constant(*x[0].graph, added), .scale = 1});
       }),
       .low = -1,
       .high = 1});
  for (const bool interleaved : {false, true})
    out.push_back(
        {.name = interleaved ? "RotaryInterleaved" : "Rotary",
         .shapes = {{2, 3, 5}, {3, 2}, {3, 2}},
         .build = of([=](auto& x) { return rotary_embedding(x[0], x[1], x[2], {.interleaved = interleaved}); }),
         .dynamic = false});
}

}  // namespace

std::vector<GradientCase> recurrent_gradients() {
  std::vector<GradientCase> out;
  add_rnn(out);
  add_gru(out);
  add_lstm(out);
  add_attention(out);
  return out;
}

}  // namespace troupe::testing
