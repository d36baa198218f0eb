#include "troupe/kernels/cpu/ctc_loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/kernels/cpu/widened.hpp>

namespace troupe {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();  // log 0

double log_add(double a, double b) {
  const double larger = std::max(a, b);
  return larger == kNever ? kNever : larger + std::log1p(std::exp(std::min(a, b) - larger));
}

// Elements of an index tensor.
std::int64_t index_at(const Tensor& t, std::int64_t i) {
  return t.dtype() == DType::i32 ? t.data<std::int32_t>()[i] : t.data<std::int64_t>()[i];
}

double number_at(const Tensor& t, std::int64_t i) {
  return t.dtype() == DType::f32 ? static_cast<double>(t.data<float>()[i]) : t.data<double>()[i];
}

void set_number(Tensor& t, std::int64_t i, double value) {
  if (t.dtype() == DType::f32)
    t.mutable_data<float>()[i] = static_cast<float>(value);
  else
    t.mutable_data<double>()[i] = value;
}

struct CtcSizes {
  std::int64_t frames, examples, classes, labels;
};

std::int64_t checked_length(const Tensor& lengths, std::int64_t n, std::int64_t most, const char* what) {
  const std::int64_t length = index_at(lengths, n);
  if (length < 0 || length > most)
    fail(Code::out_of_range, "CTCLoss: {} {} of example {} is out of range: 0 to {}", what, length, n, most);
  return length;
}

// One example: the places are a blank before, between and behind the labels.
class CtcExample {
 public:
  CtcExample(const CtcInputs& in, const CtcSizes& sizes, std::int64_t n)
      : in_(in),
        sizes_(sizes),
        n_(n),
        frames_(checked_length(in.logit_lengths, n, sizes.frames, "number of frames")),
        labels_(checked_length(in.label_lengths, n, sizes.labels, "number of labels")),
        places_(2 * labels_ + 1),
        logs_(std::max<std::int64_t>(1, frames_ * sizes.classes)),
        forward_(std::max<std::int64_t>(1, frames_ * places_)),
        backward_(2 * places_) {
    for (std::int64_t i = 0; i < labels_; ++i)
      if (const std::int64_t label = label_at(i); label < 0 || label >= sizes.classes || label == in.blank)
        fail(Code::out_of_range,
             "CTCLoss: label {} of example {} is {}, not a class in [0, {}) other than the blank {}", i, n, label,
             sizes.classes, in.blank);
  }

  void run(Tensor& loss, Tensor& backprop) {
    log_softmax_frames();
    const double log_p = forward();
    set_number(loss, n_, -log_p);
    if (log_p == kNever || frames_ == 0) return;
    backward(log_p, backprop);
  }

 private:
  std::int64_t label_at(std::int64_t i) const { return index_at(in_.labels, n_ * sizes_.labels + i); }
  std::int64_t class_of(std::int64_t place) const { return place % 2 == 0 ? in_.blank : label_at(place / 2); }
  // From two places before: over a blank, unless it separates equal labels.
  bool skips_to(std::int64_t place) const {
    return place % 2 == 1 && place >= 2 && label_at(place / 2) != label_at(place / 2 - 1);
  }
  double log_of(std::int64_t t, std::int64_t place) const { return logs_[t * sizes_.classes + class_of(place)]; }
  std::int64_t logit(std::int64_t t) const { return (t * sizes_.examples + n_) * sizes_.classes; }

  void log_softmax_frames() {
    for (std::int64_t t = 0; t < frames_; ++t) {
      double* row = &logs_[t * sizes_.classes];
      double largest = kNever, total = 0;
      for (std::int64_t k = 0; k < sizes_.classes; ++k) {
        row[k] = number_at(in_.logits, logit(t) + k);
        largest = std::max(largest, row[k]);
      }
      for (std::int64_t k = 0; k < sizes_.classes; ++k) total += std::exp(row[k] - largest);
      const double shift = largest + std::log(total);
      for (std::int64_t k = 0; k < sizes_.classes; ++k) row[k] -= shift;
    }
  }

  double forward() {
    if (frames_ == 0) return labels_ == 0 ? 0 : kNever;
    for (std::int64_t t = 0; t < frames_; ++t)
      for (std::int64_t s = 0; s < places_; ++s) {
        double reached = t == 0 && s < 2 ? 0 : kNever;
        if (t > 0) {
          const double* before = &forward_[(t - 1) * places_];
          reached = before[s];
          if (s >= 1) reached = log_add(reached, before[s - 1]);
          if (skips_to(s)) reached = log_add(reached, before[s - 2]);
        }
        forward_[t * places_ + s] = reached == kNever ? kNever : reached + log_of(t, s);
      }
    const double* last = &forward_[(frames_ - 1) * places_];
    return labels_ == 0 ? last[0] : log_add(last[places_ - 1], last[places_ - 2]);
  }

