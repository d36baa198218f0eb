// Boxes of descending score that do not overlap those chosen before.
#include <algorithm>
#include <numeric>

#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

struct BoxCorners {
  float top, left, bottom, right, area;
};

BoxCorners corners_of(const float* box, bool center) {
  BoxCorners out;
  if (center) {
    const float width = box[2] / 2, height = box[3] / 2;
    out = {box[1] - height, box[0] - width, box[1] + height, box[0] + width, 0};
  } else {
    out = {std::min(box[0], box[2]), std::min(box[1], box[3]), std::max(box[0], box[2]), std::max(box[1], box[3]), 0};
  }
  out.area = (out.right - out.left) * (out.bottom - out.top);
  return out;
}

bool overlaps(const BoxCorners& a, const BoxCorners& b, float threshold) {
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (!(width > 0) || !(height > 0) || !(a.area > 0) || !(b.area > 0)) return false;
  const float common = width * height, all = a.area + b.area - common;
  return all > 0 && common / all > threshold;
}

// The numbers of the chosen boxes of one class of one image.
std::vector<std::int64_t> chosen_boxes(const BoxCorners* boxes, const float* scores, std::int64_t count,
                                       std::int64_t most, float iou, float least) {
  std::vector<std::int64_t> order, chosen;
  const bool all = least == -std::numeric_limits<float>::infinity();
  for (std::int64_t b = 0; b < count; ++b)
    if (scores[b] > least || (all && scores[b] == least)) order.push_back(b);
  std::ranges::stable_sort(order, [scores](std::int64_t a, std::int64_t b) { return scores[a] > scores[b]; });
  std::vector<BoxCorners> kept;
  for (const std::int64_t b : order) {
    if (std::ssize(kept) >= most) break;
    const BoxCorners& box = boxes[b];
    if (std::ranges::any_of(kept, [&](const BoxCorners& k) { return overlaps(box, k, iou); })) continue;
    kept.push_back(box);
    chosen.push_back(b);
  }
  return chosen;
}

float scalar_value(std::string_view what, const Tensor& t) {
  if (t.num_elements() != 1) invalid_argument("{} must be a scalar, not {}", what, t.shape().to_string());
  return t.data<float>()[0];
}

Tensor non_max_suppression(Device& device, const Tensor& boxes, const Tensor& scores, std::int64_t most, float iou,
                           float least, bool center) {
  check_rank("NonMaxSuppression: boxes", boxes.shape(), 3);
  check_rank("NonMaxSuppression: scores", scores.shape(), 3);
  const std::int64_t images = boxes.shape()[0], count = boxes.shape()[1], classes = scores.shape()[1];
  if (boxes.shape()[2] != 4 || scores.shape()[0] != images || scores.shape()[2] != count)
    invalid_argument("NonMaxSuppression: boxes are {}, which does not fit scores {}: [n,b,4] and [n,classes,b]",
                     boxes.shape().to_string(), scores.shape().to_string());
  std::vector<BoxCorners> corners(static_cast<std::size_t>(images * count));
  for (std::size_t b = 0; b < corners.size(); ++b) corners[b] = corners_of(boxes.data<float>() + 4 * b, center);
  std::vector<std::vector<std::int64_t>> chosen(static_cast<std::size_t>(images * classes));
  device.parallelism().parallel_for(images * classes, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      chosen[static_cast<std::size_t>(i)] =
          chosen_boxes(corners.data() + i / classes * count, scores.data<float>() + i * count, count, most, iou, least);
  });
  std::int64_t total = 0;
  for (const auto& list : chosen) total += std::ssize(list);
  Tensor out = device.allocator().tensor(DType::i64, Shape{total, 3});
  std::int64_t* to = out.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < std::ssize(chosen); ++i)
    for (const std::int64_t box : chosen[static_cast<std::size_t>(i)]) {
      *to++ = i / classes;
      *to++ = i % classes;
      *to++ = box;
    }
  return out;
}

}  // namespace

void register_non_max_suppression_kernels(KernelRegistry& registry) {
  add_untyped(registry, "NonMaxSuppression", [](const KernelInit& init) -> Kernel {
    return [center = init.attributes.boolean("center_point_box")](KernelContext& c) {
      c.set_output(0, non_max_suppression(c.device(), c.input(0), c.input(1),
                                          checked_scalar("NonMaxSuppression: max_outputs", c.input(2)),
                                          scalar_value("NonMaxSuppression: iou_threshold", c.input(3)),
                                          scalar_value("NonMaxSuppression: score_threshold", c.input(4)), center));
    };
  });
}

}  // namespace troupe
