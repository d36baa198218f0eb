// Convolution by oneDNN. Images stay NHWC; oneDNN chooses the layout of filters, which are small and reordered for each
// part.
//
// Measured with convolution_direct, 3x3, GFLOP/s on one core with reorders (peak 118), NHWC with filters of
// any layout / everything in blocked layouts / plain HWIO filters:
//
//                                 forward          by input          by filter
//   32x28x28x1 -> 32, VALID     62 /  64 / 43     7 /   7 / 14     106 / 68 / 41
//   32x13x13x32 -> 64, VALID   113 / 112 / 63   112 / 109 / 93     109 / 96 / 77
//   16x56x56x64 -> 64, SAME    117 / 106 / 68   117 / 110 / 92
//
// Hence: NHWC and filters of any layout, but plain filters for the input gradient with few channels. Winograd's
// algorithm would be up to twice as fast, but its rounding errors grow with the neighbours of a window instead of the
// window's own terms, and one NaN spreads to outputs that do not depend on it.
#include <array>

#include <troupe/kernels/cpu/conv_parts.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/kernels/cpu/onednn.hpp>

namespace troupe {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

enum class Direction { forward, backward_input, backward_filter };

using Cache = onednn::Cache<class Convolution, 14>;
Cache::Key key_of(Direction direction, DType dtype, const ConvGeometry& g) {
  return {static_cast<std::int64_t>(direction) * 256 + static_cast<std::int64_t>(dtype),
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

bool takes_plain_filter(Direction direction, DType dtype, const ConvGeometry& g) {
  return direction == Direction::backward_input && dtype == DType::f32 && g.in_channels <= 4;
}

struct Layouts {
  memory::desc image, filter, any_filter, result;
  memory::dims strides, before, after;
};
Layouts layouts_of(Direction direction, DType dtype, const ConvGeometry& g) {
  const auto type = onednn::data_type(dtype);
  const memory::dims filter{g.out_channels, g.in_channels, g.rows.kernel, g.columns.kernel};
  return {.image = {{g.batch, g.in_channels, g.rows.input, g.columns.input}, type, Tag::nhwc},
          .filter = {filter, type, Tag::hwio},
          .any_filter = {filter, type, takes_plain_filter(direction, dtype, g) ? Tag::hwio : Tag::any},
          .result = {{g.batch, g.out_channels, g.rows.output, g.columns.output}, type, Tag::nhwc},
          .strides = {g.rows.stride, g.columns.stride},
          .before = {g.rows.before, g.columns.before},
          .after = {g.rows.after, g.columns.after}};
}

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

// A convolution, plus the reorder of the filter if its layout is not HWIO.
class Convolution {
 public:
  Convolution(Direction direction, DType dtype, const ConvGeometry& g)
      : direction_(direction), layouts_(layouts_of(direction, dtype, g)) {
    const Layouts& l = layouts_;
    // Gradients need it only as a hint, with any filter layout.
    const Layouts hint = layouts_of(Direction::forward, dtype, g);
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, kAlgorithm, hint.image, hint.any_filter, hint.result, hint.strides,
         hint.before, hint.after},
        onednn::own_scratchpad(), onednn::engine());
    if (direction == Direction::forward) {
      adopt<dnnl::convolution_forward>(forward, forward.weights_desc());
    } else if (direction == Direction::backward_input) {
      const dnnl::convolution_backward_data::primitive_desc described(
          {kAlgorithm, l.image, l.any_filter, l.result, l.strides, l.before, l.after}, onednn::own_scratchpad(),
          onednn::engine(), forward);
      adopt<dnnl::convolution_backward_data>(described, described.weights_desc());
    } else {
      const dnnl::convolution_backward_weights::primitive_desc described(
          {kAlgorithm, l.image, l.any_filter, l.result, l.strides, l.before, l.after}, onednn::own_scratchpad(),
          onednn::engine(), forward);
      adopt<dnnl::convolution_backward_weights>(described, described.diff_weights_desc());
    }
  }

  // `filter` is read, except that backward_filter writes it; likewise the direction decides which of image and result
  // is computed.
  void run(const void* image, const void* filter, const void* result) {
    const Scratch own_layout(filter_bytes_);
    void* const packed = filter_bytes_ > 0 ? own_layout.data() : const_cast<void*>(filter);
    const bool backward_filter = direction_ == Direction::backward_filter;
    void* const data[] = {const_cast<void*>(image), packed, const_cast<void*>(result)};
    void* const reordered[] = {backward_filter ? packed : const_cast<void*>(filter),
                               backward_filter ? const_cast<void*>(filter) : packed};
    if (filter_bytes_ > 0 && !backward_filter) reorder_.run(reordered);
    primitive_.run(data);
    if (filter_bytes_ > 0 && backward_filter) reorder_.run(reordered);
  }

 private:
  template <class Kind, class Description>
  void adopt(const Description& described, const memory::desc& filter) {
    const bool forward = direction_ == Direction::forward, backward_input = direction_ == Direction::backward_input,
               backward_filter = direction_ == Direction::backward_filter;
    primitive_.add(backward_input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, layouts_.image);
    primitive_.add(backward_filter ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, filter);
    primitive_.add(forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, layouts_.result);
    primitive_.set(Kind(described), described.scratchpad_desc());
    if (filter == layouts_.filter) return;
    filter_bytes_ = filter.get_size();
    const memory::desc& from = backward_filter ? filter : layouts_.filter;
    const memory::desc& to = backward_filter ? layouts_.filter : filter;
    const dnnl::reorder::primitive_desc reorder(onednn::engine(), from, onednn::engine(), to, onednn::own_scratchpad());
    reorder_.add(DNNL_ARG_FROM, from);
    reorder_.add(DNNL_ARG_TO, to);
    reorder_.set(dnnl::reorder(reorder), reorder.scratchpad_desc());
  }

  Direction direction_;
  Layouts layouts_;
  onednn::Primitive primitive_;
  onednn::Primitive reorder_;
  std::size_t filter_bytes_ = 0;  // filter size in oneDNN's layout; 0 if that is HWIO
};

void run(Direction direction, DType dtype, const ConvGeometry& g, const void* image, const void* filter,
         const void* result) {
  thread_local Cache convolutions;
  convolutions.get(key_of(direction, dtype, g), [&] { return Convolution(direction, dtype, g); })
      .run(image, filter, result);
}

}  // namespace

