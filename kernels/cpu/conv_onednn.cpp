// Convolution by oneDNN. Creating a primitive generates code and takes a good part of a millisecond: each
// thread keeps those it has used, with their memory. oneDNN chooses the layout of filters; images stay NHWC.
#include <array>
#include <dnnl.hpp>
#include <map>

#include "kernels/cpu/conv_parts.hpp"
#include "kernels/cpu/openmp_guard.hpp"

namespace troupe {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// A thread keeps this many primitives; a graph with more distinct convolutions makes them anew.
constexpr std::size_t kCacheSize = 128;

enum class Direction { forward, backward_input, backward_filter };

using Key = std::array<std::int64_t, 14>;
Key key_of(Direction direction, const ConvGeometry& g) {
  return {static_cast<std::int64_t>(direction),
          g.batch,
          g.in_channels,
          g.out_channels,
          g.rows.input,
          g.rows.kernel,
          g.rows.stride,
          g.rows.before,
          g.rows.after,
          g.columns.input,
          g.columns.kernel,
          g.columns.stride,
          g.columns.before,
          g.columns.after};
}

struct Layouts {
  memory::desc image, filter, any_filter, result;
  memory::dims strides, before, after;
};
Layouts layouts_of(const ConvGeometry& g) {
  constexpr auto f32 = memory::data_type::f32;
  const memory::dims filter{g.out_channels, g.in_channels, g.rows.kernel, g.columns.kernel};
  return {.image = {{g.batch, g.in_channels, g.rows.input, g.columns.input}, f32, Tag::nhwc},
          .filter = {filter, f32, Tag::hwio},
          .any_filter = {filter, f32, Tag::any},
          .result = {{g.batch, g.out_channels, g.rows.output, g.columns.output}, f32, Tag::nhwc},
          .strides = {g.rows.stride, g.columns.stride},
          .before = {g.rows.before, g.columns.before},
          .after = {g.rows.after, g.columns.after}};
}

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

dnnl::convolution_forward::primitive_desc describe_forward(const Layouts& l,
                                                           const dnnl::primitive_attr& attributes,
                                                           const dnnl::engine& engine) {
  return {{dnnl::prop_kind::forward_training, kAlgorithm, l.image, l.any_filter, l.result, l.strides,
           l.before, l.after},
          attributes,
          engine};
}

// One primitive with the memory it works on. `filter` is oneDNN's copy where its layout differs from HWIO.
class Convolution {
 public:
  Convolution(Direction direction, const ConvGeometry& g, const dnnl::engine& engine)
      : direction_(direction), layouts_(layouts_of(g)) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(
        dnnl::scratchpad_mode::user);  // kept by us: oneDNN's own is made anew for each call
    const auto forward = describe_forward(layouts_, attributes, engine);
    if (direction == Direction::forward) {
      adopt(dnnl::convolution_forward(forward), forward, forward.weights_desc(), engine);
    } else if (direction == Direction::backward_input) {
      const dnnl::convolution_backward_data::primitive_desc described(
          {kAlgorithm, layouts_.image, layouts_.any_filter, layouts_.result, layouts_.strides,
           layouts_.before, layouts_.after},
          attributes, engine, forward);
      adopt(dnnl::convolution_backward_data(described), described, described.weights_desc(), engine);
    } else {
      const dnnl::convolution_backward_weights::primitive_desc described(
          {kAlgorithm, layouts_.image, layouts_.any_filter, layouts_.result, layouts_.strides,
           layouts_.before, layouts_.after},
          attributes, engine, forward);
      adopt(dnnl::convolution_backward_weights(described), described, described.diff_weights_desc(), engine);
    }
  }

  // `filter` is read, or written by backward_filter; likewise the one of image and result that the direction
  // computes.
  void run(dnnl::stream& stream, const float* image, const float* filter, const float* result) {
    image_.set_data_handle(const_cast<float*>(image), stream);
    user_filter_.set_data_handle(const_cast<float*>(filter), stream);
    result_.set_data_handle(const_cast<float*>(result), stream);
    const bool backward_filter = direction_ == Direction::backward_filter;
    if (reorder_ && !backward_filter) reorder_.execute(stream, user_filter_, filter_);
    const bool forward = direction_ == Direction::forward,
               backward_input = direction_ == Direction::backward_input;
    primitive_.execute(stream, {{backward_input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, image_},
                                {backward_filter ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
                                 reorder_ ? filter_ : user_filter_},
                                {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, result_},
                                {DNNL_ARG_SCRATCHPAD, scratchpad_}});
    if (reorder_ && backward_filter) reorder_.execute(stream, filter_, user_filter_);
    stream.wait();
  }

 private:
  template <class Description>
  void adopt(dnnl::primitive primitive, const Description& described, const memory::desc& filter,
             const dnnl::engine& engine) {
    primitive_ = std::move(primitive);
    image_ = memory(layouts_.image, engine, nullptr);
    result_ = memory(layouts_.result, engine, nullptr);
    user_filter_ = memory(layouts_.filter, engine, nullptr);
    scratchpad_ = memory(described.scratchpad_desc(), engine);
    if (filter == layouts_.filter) return;
    filter_ = memory(filter, engine);
    reorder_ = direction_ == Direction::backward_filter ? dnnl::reorder(filter_, user_filter_)
                                                        : dnnl::reorder(user_filter_, filter_);
  }

  Direction direction_;
  Layouts layouts_;
  dnnl::primitive primitive_;
  dnnl::reorder reorder_;  // empty if oneDNN takes HWIO
  memory image_, user_filter_, filter_, result_, scratchpad_;
};

struct ThreadState {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Key, Convolution> convolutions;
};

void run(Direction direction, const ConvGeometry& g, const float* image, const float* filter,
         const float* result) {
  // Primitives hold memory they write: threads cannot share them.
  thread_local ThreadState state;
  const OpenMpGuard guard;
  const Key key = key_of(direction, g);
  auto it = state.convolutions.find(key);
  if (it == state.convolutions.end()) {
    if (state.convolutions.size() >= kCacheSize) state.convolutions.clear();
    it = state.convolutions.emplace(key, Convolution(direction, g, state.engine)).first;
  }
  it->second.run(state.stream, image, filter, result);
}

}  // namespace

void conv_forward(const ConvGeometry& g, const float* x, const float* filter, float* y) {
  run(Direction::forward, g, x, filter, y);
}

void conv_backward_input(const ConvGeometry& g, const float* filter, const float* dy, float* dx) {
  run(Direction::backward_input, g, dx, filter, dy);
}

void conv_backward_filter(const ConvGeometry& g, const float* x, const float* dy, float* d_filter) {
  run(Direction::backward_filter, g, x, d_filter, dy);
}

}  // namespace troupe
