// Functions of neural networks. The package has their public forms, with defaults and documentation.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/python/arguments.hpp"
#include <troupe/graph/builder/activations.hpp>
#include <troupe/graph/builder/attention.hpp>
#include <troupe/graph/builder/conv.hpp>
#include <troupe/graph/builder/image.hpp>
#include <troupe/graph/builder/linear.hpp>
#include <troupe/graph/builder/losses.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/nn.hpp>
#include <troupe/graph/builder/norm.hpp>
#include <troupe/graph/builder/order.hpp>
#include <troupe/graph/builder/pool.hpp>
#include <troupe/graph/builder/softmax.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

using Text = std::string;

void bind_activations(nb::module_& m) {
  const auto plain = [&](const char* name, Output (*fn)(Output, Name)) {
    m.def(name, [fn](nb::handle x) { return call({x}, [fn](const Outputs& xs) { return fn(xs[0], {}); }); });
  };
  plain("relu", relu);
  plain("relu6", relu6);
  plain("silu", silu);
  plain("mish", mish);
  plain("softsign", softsign);
  plain("hard_swish", hard_swish);
  const auto with_alpha = [&](const char* name, Output (*fn)(Output, double, Name)) {
    m.def(name, [fn](nb::handle x, double alpha) {
      return call({x}, [&](const Outputs& xs) { return fn(xs[0], alpha, {}); });
    });
  };
  with_alpha("elu", elu);
  with_alpha("celu", celu);
  with_alpha("leaky_relu", leaky_relu);
  with_alpha("thresholded_relu", thresholded_relu);
  m.def("selu", [](nb::handle x) { return call({x}, [](const Outputs& xs) { return selu(xs[0]); }); });
  m.def("gelu", [](nb::handle x, bool approximate) {
    return call({x}, [&](const Outputs& xs) { return gelu(xs[0], {.approximate = approximate}); });
  });
  m.def("hard_sigmoid", [](nb::handle x, double alpha, double beta) {
    return call({x}, [&](const Outputs& xs) { return hard_sigmoid(xs[0], {.alpha = alpha, .beta = beta}); });
  });
  m.def("prelu", [](nb::handle x, nb::handle slope) {
    return call_promoted({x, slope}, [](const Outputs& xs) { return prelu(xs[0], xs[1]); });
  });
  m.def("shrink", [](nb::handle x, double bias, double threshold) {
    return call({x}, [&](const Outputs& xs) { return shrink(xs[0], {.bias = bias, .threshold = threshold}); });
  });
  m.def("hardmax", [](nb::handle x, std::int64_t axis) {
    return call({x}, [&](const Outputs& xs) { return hardmax(as_floating(xs[0]), {.axis = axis}); });
  });
  m.def("softmax", [](nb::handle x, std::int64_t axis) {
    return call({x}, [&](const Outputs& xs) { return softmax(as_floating(xs[0]), {.axis = axis}); });
  });
  m.def("log_softmax", [](nb::handle x, std::int64_t axis) {
    return call({x}, [&](const Outputs& xs) { return log_softmax(as_floating(xs[0]), {.axis = axis}); });
  });
  m.def("dropout", [](nb::handle x, double rate, std::int64_t seed) {
    return call({x}, [&](const Outputs& xs) { return dropout(xs[0], rate, {.seed = seed}); });
  });
}

ConvOptions conv_options(const Integers& strides, const Text& padding, const Integers& pads, const Integers& dilations,
                         std::int64_t groups, const Text& data_format) {
  ConvOptions o;
  o.strides = strides;
  o.dilations = dilations;
  o.groups = groups;
  o.padding = pads.empty() ? parse_padding(padding) : Padding::explicit_pads;
  o.pads = pads;
  o.format = parse_data_format(data_format);
  return o;
}

