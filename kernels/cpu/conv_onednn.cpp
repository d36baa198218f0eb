// Convolution by oneDNN.
//
// Channels last: images stay as they are; oneDNN chooses the layout of filters, which are small and reordered for each
// part. Measured with convolution_direct, 3x3, GFLOP/s on one core with reorders (peak 118), NHWC with filters of
// any layout / everything in blocked layouts / plain HWIO filters:
//
//                                 forward          by input          by filter
//   32x28x28x1 -> 32, VALID     62 /  64 / 43     7 /   7 / 14     106 / 68 / 41
//   32x13x13x32 -> 64, VALID   113 / 112 / 63   112 / 109 / 93     109 / 96 / 77
//   16x56x56x64 -> 64, SAME    117 / 106 / 68   117 / 110 / 92
//
// and ms on another core, 16x56x56, SAME:
//   128 channels, depthwise    5.8 / 9.8 / 65    11 /  16 / 309    17 / 22 / 320
//   128 -> 128, 4 groups        74 /  76 / 138   69 /  64 / 102    71 / 81 / 165
//
// Hence: NHWC and filters of any layout, but plain filters for the input gradient with few channels. Winograd's
// algorithm would be up to twice as fast, but its rounding errors grow with the neighbours of a window instead of the
// window's own terms, and one NaN spreads to outputs that do not depend on it.
//
// Channels first: plain images have only slow primitives (depthwise 57 ms for 12), so everything is in the layouts that
// oneDNN prefers, reordered for each part.
#include <algorithm>
#include <array>
#include <optional>

#include <troupe/kernels/cpu/conv_parts.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/kernels/cpu/onednn.hpp>

