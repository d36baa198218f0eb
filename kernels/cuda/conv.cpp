// Convolutions on a GPU (f32, f64, f16, bf16); conv_plan.hpp describes the three ways and their order.
//
// For f16 and bf16, FusedConv rounds once less if the library adds the bias; separate Conv, BiasAdd and activation
// ops each round.
#include <troupe/devices/cuda/cuda_error.hpp>
#include <troupe/kernels/common/activation.hpp>
#include <troupe/kernels/common/conv_geometry.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cuda/bias_launch.hpp>
#include <troupe/kernels/cuda/conv_cudnn.hpp>
#include <troupe/kernels/cuda/conv_launch.hpp>
#include <troupe/kernels/cuda/cublas_lt.hpp>
#include <troupe/kernels/cuda/epilogue_launch.hpp>

namespace troupe {
namespace {

std::byte* written(Tensor& t) { return t.mutable_raw(); }
// cuDNN takes the memory it reads and the memory it writes in one list.
void* any(const Tensor& t) { return const_cast<std::byte*>(t.raw()); }

// Adds a bias, if it is not null, and activates.
void add_bias(CudaDevice& device, DType dtype, const ConvGeometry& g, FusedActivation activation, const void* bias,
              Tensor& y) {
  const std::int64_t rows = g.batch * g.windows();
  if (g.channels_first && bias) {
    check_cuda(launch_bias_add_planes(dtype, y.raw(), bias, written(y), g.batch * g.out_channels, g.out_channels,
                                      g.windows(), device.stream()),
               "bias");
    bias = nullptr;
  }
  if (!bias && activation == FusedActivation::none) return;
  check_cuda(launch_bias_activation(dtype, activation, written(y), bias, rows, g.out_channels, device.stream()),
             "bias and activation");
}

// One convolution in one direction, with at least one term per sum.
struct Work {
  KernelContext& context;
  CudaDevice& device;
  DType dtype;
  const ConvGeometry& g;

  std::size_t element() const { return size_of(dtype); }
  DType sum_type() const { return dtype == DType::f64 ? DType::f64 : DType::f32; }
  std::int64_t windows() const { return g.batch * windows_of_image(g); }
  ConvKey key(ConvDirection direction) const {
    return {.direction = direction,
            .dtype = dtype,
            .tf32 = device.options().tf32,
            .deterministic = device.options().deterministic,
            .geometry = g};
  }
  ProductKey product(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b) const {
    return product_key(device, dtype, dtype, m, n, k, transpose_a, transpose_b);
  }
  // Our filter as cuDNN takes it: [height, width, in, out] is transposed to [out, height, width, in]; with channels
  // first it is as it is.
  void* to_cudnn(const Tensor& filter, const Workspace& turned) const {
    if (turned_bytes() == 0) return any(filter);
    check_cuda(
        launch_transpose(element(), filter.raw(), turned.data(), g.patch_size(), g.out_channels, device.stream()),
        "filter for a convolution");
    return turned.data();
  }
  void from_cudnn(const void* turned, void* filter) const {
    check_cuda(launch_transpose(element(), turned, filter, g.out_channels, g.patch_size(), device.stream()),
               "filter of a convolution");
  }
  std::size_t turned_bytes() const {
    return g.channels_first ? 0 : static_cast<std::size_t>(g.filter_size()) * element();
  }