void bind_convolutions(nb::module_& m) {
  m.def("conv", [](nb::handle x, nb::handle filter, const Integers& strides, const Text& padding, const Integers& pads,
                   const Integers& dilations, std::int64_t groups, const Text& data_format) {
    const ConvOptions o = conv_options(strides, padding, pads, dilations, groups, data_format);
    return call_promoted({x, filter}, [&](const Outputs& xs) { return conv(xs[0], xs[1], o); });
  });
  m.def("depthwise_conv2d", [](nb::handle x, nb::handle filter, const Integers& strides, const Text& padding,
                               const Integers& pads, const Integers& dilations, const Text& data_format) {
    const ConvOptions o = conv_options(strides, padding, pads, dilations, 1, data_format);
    return call_promoted({x, filter}, [&](const Outputs& xs) { return depthwise_conv2d(xs[0], xs[1], o); });
  });
  m.def("separable_conv2d",
        [](nb::handle x, nb::handle depthwise, nb::handle pointwise, const Integers& strides, const Text& padding,
           const Integers& pads, const Integers& dilations, const Text& data_format) {
          const ConvOptions o = conv_options(strides, padding, pads, dilations, 1, data_format);
          return call_promoted({x, depthwise, pointwise},
                               [&](const Outputs& xs) { return separable_conv2d(xs[0], xs[1], xs[2], o); });
        });
  m.def(
      "conv_transpose",
      [](nb::handle x, nb::handle filter, const std::optional<Integers>& sizes, const Integers& strides,
         const Text& padding, const Integers& dilations, const Text& data_format) {
        ConvTransposeOptions o;
        o.strides = strides;
        o.dilations = dilations;
        o.padding = parse_padding(padding);
        o.format = parse_data_format(data_format);
        return call_promoted({x, filter}, [&](const Outputs& xs) {
          return sizes ? conv_transpose(xs[0], xs[1], *sizes, o) : conv_transpose(xs[0], xs[1], o);
        });
      },
      "x"_a, "filter"_a, "sizes"_a.none(), "strides"_a, "padding"_a, "dilations"_a, "data_format"_a);
  const auto pool = [&](const char* name, auto fn) {
    m.def(name, [fn](nb::handle x, const Integers& ksize, const Integers& strides, const Text& padding,
                     const Integers& pads, const Text& data_format) {
      PoolOptions o;
      o.ksize = ksize;
      o.strides = strides;
      o.padding = pads.empty() ? parse_padding(padding) : Padding::explicit_pads;
      o.pads = pads;
      o.format = parse_data_format(data_format);
      return call({x}, [&](const Outputs& xs) { return fn(xs[0], o); });
    });
  };
  pool("max_pool", [](Output x, const PoolOptions& o) { return max_pool(x, o); });
  pool("avg_pool", [](Output x, const PoolOptions& o) { return avg_pool(x, o); });
  m.def("bias_add", [](nb::handle x, nb::handle bias, const Text& data_format) {
    return call_promoted({x, bias},
                         [&](const Outputs& xs) { return bias_add(xs[0], xs[1], parse_data_format(data_format)); });
  });
  m.def("resize", [](nb::handle images, const Integers& sizes, const Text& method, bool antialias) {
    const ResizeMode mode = method == "nearest"    ? ResizeMode::nearest
                            : method == "bilinear" ? ResizeMode::linear
                            : method == "bicubic"  ? ResizeMode::cubic
                                                   : throw Error(Code::invalid_argument,
                                                                 "resize: the method is 'nearest', 'bilinear' or "
                                                                  "'bicubic', not '" +
                                                                     method + "'");
    return call({images}, [&](const Outputs& xs) {
      return resize(xs[0], sizes, {.mode = mode, .cubic_coeff_a = -0.5, .antialias = antialias});
    });
  });
}