namespace troupe {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// with_...: forward, with a bias and what else is named where sums are made.
enum class Direction { forward, with_bias, with_relu, with_sum, with_sum_and_relu, backward_input, backward_filter };

bool is_forward(Direction direction) { return direction <= Direction::with_sum_and_relu; }
Direction direction_of(const ConvEnding& ending) {
  if (!ending.bias) return Direction::forward;
  if (ending.add) return ending.relu ? Direction::with_sum_and_relu : Direction::with_sum;
  return ending.relu ? Direction::with_relu : Direction::with_bias;
}
dnnl::primitive_attr attributes_of(Direction direction) {
  dnnl::post_ops after;
  if (direction == Direction::with_sum || direction == Direction::with_sum_and_relu) after.append_sum();
  if (direction == Direction::with_relu || direction == Direction::with_sum_and_relu)
    after.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
  dnnl::primitive_attr out = onednn::own_scratchpad();
  out.set_post_ops(after);
  return out;
}

using Cache = onednn::Cache<class CachedConvolution, 25>;
Cache::Key key_of(Direction direction, DType dtype, const ConvGeometry& g, const FilterSlice& slice) {
  Cache::Key key{((static_cast<std::int64_t>(direction) * 256 + static_cast<std::int64_t>(dtype)) * 4 + g.spatial) * 2 +
                     (g.channels_first ? 1 : 0),
                 g.batch,
                 g.in_channels,
                 g.out_channels,
                 g.groups,
                 slice.begin,
                 slice.of};
  std::size_t at = 7;
  for (const WindowAxis* axis : {&g.depth, &g.rows, &g.columns})
    for (const std::int64_t size : {axis->input, axis->kernel, axis->stride * (std::int64_t{1} << 32) + axis->dilation,
                                    axis->output, axis->before, axis->after})
      key[at++] = size;
  return key;
}

bool takes_plain_filter(Direction direction, DType dtype, const ConvGeometry& g) {
  return direction == Direction::backward_input && dtype == DType::f32 && g.in_channels <= 4 && g.plain();
}

// Of image, filter and result: as in our memory, and as oneDNN may choose.
struct Layouts {
  std::array<memory::desc, 3> own, wanted;
  memory::dims strides, dilations, before, after;
};

Tag image_tag(const ConvGeometry& g) {
  if (g.spatial == 3) return g.channels_first ? Tag::ncdhw : Tag::ndhwc;
  return g.channels_first ? Tag::nchw : Tag::nhwc;
}
Tag filter_tag(const ConvGeometry& g) {
  if (g.spatial == 3)
    return g.groups > 1 ? (g.channels_first ? Tag::goidhw : Tag::dhwigo) : (g.channels_first ? Tag::oidhw : Tag::dhwio);
  return g.groups > 1 ? (g.channels_first ? Tag::goihw : Tag::hwigo) : (g.channels_first ? Tag::oihw : Tag::hwio);
}

// With channels last, only these are faster by more than the reorders take.
bool reorders_images(Direction direction, const ConvGeometry& g) {
  return g.channels_first ||
         (direction == Direction::backward_filter && std::max(g.rows.dilation, g.columns.dilation) > 1);
}

Layouts layouts_of(Direction direction, DType dtype, const ConvGeometry& g) {
  Layouts out;
  memory::dims image{g.batch, g.in_channels}, filter{g.group_out(), g.group_in()}, result{g.batch, g.out_channels};
  if (g.groups > 1) filter.insert(filter.begin(), g.groups);
  for (const WindowAxis* axis : {&g.depth, &g.rows, &g.columns}) {
    if (axis == &g.depth && g.spatial < 3) continue;  // an image of one dimension has rows of size 1
    image.push_back(axis->input);
    filter.push_back(axis->kernel);
    result.push_back(axis->output);
    out.strides.push_back(axis->stride);
    out.dilations.push_back(axis->dilation - 1);
    out.before.push_back(axis->before);
    out.after.push_back(axis->after);
  }
  const auto type = onednn::data_type(dtype);
  const auto any = [&](Tag own, bool free) { return free ? Tag::any : own; };
  out.own = {memory::desc(image, type, image_tag(g)), memory::desc(filter, type, filter_tag(g)),
             memory::desc(result, type, image_tag(g))};
  const bool free_images = reorders_images(direction, g);
  out.wanted = {memory::desc(image, type, any(image_tag(g), free_images)),
                memory::desc(filter, type, any(filter_tag(g), !takes_plain_filter(direction, dtype, g))),
                memory::desc(result, type, any(image_tag(g), free_images))};
  return out;
}

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

// A convolution, plus reorders of what is in another layout. Throws dnnl::error if oneDNN has none.
class Convolution {
 public:
  Convolution(Direction direction, DType dtype, const ConvGeometry& g, const FilterSlice& slice)
      : written_(is_forward(direction)                    ? 2
                 : direction == Direction::backward_input ? 0
                                                          : 1),
        sliced_(!slice.whole()) {
    Layouts l = layouts_of(direction, dtype, g);
    if (!slice.whole()) l.own[1] = slice_of_own(direction, dtype, g, slice);
    const auto& [image, filter, result] = l.wanted;
    // Gradients need it only as a hint, with any filter layout.
    const Layouts hint = layouts_of(Direction::forward, dtype, g);
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, kAlgorithm, hint.wanted[0], hint.wanted[1], hint.wanted[2], hint.strides,
         hint.dilations, hint.before, hint.after},
        onednn::own_scratchpad(), onednn::engine());
    if (is_forward(direction) && direction != Direction::forward) {
      const memory::desc bias({g.out_channels}, onednn::data_type(dtype), Tag::a);
      const dnnl::convolution_forward::primitive_desc d({dnnl::prop_kind::forward_inference, kAlgorithm, image, filter,
                                                         bias, result, l.strides, l.dilations, l.before, l.after},
                                                        attributes_of(direction), onednn::engine());
      adopt<dnnl::convolution_forward>(d, l, {d.src_desc(), d.weights_desc(), d.dst_desc()},
                                       {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST});
      primitive_.add(DNNL_ARG_BIAS, bias);
      if (!slice.whole()) find_in_whole(direction, dtype, g, slice, d.weights_desc());
    } else if (direction == Direction::forward) {
      adopt<dnnl::convolution_forward>(forward, l, {forward.src_desc(), forward.weights_desc(), forward.dst_desc()},
                                       {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST});
    } else if (direction == Direction::backward_input) {
      const dnnl::convolution_backward_data::primitive_desc d(
          {kAlgorithm, image, filter, result, l.strides, l.dilations, l.before, l.after}, onednn::own_scratchpad(),
          onednn::engine(), forward);
      adopt<dnnl::convolution_backward_data>(d, l, {d.diff_src_desc(), d.weights_desc(), d.diff_dst_desc()},
                                             {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST});
    } else {
      const dnnl::convolution_backward_weights::primitive_desc d(
          {kAlgorithm, image, filter, result, l.strides, l.dilations, l.before, l.after}, onednn::own_scratchpad(),
          onednn::engine(), forward);
      adopt<dnnl::convolution_backward_weights>(d, l, {d.src_desc(), d.diff_weights_desc(), d.diff_dst_desc()},
                                                {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST});
    }
  }

  // Image, filter and result; the direction decides which of them is written. The bias of a direction with one, else
  // null. `kept`: of the filter, or null.
  void run(const std::array<void*, 3>& data, const void* bias, KeptLayout* kept) {
    const void* const ready = kept ? kept_filter(*kept, data[1]) : nullptr;
    const Scratch image(operands_[0].bytes), filter(ready ? 0 : operands_[1].bytes), result(operands_[2].bytes);
    const std::array<void*, 3> own{image.data(), filter.data(), result.data()};
    std::array<void*, 4> used{data[0], data[1], data[2], const_cast<void*>(bias)};
    for (std::size_t i = 0; i < 3; ++i) {
      if (operands_[i].bytes == 0) continue;
      if (i == 1 && ready) {
        used[i] = const_cast<void*>(ready);
        continue;
      }
      used[i] = own[i];
      if (i != written_) operands_[i].reorder.run(std::array{data[i], own[i]});
    }
    primitive_.run(std::span(used).first(bias ? 4 : 3));
    if (operands_[written_].bytes > 0) operands_[written_].reorder.run(std::array{own[written_], data[written_]});
  }

 private:
  template <class Kind, class Description>
  void adopt(const Description& described, const Layouts& layouts, const std::array<memory::desc, 3>& chosen,
             const std::array<int, 3>& arguments) {
    for (std::size_t i = 0; i < 3; ++i) {
      primitive_.add(arguments[i], chosen[i]);
      if (chosen[i] == layouts.own[i]) continue;
      operands_[i].bytes = chosen[i].get_size();
      if (i == 1) filter_layout_ = layout_key(layouts.own[i], chosen[i]);
      set_reorder(operands_[i].reorder, i == written_ ? chosen[i] : layouts.own[i],
                  i == written_ ? layouts.own[i] : chosen[i]);
    }
    primitive_.set(Kind(described), described.scratchpad_desc());
  }

  static void set_reorder(onednn::Primitive& out, const memory::desc& from, const memory::desc& to) {
    const dnnl::reorder::primitive_desc reorder(onednn::engine(), from, onednn::engine(), to, onednn::own_scratchpad());
    out.add(DNNL_ARG_FROM, from);
    out.add(DNNL_ARG_TO, to);
    out.set(dnnl::reorder(reorder), reorder.scratchpad_desc());
  }

  static memory::desc slice_of_own(Direction direction, DType dtype, const ConvGeometry& g, const FilterSlice& slice) {
    ConvGeometry whole = g;
    whole.out_channels = slice.of;
    memory::dims size{g.out_channels, g.in_channels, g.rows.kernel, g.columns.kernel};
    return layouts_of(direction, dtype, whole).own[1].submemory_desc(size, {0, 0, 0, 0});
  }

  // Looks whether the slice in its layout is a part of the whole filter in its own: then that is kept.
  void find_in_whole(Direction direction, DType dtype, const ConvGeometry& g, const FilterSlice& slice,
                     const memory::desc& chosen) {
    ConvGeometry all = g;
    all.out_channels = slice.of;
    const Layouts l = layouts_of(direction, dtype, all);
    const dnnl::convolution_forward::primitive_desc d(
        {dnnl::prop_kind::forward_inference, kAlgorithm, l.wanted[0], l.wanted[1],
         memory::desc({all.out_channels}, onednn::data_type(dtype), Tag::a), l.wanted[2], l.strides, l.dilations,
         l.before, l.after},
        attributes_of(direction), onednn::engine());
    const memory::desc whole = d.weights_desc();
    const dnnl_memory_desc_t &a = chosen.data, &b = whole.data;
    const dnnl_blocking_desc_t &part = a.format_desc.blocking, &of = b.format_desc.blocking;
    bool same = whole != l.own[1] && a.extra.flags == 0 && b.extra.flags == 0 && part.inner_nblks == of.inner_nblks;
    std::int64_t block = 1;  // of output channels
    for (int i = 0; same && i < of.inner_nblks; ++i) {
      same = part.inner_blks[i] == of.inner_blks[i] && part.inner_idxs[i] == of.inner_idxs[i];
      if (of.inner_idxs[i] == 0) block *= of.inner_blks[i];
    }
    for (int i = 0; same && i < b.ndims; ++i) same = part.strides[i] == of.strides[i];
    if (!same || slice.begin % block != 0) return;
    whole_.bytes = whole.get_size();
    whole_offset_ = slice.begin / block * of.strides[0] * static_cast<std::int64_t>(size_of(dtype));
    begin_ = slice.begin * static_cast<std::int64_t>(size_of(dtype));
    set_reorder(whole_.reorder, l.own[1], whole);
    filter_layout_ = layout_key(l.own[1], whole);
  }

  // Null if there is none. `filter`: where ours begins.
  const void* kept_filter(KeptLayout& kept, void* filter) {
    const auto get = [&](Operand& operand, void* from) {
      return static_cast<const std::byte*>(kept.get(filter_layout_, operand.bytes, [&](void* to) {
        operand.reorder.run(std::array{from, to});
      }));
    };
    if (whole_.bytes == 0) return sliced_ || operands_[1].bytes == 0 ? nullptr : get(operands_[1], filter);
    const std::byte* const all = get(whole_, static_cast<std::byte*>(filter) - begin_);
    return all ? all + whole_offset_ : nullptr;
  }

  struct Operand {
    onednn::Primitive reorder;
    std::size_t bytes = 0;  // in oneDNN's layout; 0 if that is ours
  };
  // One memory may be a filter in either of our layouts.
  static std::vector<std::int64_t> layout_key(const memory::desc& own, const memory::desc& chosen) {
    std::vector<std::int64_t> out = onednn::numbers_of(own);
    const std::vector<std::int64_t> to = onednn::numbers_of(chosen);
    out.insert(out.end(), to.begin(), to.end());
    return out;
  }
  std::size_t written_;
  std::array<Operand, 3> operands_;
  std::vector<std::int64_t> filter_layout_;
  onednn::Primitive primitive_;
  // Of a slice: the whole filter, and where the slice is in it, bytes; in our layout, in oneDNN's.
  bool sliced_;
  Operand whole_;
  std::int64_t begin_ = 0, whole_offset_ = 0;
};