  UnfoldSizes sizes(std::int64_t images) const {
    return {.images = images,
            .channels = g.in_channels,
            .height = g.rows.input,
            .width = g.columns.input,
            .kernel_height = g.rows.kernel,
            .kernel_width = g.columns.kernel,
            .stride_height = g.rows.stride,
            .stride_width = g.columns.stride,
            .before_height = g.rows.before,
            .before_width = g.columns.before,
            .out_height = g.rows.output,
            .out_width = g.columns.output};
  }
  // Calls fn(images, offset of the first image, offset of its result, alignment of the results), with offsets in bytes,
  // for each batch of images unfolded together.
  template <class Fn>
  void for_images(std::size_t row_element, Fn fn) const {
    const std::int64_t at_once = images_at_once(g, row_element), bytes = static_cast<std::int64_t>(element());
    const std::uint32_t alignment =
        at_once < g.batch ? alignment_after(at_once * g.result_size() * bytes) : alignment_after(0);
    for (std::int64_t first = 0; first < g.batch; first += at_once)
      fn(std::min(at_once, g.batch - first), first * g.image_size() * bytes, first * g.result_size() * bytes,
         alignment);
  }
  Workspace rows(std::size_t row_element) const {
    return Workspace(
        context,
        static_cast<std::size_t>(images_at_once(g, row_element) * windows_of_image(g) * g.patch_size()) * row_element);
  }
  void unfold(std::int64_t images, const std::byte* image, void* rows) const {
    check_cuda(launch_unfold(element(), sizes(images), image, rows, device.stream()), "windows for a convolution");
  }
};

DirectSizes direct_sizes(const ConvGeometry& g) {
  DirectSizes s{.batch = g.batch,
                .group_in = g.group_in(),
                .group_out = g.group_out(),
                .groups = g.groups,
                .channels_first = g.channels_first};
  const WindowAxis* const axes[] = {&g.depth, &g.rows, &g.columns};
  for (int i = 0; i < 3; ++i)
    s.axes[i] = {axes[i]->input, axes[i]->kernel, axes[i]->stride, axes[i]->dilation, axes[i]->output, axes[i]->before};
  return s;
}

// ---- forward; `bias` may be null

bool forward_by_cudnn(const Work& w, FusedActivation activation, const Tensor& x, const Tensor& filter,
                      const Tensor* bias, Tensor& y) {
  if (!fits_cudnn(w.dtype, w.g)) return false;
  auto& library = w.device.state<CudnnConvolutions>();
  const Workspace turned(w.context, w.turned_bytes());
  ConvMemory memory{.image = any(x), .filter = w.to_cudnn(filter, turned), .result = written(y)};
  const auto finish = [&](const void* addend, FusedActivation left) {
    add_bias(w.device, w.dtype, w.g, left, addend, y);
    return true;
  };
  if (bias) {
    memory.bias = any(*bias);
    // Try bias and ReLU in one kernel, then bias only, then plain: the first that an engine supports wins.
    ConvKey key = w.key(ConvDirection::forward);
    key.bias = true;
    key.relu = activation == FusedActivation::relu;
    if (key.relu && library.run(w.context, key, memory)) return true;
    key.relu = false;
    if (library.run(w.context, key, memory)) return finish(nullptr, activation);
    memory.bias = nullptr;
  }
  return library.run(w.context, w.key(ConvDirection::forward), memory) && (!bias || finish(bias->raw(), activation));
}

void forward_unfolded(const Work& w, FusedActivation activation, const Tensor& x, const Tensor& filter,
                      const Tensor* bias, Tensor& y) {
  const Workspace rows = w.rows(w.element());
  w.for_images(w.element(), [&](std::int64_t images, std::int64_t image, std::int64_t result, std::uint32_t alignment) {
    w.unfold(images, x.raw() + image, rows.data());
    ProductKey key = w.product(images * windows_of_image(w.g), w.g.out_channels, w.g.patch_size(), false, false);
    key.alignment = alignment;
    multiply(w.context, key, activation, rows.data(), filter.raw(), bias ? bias->raw() : nullptr, written(y) + result);
  });
}

void forward(const Work& w, FusedActivation activation, const Tensor& x, const Tensor& filter, const Tensor* bias,
             Tensor& y) {
  if (is_product(w.g))
    return multiply(w.context, w.product(w.windows(), w.g.out_channels, w.g.in_channels, false, false), activation,
                    x.raw(), filter.raw(), bias ? bias->raw() : nullptr, written(y));
  if (forward_by_cudnn(w, activation, x, filter, bias, y)) return;
  if (unfolds(w.g)) return forward_unfolded(w, activation, x, filter, bias, y);
  check_cuda(launch_direct_forward(w.dtype, direct_sizes(w.g), x.raw(), filter.raw(), written(y), w.device.stream()),
             "a convolution");
  add_bias(w.device, w.dtype, w.g, activation, bias ? bias->raw() : nullptr, y);
}

// ---- backward

void backward_input(const Work& w, const Tensor& filter, const Tensor& dy, Tensor& dx) {
  if (is_product(w.g))
    return multiply(w.context, w.product(w.windows(), w.g.in_channels, w.g.out_channels, false, true),
                    FusedActivation::none, dy.raw(), filter.raw(), nullptr, written(dx));
  if (fits_cudnn(w.dtype, w.g)) {
    const Workspace turned(w.context, w.turned_bytes());
    const ConvMemory memory{.image = written(dx), .filter = w.to_cudnn(filter, turned), .result = any(dy)};
    if (w.device.state<CudnnConvolutions>().run(w.context, w.key(ConvDirection::backward_input), memory)) return;
  }
  if (!unfolds(w.g))
    return check_cuda(launch_direct_backward_input(w.dtype, direct_sizes(w.g), filter.raw(), dy.raw(), written(dx),
                                                   w.device.stream()),
                      "the input's gradient");
  const std::size_t row_element = size_of(w.sum_type());
  const Workspace rows = w.rows(row_element);
  w.for_images(row_element, [&](std::int64_t images, std::int64_t image, std::int64_t result, std::uint32_t alignment) {
    ProductKey key = w.product(images * windows_of_image(w.g), w.g.patch_size(), w.g.out_channels, false, true);
    key.out_dtype = w.sum_type();
    key.alignment = alignment;
    multiply(w.context, key, FusedActivation::none, dy.raw() + result, filter.raw(), nullptr, rows.data());
    check_cuda(launch_fold(w.dtype, w.sizes(images), rows.data(), written(dx) + image, w.device.stream()),
               "sums of windows");
  });
}

void backward_filter(const Work& w, const Tensor& x, const Tensor& dy, Tensor& d_filter) {
  if (is_product(w.g))
    return multiply(w.context, w.product(w.g.in_channels, w.g.out_channels, w.windows(), true, false),
                    FusedActivation::none, x.raw(), dy.raw(), nullptr, written(d_filter));
  if (fits_cudnn(w.dtype, w.g)) {
    const Workspace turned(w.context, w.turned_bytes());
    const bool turns = w.turned_bytes() > 0;
    const ConvMemory memory{.image = any(x), .filter = turns ? turned.data() : written(d_filter), .result = any(dy)};
    if (w.device.state<CudnnConvolutions>().run(w.context, w.key(ConvDirection::backward_filter), memory))
      return turns ? w.from_cudnn(turned.data(), written(d_filter)) : void();
  }
  if (!unfolds(w.g))
    return check_cuda(launch_direct_backward_filter(w.dtype, direct_sizes(w.g), x.raw(), dy.raw(), written(d_filter),
                                                    w.device.stream()),
                      "the filter's gradient");
  // Sum in full precision and round once.
  const bool rounds = w.sum_type() != w.dtype;
  const Workspace sum(w.context, rounds ? static_cast<std::size_t>(w.g.filter_size()) * sizeof(float) : 0);
  void* const to = rounds ? sum.data() : written(d_filter);
  const Workspace rows = w.rows(w.element());
  bool first = true;
  w.for_images(w.element(), [&](std::int64_t images, std::int64_t image, std::int64_t result, std::uint32_t alignment) {
    w.unfold(images, x.raw() + image, rows.data());
    ProductKey key = w.product(w.g.patch_size(), w.g.out_channels, images * windows_of_image(w.g), true, false);
    key.out_dtype = w.sum_type();
    key.alignment = alignment;
    w.device.state<CublasLt>().multiply(w.context, key, rows.data(), dy.raw() + result, nullptr, to, !first);
    first = false;
  });
  if (rounds)
    check_cuda(
        launch_narrow(w.dtype, static_cast<const float*>(to), written(d_filter), w.g.filter_size(), w.device.stream()),
        "rounding of a filter's gradient");
}

// ---- kernels

Kernel make_convolution(const KernelInit& init, bool fused) {
  const ConvAttributes options = conv_attributes(init.attributes);
  const FusedActivation activation =
      fused ? parse_activation(init.attributes.string("activation")) : FusedActivation::none;
  return [=](KernelContext& context) {
    const Tensor &x = context.input(0), &filter = context.input(1);
    const ConvGeometry g = conv_geometry(x.shape(), filter.shape(), options);
    check_tensor("Conv: the filter", filter, x.dtype(), filter.shape());
    if (fused) check_tensor("FusedConv: bias", context.input(2), x.dtype(), Shape{g.out_channels});
    Tensor y = context.allocate(x.dtype(), g.result_shape());
    CudaDevice& device = cuda_device(context);
    const Tensor bias = fused ? aligned(context, context.input(2)) : Tensor();
    if (g.empty()) {
      clear(context, y, "Conv");
      if (fused && y.num_elements() > 0) add_bias(device, x.dtype(), g, activation, bias.raw(), y);
    } else {
      forward({context, device, x.dtype(), g}, activation, aligned(context, x), aligned(context, filter),
              fused ? &bias : nullptr, y);
    }
    context.set_output(0, std::move(y));
  };
}

Kernel make_backprop_input(const KernelInit& init) {
  return [options = conv_attributes(init.attributes)](KernelContext& context) {
    const Tensor& x = context.input(0);  // only its shape is used
    const Tensor &filter = context.input(1), &dy = context.input(2);
    Tensor dx = context.allocate(x.dtype(), x.shape());
    const ConvGeometry g = conv_geometry(x.shape(), filter.shape(), options);
    check_tensor("ConvBackpropInput: the filter", filter, x.dtype(), filter.shape());
    check_tensor("ConvBackpropInput: dy", dy, x.dtype(), g.result_shape());
    if (g.empty())
      clear(context, dx, "ConvBackpropInput");
    else
      backward_input({context, cuda_device(context), x.dtype(), g}, aligned(context, filter), aligned(context, dy), dx);
    context.set_output(0, std::move(dx));
  };
}

// The sizes are usually a constant, already on the host; otherwise the host waits for them.
Kernel make_transpose(const KernelInit& init) {
  const Tensor known = init.constant(2) ? *init.constant(2) : Tensor();
  return [options = conv_attributes(init.attributes), known](KernelContext& context) {
    const Tensor &x = context.input(0), &filter = context.input(1);
    const Tensor sizes = known.valid() ? known : context.device().read(context.input(2));
    check_rank("ConvTranspose: sizes", sizes.shape(), 1);
    const ConvGeometry g = transposed_geometry(x.shape(), filter.shape(), options, sizes.values<std::int64_t>());
    check_tensor("ConvTranspose: the filter", filter, x.dtype(), filter.shape());
    Tensor y = context.allocate(x.dtype(), g.image_shape());
    if (g.empty())
      clear(context, y, "ConvTranspose");
    else
      backward_input({context, cuda_device(context), x.dtype(), g}, aligned(context, filter), aligned(context, x), y);
    context.set_output(0, std::move(y));
  };
}

Kernel make_backprop_filter(const KernelInit& init) {
  return [options = conv_attributes(init.attributes)](KernelContext& context) {
    const Tensor& filter = context.input(1);  // only its shape is used
    const Tensor &x = context.input(0), &dy = context.input(2);
    Tensor d_filter = context.allocate(filter.dtype(), filter.shape());
    const ConvGeometry g = conv_geometry(x.shape(), filter.shape(), options);
    check_tensor("ConvBackpropFilter: x", x, filter.dtype(), x.shape());
    check_tensor("ConvBackpropFilter: dy", dy, filter.dtype(), g.result_shape());
    if (g.empty())
      clear(context, d_filter, "ConvBackpropFilter");
    else
      backward_filter({context, cuda_device(context), filter.dtype(), g}, aligned(context, x), aligned(context, dy),
                      d_filter);
    context.set_output(0, std::move(d_filter));
  };
}

}  // namespace

void register_cuda_conv_kernels(KernelRegistry& registry) {
  const auto types = {DType::f32, DType::f64, DType::f16, DType::bf16};
  add_cuda(registry, "Conv", types, [](const KernelInit& init) { return make_convolution(init, false); });
  add_cuda(registry, "FusedConv", types, [](const KernelInit& init) { return make_convolution(init, true); });
  add_cuda(registry, "ConvBackpropInput", types, make_backprop_input);
  add_cuda(registry, "ConvBackpropFilter", types, make_backprop_filter);
  add_cuda(registry, "ConvTranspose", types, make_transpose);
}

}  // namespace troupe