void bind_norms(nb::module_& m) {
  m.def("batch_norm", [](nb::handle x, nb::handle scale, nb::handle offset, double epsilon) {
    return call({x, scale, offset}, [&](const Outputs& xs) {
      const BatchNormOutputs out = batch_norm(xs[0], xs[1], xs[2], {.epsilon = epsilon});
      return Outputs{out.y, out.mean, out.variance};
    });
  });
  m.def("batch_norm_inference",
        [](nb::handle x, nb::handle scale, nb::handle offset, nb::handle mean, nb::handle variance, double epsilon) {
          return call({x, scale, offset, mean, variance}, [&](const Outputs& xs) {
            return batch_norm_inference(xs[0], xs[1], xs[2], xs[3], xs[4], {.epsilon = epsilon});
          });
        });
  m.def("layer_norm", [](nb::handle x, nb::handle scale, nb::handle offset, std::int64_t axis, double epsilon) {
    return call({x, scale, offset},
                [&](const Outputs& xs) { return layer_norm(xs[0], xs[1], xs[2], {.epsilon = epsilon, .axis = axis}); });
  });
  m.def("rms_norm", [](nb::handle x, nb::handle scale, std::int64_t axis, double epsilon) {
    return call({x, scale},
                [&](const Outputs& xs) { return rms_norm(xs[0], xs[1], {.epsilon = epsilon, .axis = axis}); });
  });
  m.def("group_norm",
        [](nb::handle x, nb::handle scale, nb::handle offset, std::int64_t groups, std::int64_t axis, double epsilon) {
          return call({x, scale, offset}, [&](const Outputs& xs) {
            return group_norm(xs[0], xs[1], xs[2], groups, {.epsilon = epsilon, .axis = axis});
          });
        });
  m.def("instance_norm", [](nb::handle x, nb::handle scale, nb::handle offset, std::int64_t axis, double epsilon) {
    return call({x, scale, offset}, [&](const Outputs& xs) {
      return instance_norm(xs[0], xs[1], xs[2], {.epsilon = epsilon, .axis = axis});
    });
  });
  m.def("local_response_norm",
        [](nb::handle x, std::int64_t size, double alpha, double beta, double bias, std::int64_t axis) {
          return call({x}, [&](const Outputs& xs) {
            return local_response_norm(xs[0], size, {.alpha = alpha, .beta = beta, .bias = bias, .axis = axis});
          });
        });
  m.def("lp_normalize", [](nb::handle x, std::int64_t axis, int p) {
    return call({x}, [&](const Outputs& xs) { return lp_normalize(xs[0], axis, p); });
  });
  m.def(
      "mean_variance_normalize",
      [](nb::handle x, nb::handle axis, double epsilon) {
        const Integers axes = integers_of(axis, "mean_variance_normalize").value_or(Integers{});
        return call({x}, [&](const Outputs& xs) { return mean_variance_normalize(xs[0], axes, {.epsilon = epsilon}); });
      },
      "x"_a, "axis"_a.none(), "epsilon"_a);
  m.def("rotary_embedding", [](nb::handle x, nb::handle cos, nb::handle sin, bool interleaved) {
    return call_promoted({x, cos, sin}, [&](const Outputs& xs) {
      return rotary_embedding(xs[0], xs[1], xs[2], {.interleaved = interleaved});
    });
  });
  m.def(
      "l2_normalize",
      [](nb::handle x, nb::handle axis, double epsilon) {
        const Integers axes = integers_of(axis, "l2_normalize").value_or(Integers{});
        return call({x}, [&](const Outputs& xs) { return l2_normalize(xs[0], axes, {.epsilon = epsilon}); });
      },
      "x"_a, "axis"_a.none(), "epsilon"_a);
  m.def(
      "moments",
      [](nb::handle x, nb::handle axis, bool keepdims) {
        const Integers axes = integers_of(axis, "moments").value_or(Integers{});
        return call({x}, [&](const Outputs& xs) {
          const Moments found = moments(xs[0], axes, {.keep_dims = keepdims});
          return Outputs{found.mean, found.variance};
        });
      },
      "x"_a, "axis"_a.none(), "keepdims"_a);
}

