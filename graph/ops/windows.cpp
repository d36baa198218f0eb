#include "troupe/graph/ops/windows.hpp"

#include <limits>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kMostWindow = std::numeric_limits<std::int32_t>::max();

std::string_view axis_name(int axis, int spatial) {
  constexpr std::string_view kNames[] = {"depth", "height", "width"};
  return kNames[kMaxSpatial - spatial + axis];
}

std::int64_t entry(const std::vector<std::int64_t>& list, int i, std::int64_t otherwise) {
  return list.empty() ? otherwise : list[static_cast<std::size_t>(i)];
}

// "2 integers (height, width)".
std::string list_of(int spatial) {
  std::string names;
  for (int i = 0; i < spatial; ++i) names += (i > 0 ? ", " : "") + std::string(axis_name(i, spatial));
  return std::to_string(spatial) + (spatial == 1 ? " integer (" : " integers (") + names + ")";
}

void check_list(std::string_view name, const std::vector<std::int64_t>& list, int spatial) {
  if (list.empty()) return;
  if (static_cast<int>(list.size()) != spatial)
    invalid_argument("attribute '{}' must have {}, not {}", name, list_of(spatial), list.size());
  for (const std::int64_t value : list)
    if (value < 1 || value > kMostWindow)
      invalid_argument("attribute '{}' has {}, which is not from 1 to {}", name, value, kMostWindow);
}

void check_kernel(std::string_view axis, std::int64_t kernel) {
  if (kernel < 1 || kernel > kMostWindow)
    invalid_argument("{}: a window of {}, which is not from 1 to {}", axis, kernel, kMostWindow);
}

void split_padding(Padding padding, std::int64_t total, WindowAxis& axis) {
  axis.before = padding == Padding::same ? total / 2 : total - total / 2;
  axis.after = total - axis.before;
}

bool is_same(Padding padding) { return padding == Padding::same || padding == Padding::same_lower; }

// A window axis without input and output.
WindowAxis bare_axis(const WindowOptions& options, int axis, int spatial, std::int64_t kernel) {
  WindowAxis out{.input = kUnknown,
                 .kernel = kernel,
                 .stride = entry(options.strides, axis, 1),
                 .dilation = entry(options.dilations, axis, 1),
                 .output = kUnknown};
  if (options.padding == Padding::explicit_pads) {
    out.before = entry(options.pads, axis, 0);
    out.after = entry(options.pads, spatial + axis, 0);
  }
  return out;
}

}  // namespace

WindowOptions window_options(const Attributes& attributes) {
  WindowOptions out;
  const auto list = [&](std::string_view name, std::vector<std::int64_t>& to) {
    if (attributes.has(name)) to = attributes.integers(name);
  };
  list("ksize", out.kernel);
  list("strides", out.strides);
  list("dilations", out.dilations);
  list("pads", out.pads);
  if (attributes.has("padding")) out.padding = parse_padding(attributes.string("padding"));
  if (attributes.has("data_format")) out.format = parse_data_format(attributes.string("data_format"));
  if (attributes.has("ceil_mode")) out.ceil_mode = attributes.boolean("ceil_mode");
  if (!out.pads.empty() && out.padding != Padding::explicit_pads)
    invalid_argument("attribute 'pads' is for padding EXPLICIT, not {}", to_string(out.padding));
  return out;
}

void check_window_options(const WindowOptions& options, int spatial) {
  if (spatial < 1 || spatial > kMaxSpatial)
    invalid_argument("images have a batch, channels and 1 to {} spatial dimensions, not {}", kMaxSpatial, spatial);
  check_list("ksize", options.kernel, spatial);
  check_list("strides", options.strides, spatial);
  check_list("dilations", options.dilations, spatial);
  if (!options.pads.empty() && static_cast<int>(options.pads.size()) != 2 * spatial)
    invalid_argument("attribute 'pads' must have {} before the image and as many after it, not {} numbers",
                     list_of(spatial), options.pads.size());
  for (const std::int64_t pad : options.pads)
    if (pad < 0 || pad > kMostWindow)
      invalid_argument("attribute 'pads' has {}, which is not from 0 to {}", pad, kMostWindow);
}

WindowAxis window_axis(const WindowOptions& options, int index, int spatial, std::int64_t input, std::int64_t kernel) {
  WindowAxis axis = bare_axis(options, index, spatial, kernel);
  axis.input = input;
  if (kernel != kUnknown) check_kernel(axis_name(index, spatial), kernel);
  if (input == kUnknown) return axis;
  if (is_same(options.padding)) {
    axis.output = input / axis.stride + (input % axis.stride != 0);
    if (kernel == kUnknown || input == 0) return axis;
    split_padding(options.padding, std::max<std::int64_t>(0, (axis.output - 1) * axis.stride + axis.reach() - input),
                  axis);
    return axis;
  }
  if (kernel == kUnknown) return axis;
  const std::int64_t room = input + axis.before + axis.after - axis.reach();
  if (room < 0)
    invalid_argument("{}: a window of {} is larger than the input's {}; use padding SAME or a smaller window",
                     axis_name(index, spatial), axis.reach(), input + axis.before + axis.after);
  axis.output = room / axis.stride + 1;
  // One more window if it begins in the input or the padding before it.
  if (options.ceil_mode && room % axis.stride != 0 && axis.output * axis.stride < input + axis.before) ++axis.output;
  return axis;
}

WindowAxis transposed_axis(const WindowOptions& options, int index, int spatial, std::int64_t output,
                           std::int64_t kernel, std::int64_t output_padding, std::int64_t input) {
  WindowAxis axis = bare_axis(options, index, spatial, kernel);
  axis.input = input;
  axis.output = output;
  const std::string_view name = axis_name(index, spatial);
  if (kernel != kUnknown) check_kernel(name, kernel);
  if (output_padding < 0 || output_padding >= axis.stride)
    invalid_argument("{}: an output padding of {}, which is not from 0 to stride {} - 1", name, output_padding,
                     axis.stride);
  if (output == kUnknown || kernel == kUnknown) return axis;
  if (output == 0) {
    if (input == kUnknown) axis.input = 0;
    return axis;
  }
  if (output > kMostWindow)
    invalid_argument("{}: the input of a transposed convolution is {}, more than {}", name, output, kMostWindow);
  if (input == kUnknown) {
    const std::int64_t covered = (output - 1) * axis.stride + output_padding + axis.reach();
    const std::int64_t wanted = is_same(options.padding) ? output * axis.stride : covered - axis.before - axis.after;
    axis.input = wanted;
    if (axis.input < 1)
      invalid_argument("{}: the pads {} and {} leave nothing of the output's {}", name, axis.before, axis.after,
                       covered);
  }
  const WindowAxis there = window_axis(options, index, spatial, axis.input, kernel);
  if (output != there.output)
    invalid_argument("{}: an output of {} is convolved to {}, not to the input's {}", name, axis.input, there.output,
                     output);
  axis.before = there.before;
  axis.after = there.after;
  return axis;
}

}  // namespace troupe
