// Functions of signals and recurrent layers. The package has their public forms, with defaults and documentation.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "apps/python/arguments.hpp"
#include "apps/python/dtypes.hpp"
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/recurrent.hpp>
#include <troupe/graph/builder/signal.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

void bind_signals(nb::module_& m) {
  m.def(
      "dft",
      [](nb::handle x, nb::handle length, std::int64_t axis, bool inverse, bool onesided) {
        return call({x, length}, [&](const Outputs& xs) {
          return dft(as_floating(xs[0]), {.axis = axis, .length = xs[1], .inverse = inverse, .onesided = onesided});
        });
      },
      "x"_a, "length"_a.none(), "axis"_a, "inverse"_a, "onesided"_a);
  m.def(
      "stft",
      [](nb::handle x, nb::handle frame_step, nb::handle window, nb::handle frame_length, bool onesided) {
        return call({x, frame_step, window, frame_length}, [&](const Outputs& xs) {
          const Output from = as_floating(xs[0]);
          StftOptions o;
          if (xs[2].valid()) o.window = cast(xs[2], from.dtype());
          o.frame_length = xs[3];
          o.onesided = onesided;
          return stft(from, xs[1], o);
        });
      },
      "x"_a, "frame_step"_a, "window"_a.none(), "frame_length"_a.none(), "onesided"_a);
  const auto window = [&](const char* name, Output (*fn)(Output, bool, DType, Name)) {
    m.def(name, [fn](nb::handle size, bool periodic, nb::handle dtype) {
      const DType type = dtype_from(dtype);
      return call({size}, [&](const Outputs& xs) { return fn(xs[0], periodic, type, {}); });
    });
  };
  window("hann_window", hann_window);
  window("hamming_window", hamming_window);
  window("blackman_window", blackman_window);
  m.def("mel_weight_matrix", [](std::int64_t bins, std::int64_t dft_length, std::int64_t sample_rate, double lower,
                                double upper, nb::handle dtype) {
    const DType type = dtype_from(dtype);
    const CallGraph of{&eager_graph()};
    Graph& g = *of.graph;
    return to_python(
        of, mel_weight_matrix(constant(g, bins), constant(g, dft_length), constant(g, sample_rate),
                              constant(g, static_cast<float>(lower)), constant(g, static_cast<float>(upper)), type));
  });
}

Direction direction_from(const std::string& text) {
  if (text == "forward") return Direction::forward;
  if (text == "reverse") return Direction::reverse;
  if (text == "bidirectional") return Direction::bidirectional;
  invalid_argument("the direction is 'forward', 'reverse' or 'bidirectional', not '{}'", text);
}

// As Python passes them: (name, alpha, beta).
using Activations = std::vector<std::tuple<std::string, double, double>>;

template <class Options>
Options recurrent_options(const std::string& direction, bool batch_major, const Activations& activations, double clip) {
  Options o;
  o.direction = direction_from(direction);
  o.batch_major = batch_major;
  for (const auto& [name, alpha, beta] : activations) o.activations.push_back({name, alpha, beta});
  o.clip = clip;
  return o;
}

void bind_recurrent(nb::module_& m) {
  m.def(
      "rnn",
      [](nb::handle x, nb::handle w, nb::handle r, nb::handle bias, nb::handle lengths, nb::handle initial_h,
         const std::string& direction, bool batch_major, const Activations& activations, double clip) {
        auto o = recurrent_options<RnnOptions>(direction, batch_major, activations, clip);
        return call({x, w, r, bias, lengths, initial_h}, [&](const Outputs& xs) {
          o.bias = xs[3];
          o.lengths = xs[4];
          o.initial_h = xs[5];
          const RnnOutputs out = rnn(xs[0], xs[1], xs[2], o);
          return Outputs{out.y, out.last_h};
        });
      },
      "x"_a, "w"_a, "r"_a, "bias"_a.none(), "lengths"_a.none(), "initial_h"_a.none(), "direction"_a, "batch_major"_a,
      "activations"_a, "clip"_a);
  m.def(
      "gru",
      [](nb::handle x, nb::handle w, nb::handle r, nb::handle bias, nb::handle lengths, nb::handle initial_h,
         const std::string& direction, bool batch_major, const Activations& activations, double clip,
         bool reset_after) {
        auto o = recurrent_options<GruOptions>(direction, batch_major, activations, clip);
        o.linear_before_reset = reset_after;
        return call({x, w, r, bias, lengths, initial_h}, [&](const Outputs& xs) {
          o.bias = xs[3];
          o.lengths = xs[4];
          o.initial_h = xs[5];
          const RnnOutputs out = gru(xs[0], xs[1], xs[2], o);
          return Outputs{out.y, out.last_h};
        });
      },
      "x"_a, "w"_a, "r"_a, "bias"_a.none(), "lengths"_a.none(), "initial_h"_a.none(), "direction"_a, "batch_major"_a,
      "activations"_a, "clip"_a, "reset_after"_a);
  m.def(
      "lstm",
      [](nb::handle x, nb::handle w, nb::handle r, nb::handle bias, nb::handle lengths, nb::handle initial_h,
         nb::handle initial_c, nb::handle peepholes, const std::string& direction, bool batch_major,
         const Activations& activations, double clip, bool input_forget) {
        auto o = recurrent_options<LstmOptions>(direction, batch_major, activations, clip);
        o.input_forget = input_forget;
        return call({x, w, r, bias, lengths, initial_h, initial_c, peepholes}, [&](const Outputs& xs) {
          o.bias = xs[3];
          o.lengths = xs[4];
          o.initial_h = xs[5];
          o.initial_c = xs[6];
          o.peepholes = xs[7];
          const LstmOutputs out = lstm(xs[0], xs[1], xs[2], o);
          return Outputs{out.y, out.last_h, out.last_c};
        });
      },
      "x"_a, "w"_a, "r"_a, "bias"_a.none(), "lengths"_a.none(), "initial_h"_a.none(), "initial_c"_a.none(),
      "peepholes"_a.none(), "direction"_a, "batch_major"_a, "activations"_a, "clip"_a, "input_forget"_a);
}

}  // namespace

void bind_sequence_functions(nb::module_& m) {
  bind_signals(m);
  bind_recurrent(m);
}

}  // namespace troupe::python