void bind_losses(nb::module_& m) {
  m.def(
      "sparse_softmax_cross_entropy",
      [](nb::handle logits, nb::handle labels, std::int64_t axis, std::optional<std::int64_t> ignore_class,
         double label_smoothing) {
        return call({logits, labels}, [&](const Outputs& xs) {
          SparseCrossEntropyOptions o;
          o.axis = axis;
          if (ignore_class) o.ignore_index = *ignore_class;
          o.label_smoothing = label_smoothing;
          return sparse_softmax_cross_entropy(xs[0], xs[1], o);
        });
      },
      "logits"_a, "labels"_a, "axis"_a, "ignore_class"_a.none(), "label_smoothing"_a);
  m.def("softmax_cross_entropy", [](nb::handle logits, nb::handle labels, std::int64_t axis, double label_smoothing) {
    return call_promoted({logits, labels}, [&](const Outputs& xs) {
      return softmax_cross_entropy(xs[0], xs[1], {.axis = axis, .label_smoothing = label_smoothing});
    });
  });
  m.def("sigmoid_cross_entropy", [](nb::handle logits, nb::handle labels) {
    return call_promoted({logits, labels}, [](const Outputs& xs) { return sigmoid_cross_entropy(xs[0], xs[1]); });
  });
  m.def("weighted_sigmoid_cross_entropy", [](nb::handle logits, nb::handle labels, double positive_weight) {
    return call_promoted({logits, labels}, [&](const Outputs& xs) {
      return weighted_sigmoid_cross_entropy(xs[0], xs[1], positive_weight);
    });
  });
  m.def("weighted_sparse_softmax_cross_entropy",
        [](nb::handle logits, nb::handle labels, nb::handle weights, std::int64_t axis) {
          return call({logits, labels, weights}, [&](const Outputs& xs) {
            return weighted_sparse_softmax_cross_entropy(xs[0], xs[1], cast(xs[2], xs[0].dtype()), {.axis = axis});
          });
        });
  m.def("log_uniform_candidates", [](std::int64_t count, std::int64_t range, std::int64_t seed) {
    const CallGraph of{&eager_graph()};
    return to_python(of, log_uniform_candidates(*of.graph, count, range, seed).classes);
  });
  const auto sampled = [&](const char* name,
                           Output (*fn)(ManyClasses, Output, Output, SampledClasses, SampledLossOptions)) {
    m.def(name, [fn](nb::handle weights, nb::handle biases, nb::handle inputs, nb::handle labels, nb::handle classes,
                     std::int64_t range, bool remove_accidental_hits) {
      return call({weights, biases, inputs, labels, classes}, [&](const Outputs& xs) {
        return fn({xs[0], xs[1]}, xs[2], xs[3], {xs[4], range}, {.remove_accidental_hits = remove_accidental_hits});
      });
    });
  };
  sampled("sampled_softmax_loss", sampled_softmax_loss);
  sampled("nce_loss", nce_loss);
  m.def("l2_loss", [](nb::handle x) { return call({x}, [](const Outputs& xs) { return l2_loss(xs[0]); }); });
  m.def("in_top_k", [](nb::handle targets, nb::handle predictions, std::int64_t k) {
    return call({targets, predictions},
                [&](const Outputs& xs) { return in_top_k(xs[1], xs[0], constant<std::int64_t>(*xs[1].graph, k)); });
  });
  m.def("ctc_loss", [](nb::handle logits, nb::handle labels, nb::handle logit_lengths, nb::handle label_lengths,
                       std::int64_t blank) {
    return call({logits, labels, logit_lengths, label_lengths},
                [&](const Outputs& xs) { return ctc_loss(xs[0], xs[1], xs[2], xs[3], {.blank = blank}); });
  });
  m.def(
      "attention",
      [](nb::handle q, nb::handle k, nb::handle v, nb::handle mask, bool causal, std::optional<double> scale) {
        return call({q, k, v, mask}, [&](const Outputs& xs) {
          AttentionOptions o;
          o.mask = xs[3];
          o.causal = causal;
          o.scale = scale;
          return attention(xs[0], xs[1], xs[2], o);
        });
      },
      "q"_a, "k"_a, "v"_a, "mask"_a.none(), "causal"_a, "scale"_a.none());
}

}  // namespace

void bind_nn_functions(nb::module_& m) {
  bind_activations(m);
  bind_convolutions(m);
  bind_norms(m);
  bind_losses(m);
}

}  // namespace troupe::python