struct CachedConvolution {
  std::optional<Convolution> found;
};

// Returns false if oneDNN has no primitive for this convolution.
bool run(Direction direction, DType dtype, const ConvGeometry& g, const void* image, const void* filter,
         const void* result, KeptLayout* kept = nullptr, const void* bias = nullptr, const FilterSlice& slice = {}) {
  thread_local Cache convolutions;
  CachedConvolution& cached = convolutions.get(key_of(direction, dtype, g, slice), [&] {
    CachedConvolution made;
    try {
      made.found.emplace(direction, dtype, g, slice);
    } catch (const dnnl::error&) {
    }
    return made;
  });
  if (!cached.found) return false;
  cached.found->run({const_cast<void*>(image), const_cast<void*>(filter), const_cast<void*>(result)}, bias, kept);
  return true;
}

// bf16 that oneDNN has no primitive for, in float.
class WidenedPart {
 public:
  WidenedPart(const BFloat16* from, std::int64_t size) : values_(size) { widen(from, values_.data(), size); }
  const float* data() const { return values_.data(); }

 private:
  ScratchArray<float> values_;
};

}  // namespace

void conv_forward(const ConvGeometry& g, const float* x, const float* filter, float* y, KeptLayout* kept) {
  if (!run(Direction::forward, DType::f32, g, x, filter, y, kept)) unfolded_forward(g, x, filter, y);
}
bool conv_forward(const ConvGeometry& g, const float* x, const float* filter, const FilterSlice& slice,
                  const ConvEnding& ending, float* y, KeptLayout* kept) {
  return run(direction_of(ending), DType::f32, g, x, filter, y, kept, ending.bias, slice);
}
void conv_forward(const ConvGeometry& g, const BFloat16* x, const BFloat16* filter, BFloat16* y, KeptLayout* kept) {
  if (run(Direction::forward, DType::bf16, g, x, filter, y, kept)) return;
  const WidenedPart image(x, g.batch * g.image_size()), weights(filter, g.filter_size());
  const ScratchArray<float> result(g.batch * g.result_size());
  conv_forward(g, image.data(), weights.data(), result.data(), nullptr);
  narrow(result.data(), y, g.batch * g.result_size());
}

