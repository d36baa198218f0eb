// ConstrainVariable: weights are kept in bounds after an update (graph/layers/weights.hpp).
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

constexpr double kTinyNorm = 1e-7;  // Keras: of weights that are all 0

struct ConstraintKind {
  std::string kind;
  double low = 0, high = 1, rate = 1;
  std::vector<std::int64_t> axes;

  // By what to multiply weights of this norm.
  double factor(double norm) const {
    if (kind == "unit_norm") return 1 / (norm + kTinyNorm);
    const double least = kind == "max_norm" ? 0 : low;
    if (norm >= least && norm <= high) return 1;
    const double wanted = std::clamp(norm, least, high);
    const double part = kind == "max_norm" ? 1 : rate;
    return (part * wanted + (1 - part) * norm) / (norm + kTinyNorm);
  }
};

// For each element in order, the number of the norm that it is part of.
class NormGroups {
 public:
  NormGroups(const Shape& shape, const std::vector<std::int64_t>& axes) {
    std::int64_t stride = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const bool summed = std::ranges::find(axes, axis) != axes.end();
      dims_.insert(dims_.begin(), shape[axis]);
      strides_.insert(strides_.begin(), summed ? 0 : stride);
      if (!summed) stride *= shape[axis];
    }
    count_ = stride;
  }
  std::int64_t count() const { return count_; }

  template <class What>
  void for_each(std::int64_t elements, What&& what) const {
    std::vector<std::int64_t> at(dims_.size(), 0);
    std::int64_t group = 0;
    for (std::int64_t i = 0; i < elements; ++i) {
      what(i, group);
      for (std::size_t axis = dims_.size(); axis-- > 0;) {
        group += strides_[axis];
        if (++at[axis] < dims_[axis]) break;
        group -= strides_[axis] * dims_[axis];
        at[axis] = 0;
      }
    }
  }

 private:
  std::vector<std::int64_t> dims_, strides_;
  std::int64_t count_ = 1;
};

template <class T>
double wide(T value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(value);
  else
    return static_cast<double>(static_cast<float>(value));
}
template <class T>
T narrow(double value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<T>(value);
  else
    return T(static_cast<float>(value));
}

// Sums of squares are f64, in the order of the elements.
template <class T>
void constrain_norms(const ConstraintKind& constraint, Tensor& weights) {
  const NormGroups groups(weights.shape(), constraint.axes);
  std::vector<double> factors(static_cast<std::size_t>(groups.count()), 0.0);
  T* w = weights.mutable_data<T>();
  groups.for_each(weights.num_elements(), [&](std::int64_t i, std::int64_t group) {
    factors[static_cast<std::size_t>(group)] += wide(w[i]) * wide(w[i]);
  });
  for (double& factor : factors) factor = constraint.factor(std::sqrt(factor));
  groups.for_each(weights.num_elements(), [&](std::int64_t i, std::int64_t group) {
    const double factor = factors[static_cast<std::size_t>(group)];
    if (factor != 1) w[i] = narrow<T>(wide(w[i]) * factor);
  });
}

template <class T>
void keep_non_negative(Tensor& weights) {
  for (T& w : weights.mutable_values<T>())
    if (wide(w) < 0) w = narrow<T>(0);
}

}  // namespace

void register_constraint_kernels(KernelRegistry& registry) {
  add_factories(registry, "ConstrainVariable", FloatTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    ConstraintKind constraint{.kind = init.attributes.string("kind"),
                              .low = init.attributes.real("low"),
                              .high = init.attributes.real("high"),
                              .rate = init.attributes.real("rate"),
                              .axes = init.attributes.integers("axes")};
    return [constraint = std::move(constraint)](KernelContext& context) {
      Tensor& weights = context.variable(0).writable(context.allocator());
      if (constraint.kind == "non_negative")
        keep_non_negative<T>(weights);
      else
        constrain_norms<T>(constraint, weights);
    };
  });
}

}  // namespace troupe
