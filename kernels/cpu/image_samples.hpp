// What ops share that sample images at computed places (GridSample, CropAndResize, RoiAlign): a place becomes a few
// elements of the image with weights; the sums over them, and the gradients, are the same for all.
#pragma once

#include <string_view>
#include <type_traits>
#include <vector>

#include <troupe/devices/kernel.hpp>
#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/messages/function_ref.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// Weighted elements of some places of a group.
struct Samples {
  std::vector<std::int64_t> starts;  // of each place, in the lists below
  std::vector<std::int64_t> elements;
  std::vector<double> weights, down, right;  // `down`, `right`: derivatives for the place's coordinates
  std::vector<char> outside;                 // places that have the extrapolation value

  void clear() {
    starts.assign(1, 0);
    for (auto* list : {&weights, &down, &right}) list->clear();
    elements.clear();
    outside.clear();
  }
  void add(std::int64_t element, double weight, double d = 0, double r = 0) {
    elements.push_back(element);
    weights.push_back(weight);
    down.push_back(d);
    right.push_back(r);
  }
  void finish(bool is_outside = false) {
    starts.push_back(std::ssize(elements));
    outside.push_back(is_outside);
  }
};

// What is sampled: `places` places of each of `groups`, all channels.
struct Sampling {
  std::int64_t channels, elements;  // of an image
  std::int64_t groups, places;
  bool channels_last;
  FunctionRef<std::int64_t(std::int64_t group)> image;
  FunctionRef<void(std::int64_t group, std::int64_t place, Samples& to)> add;
  bool max = false;  // the greatest product instead of their sum
  double extrapolation = 0;

  std::int64_t channel_stride() const { return channels_last ? 1 : elements; }
  std::int64_t element_stride() const { return channels_last ? channels : 1; }
};
// y, of `shape`: the sums, or greatest products, at all places.
Tensor sampled(Device& device, const Sampling& s, const Tensor& x, const Shape& shape);
// The gradient for x, which is read for maxima only.
Tensor sample_gradient(Device& device, const Sampling& s, const Tensor& dy, const Tensor& x);
// The gradients for the places' coordinates: (down, right) of each place of each group.
std::vector<double> place_gradient(Device& device, const Sampling& s, const Tensor& x, const Tensor& dy);

// The dtype in which samples of images of this dtype are computed: f32 or f64.
DType sample_dtype(DType dtype);
Tensor as_dtype(Device& device, const Tensor& x, DType dtype);
// Adds a kernel that calls run(context, settings), with the settings that settings_of() reads from the attributes.
template <class Settings>
void add_sampler(KernelRegistry& registry, const char* op, Settings (*settings_of)(const Attributes&),
                 void (*run)(KernelContext&, const std::type_identity_t<Settings>&)) {
  registry.add({op, "CPU", {}, [=](const KernelInit& init) -> Kernel {
                  return [run, settings = settings_of(init.attributes)](KernelContext& c) { run(c, settings); };
                }});
}

// Throws invalid_argument unless each of the `groups` has a number of one of `count` images.
void check_images(std::string_view op, Dims images, std::int64_t groups, std::int64_t count);

}  // namespace troupe