  void backward(double log_p, Tensor& backprop) {
    double *now = backward_.data(), *after = now + places_;
    const ScratchArray<double> gradient(sizes_.classes);
    for (std::int64_t t = frames_ - 1; t >= 0; --t) {
      for (std::int64_t s = 0; s < places_; ++s) {
        if (t == frames_ - 1) {
          now[s] = s >= places_ - 2 ? 0 : kNever;
          continue;
        }
        now[s] = after[s] + log_of(t + 1, s);
        if (s + 1 < places_) now[s] = log_add(now[s], after[s + 1] + log_of(t + 1, s + 1));
        if (s + 2 < places_ && skips_to(s + 2)) now[s] = log_add(now[s], after[s + 2] + log_of(t + 1, s + 2));
      }
      const double* row = &logs_[t * sizes_.classes];
      const double* ending = &forward_[t * places_];
      for (std::int64_t k = 0; k < sizes_.classes; ++k) gradient[k] = std::exp(row[k]);
      for (std::int64_t s = 0; s < places_; ++s)
        if (ending[s] != kNever && now[s] != kNever) gradient[class_of(s)] -= std::exp(ending[s] + now[s] - log_p);
      for (std::int64_t k = 0; k < sizes_.classes; ++k) set_number(backprop, logit(t) + k, gradient[k]);
      std::swap(now, after);
    }
  }

  const CtcInputs& in_;
  const CtcSizes& sizes_;
  std::int64_t n_, frames_, labels_, places_;
  ScratchArray<double> logs_;      // [frame, class]: logarithms of probabilities
  ScratchArray<double> forward_;   // [frame, place]
  ScratchArray<double> backward_;  // of two frames
};

}  // namespace

void ctc_loss(Parallelism& parallelism, const CtcInputs& in, Tensor& loss, Tensor& backprop) {
  check_rank("CTCLoss: logits", in.logits.shape(), 3);
  check_rank("CTCLoss: labels", in.labels.shape(), 2);
  const Shape& x = in.logits.shape();
  const CtcSizes sizes{x[0], x[1], x[2], in.labels.shape()[1]};
  const DType index = in.labels.dtype();
  if (index != DType::i32 && index != DType::i64)
    invalid_argument("CTCLoss: labels must be i32 or i64, but are {}", name(index));
  check_tensor("CTCLoss: labels", in.labels, index, Shape{sizes.examples, sizes.labels});
  check_tensor("CTCLoss: logit_lengths", in.logit_lengths, index, Shape{sizes.examples});
  check_tensor("CTCLoss: label_lengths", in.label_lengths, index, Shape{sizes.examples});
  check_tensor("CTCLoss: the loss", loss, in.logits.dtype(), Shape{sizes.examples});
  check_tensor("CTCLoss: the backprop", backprop, in.logits.dtype(), x);
  if (in.logits.dtype() != DType::f32 && in.logits.dtype() != DType::f64)
    invalid_argument("CTCLoss requires f32 or f64, not {}", name(in.logits.dtype()));
  if (in.blank < 0 || in.blank >= sizes.classes)
    fail(Code::out_of_range, "CTCLoss: the blank {} is no class: there are {}", in.blank, sizes.classes);
  std::fill_n(backprop.mutable_raw(), backprop.num_bytes(), std::byte{0});
  parallelism.parallel_for(sizes.examples, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) CtcExample(in, sizes, n).run(loss, backprop);
  });
}

namespace {

Kernel make_ctc_loss(const KernelInit& init) {
  return [blank = init.attributes.integer("blank")](KernelContext& c) {
    const DType dtype = c.input(0).dtype();
    const Tensor logits = widened_tensor(c, c.input(0));
    check_rank("CTCLoss: logits", logits.shape(), 3);
    Tensor loss = c.allocate(logits.dtype(), Shape{logits.shape()[1]});
    Tensor backprop = c.allocate(logits.dtype(), logits.shape());
    ctc_loss(c.parallelism(), {logits, c.input(1), c.input(2), c.input(3), blank}, loss, backprop);
    set_narrowed(c, 0, std::move(loss), dtype);
    set_narrowed(c, 1, std::move(backprop), dtype);
  };
}

}  // namespace

void register_ctc_kernels(KernelRegistry& registry) {
  registry.add({"CTCLoss", "CPU", dtypes_of(FloatTypes{}), make_ctc_loss});
}

}  // namespace troupe