void conv_forward(const ConvGeometry& g, const float* x, const float* filter, float* y) {
  run(Direction::forward, DType::f32, g, x, filter, y);
}
void conv_forward(const ConvGeometry& g, const BFloat16* x, const BFloat16* filter, BFloat16* y) {
  run(Direction::forward, DType::bf16, g, x, filter, y);
}

void conv_backward_input(const ConvGeometry& g, const float* filter, const float* dy, float* dx) {
  run(Direction::backward_input, DType::f32, g, dx, filter, dy);
}
void conv_backward_input(const ConvGeometry& g, const BFloat16* filter, const BFloat16* dy, BFloat16* dx) {
  run(Direction::backward_input, DType::bf16, g, dx, filter, dy);
}

void conv_backward_filter(const ConvGeometry& g, const float* x, const float* dy, float* d_filter) {
  run(Direction::backward_filter, DType::f32, g, x, d_filter, dy);
}
// In float: the bf16 code of oneDNN 2.6 multiplies memory beyond the image, which may hold NaN, by zeros.
void conv_backward_filter(const ConvGeometry& g, const BFloat16* x, const BFloat16* dy, float* d_filter) {
  const ScratchArray<float> image(g.batch * g.image_size()), result(g.batch * g.result_size());
  widen(x, image.data(), g.batch * g.image_size());
  widen(dy, result.data(), g.batch * g.result_size());
  conv_backward_filter(g, image.data(), result.data(), d_filter);
}

}  // namespace troupe