void conv_backward_input(const ConvGeometry& g, const float* filter, const float* dy, float* dx) {
  if (!run(Direction::backward_input, DType::f32, g, dx, filter, dy)) unfolded_backward_input(g, filter, dy, dx);
}
void conv_backward_input(const ConvGeometry& g, const BFloat16* filter, const BFloat16* dy, BFloat16* dx) {
  if (run(Direction::backward_input, DType::bf16, g, dx, filter, dy)) return;
  const WidenedPart weights(filter, g.filter_size()), result(dy, g.batch * g.result_size());
  const ScratchArray<float> image(g.batch * g.image_size());
  conv_backward_input(g, weights.data(), result.data(), image.data());
  narrow(image.data(), dx, g.batch * g.image_size());
}

void conv_backward_filter(const ConvGeometry& g, const float* x, const float* dy, float* d_filter) {
  if (!run(Direction::backward_filter, DType::f32, g, x, d_filter, dy)) unfolded_backward_filter(g, x, dy, d_filter);
}
// In float: the bf16 code of oneDNN 2.6 multiplies memory beyond the image, which may hold NaN, by zeros.
void conv_backward_filter(const ConvGeometry& g, const BFloat16* x, const BFloat16* dy, float* d_filter) {
  const WidenedPart image(x, g.batch * g.image_size()), result(dy, g.batch * g.result_size());
  conv_backward_filter(g, image.data(), result.data(), d_filter);
}

}  // namespace troupe
