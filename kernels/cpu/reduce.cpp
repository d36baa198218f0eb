#include "troupe/kernels/cpu/reduce.hpp"

#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/reduce_loops.hpp>

namespace troupe {

namespace {

// A list of dimensions without dynamic memory.
class ReduceDims {
 public:
  void add(std::int64_t size, bool reduced) { all_.at(count_++) = {size, reduced}; }
  ReduceDim& operator[](int i) { return all_.at(static_cast<std::size_t>(i)); }
  operator std::span<const ReduceDim>() const { return {all_.data(), count_}; }

 private:
  std::array<ReduceDim, kMaxReduceDims> all_;
  std::size_t count_ = 0;
};

}  // namespace

ReducePlan plan_reduce(std::span<const ReduceDim> dims) {
  std::array<ReduceDim, kMaxReduceDims> merged;
  std::size_t count = 0;
  for (const ReduceDim& d : dims) {
    if (d.size == 1) continue;
    if (count > 0 && merged[count - 1].reduced == d.reduced)
      merged[count - 1].size *= d.size;
    else
      merged.at(count++) = d;
  }
  ReducePlan plan;
  if (count == 0) return plan;
  plan.inner = merged[--count].size;
  plan.inner_reduced = merged[count].reduced;
  std::int64_t stride = plan.inner;
  for (std::size_t d = count; d-- > 0;) {
    auto& loops = merged[d].reduced ? plan.reduced : plan.kept;
    loops.all[loops.count++] = {merged[d].size, stride};
    (merged[d].reduced ? plan.reduced_count : plan.kept_count) *= merged[d].size;
    stride *= merged[d].size;
  }
  for (ReducePlan::Loops* loops : {&plan.kept, &plan.reduced})
    std::reverse(loops->all.begin(), loops->all.begin() + static_cast<std::ptrdiff_t>(loops->count));
  return plan;
}

namespace {

// A reduction of no elements must have a value.
void check_empty(Reduction kind, const Tensor& x) {
  const bool extreme = (kind == Reduction::max || kind == Reduction::min) && x.dtype() != DType::boolean;
  if (!extreme && (kind != Reduction::mean || !is_integer(x.dtype()))) return;
  invalid_argument("no {} of zero elements: {} has a reduced dimension of 0",
                   kind == Reduction::max   ? "maximum"
                   : kind == Reduction::min ? "minimum"
                                            : "mean",
                   x.shape().to_string());
}

}  // namespace

Tensor reduce(Device& device, Reduction kind, const Tensor& x, std::span<const ReduceDim> dims, const Shape& shape) {
  Tensor out = device.allocator().tensor(x.dtype(), shape);
  std::int64_t terms = 1;
  for (const ReduceDim& d : dims)
    if (d.reduced && __builtin_mul_overflow(terms, d.size, &terms))
      invalid_argument("reduction over too many elements");
  if (terms == 0) check_empty(kind, x);
  if (out.num_elements() == 0) return out;
  // From here, the kept dimensions are not 0; if a reduced one is 0, each result is an empty sum.
  const std::array<ReduceDim, 2> empty{ReduceDim{out.num_elements(), false}, ReduceDim{0, true}};
  const ReducePlan plan = plan_reduce(terms == 0 ? std::span<const ReduceDim>(empty) : dims);
  Parallelism& parallelism = device.parallelism();
  switch (kind) {
    case Reduction::sum:
      reduce_sums(parallelism, plan, x, out, 1);
      break;
    case Reduction::mean:
      reduce_sums(parallelism, plan, x, out, static_cast<double>(terms));
      break;
    case Reduction::half_square_sum:
      reduce_square_sums(parallelism, plan, x, out, 2);
      break;
    case Reduction::prod:
      return reduce_products(device, plan, x, std::move(out));
    case Reduction::max:
    case Reduction::min:
      reduce_extremes(parallelism, plan, x, out, kind == Reduction::max);
      break;
  }
  return out;
}

Tensor reduce_axes(Device& device, Reduction kind, const Tensor& x, std::span<const std::int64_t> axes,
                   bool keep_dims) {
  const int rank = x.shape().rank();
  ReduceDims dims;
  for (std::int64_t size : x.shape().dims()) dims.add(size, axes.empty());
  for (std::int64_t given : axes) {
    const int axis = checked_axis(given, rank);
    if (dims[axis].reduced) invalid_argument("axis {} is given twice", axis);
    dims[axis].reduced = true;
  }
  Shape shape;
  for (const ReduceDim& d : std::span<const ReduceDim>(dims)) {
    if (!d.reduced)
      shape = shape.with_appended(d.size);
    else if (keep_dims)
      shape = shape.with_appended(1);
  }
  return reduce(device, kind, x, dims, shape);
}

Tensor sum_to(Device& device, const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int added = x.shape().rank() - shape.rank();
  if (added < 0 || broadcast(shape, x.shape()) != x.shape())
    invalid_argument("{} does not broadcast to {}", shape.to_string(), x.shape().to_string());
  ReduceDims dims;
  for (int d = 0; d < x.shape().rank(); ++d)
    dims.add(x.shape().dim(d), d < added || (shape.dim(d - added) == 1 && x.shape().dim(d) != 1));
  return reduce(device, Reduction::sum, x, dims, shape);
}

Tensor tile_grad(Device& device, const Tensor& dy, const Shape& shape, std::span<const std::int64_t> multiples) {
  bool fits = dy.shape().rank() == shape.rank() && std::ssize(multiples) == shape.rank();
  ReduceDims dims;
  for (int d = 0; fits && d < shape.rank(); ++d) {
    const std::int64_t times = multiples[static_cast<std::size_t>(d)];
    std::int64_t size = 0;
    fits = times >= 0 && !__builtin_mul_overflow(times, shape.dim(d), &size) && size == dy.shape().dim(d);
    dims.add(times, true);
    dims.add(shape.dim(d), false);
  }
  if (!fits) invalid_argument("{} is not a tiling of {}", dy.shape().to_string(), shape.to_string());
  return reduce(device, Reduction::sum, dy, dims, shape);
}

namespace {

std::span<const std::int64_t> axes_of(const Tensor& axes) {
  if (axes.shape().rank() > 1)
    invalid_argument("the axes must be a scalar or vector, but their shape is {}", axes.shape().to_string());
  return axes.values<std::int64_t>();
}

// For any dtype that the op allows.
void add_reduction(KernelRegistry& registry, const std::string& name, std::vector<DType> types, Reduction kind) {
  registry.add({name, "CPU", std::move(types), [kind](const KernelInit& init) -> Kernel {
                  return [kind, keep_dims = init.attributes.boolean("keep_dims")](KernelContext& c) {
                    c.set_output(0, reduce_axes(c.device(), kind, c.input(0), axes_of(c.input(1)), keep_dims));
                  };
                }});
}

void add_arg_extreme(KernelRegistry& registry, const std::string& name, bool greatest) {
  registry.add({name, "CPU", dtypes_of(RealTypes{}), [greatest](const KernelInit& init) -> Kernel {
                  return [kind = ArgExtreme{greatest, init.attributes.boolean("select_last_index")}](KernelContext& c) {
                    c.set_output(0, arg_extreme(c.device(), c.input(0), c.input(1).item<std::int64_t>(), kind));
                  };
                }});
}

}  // namespace

void register_reduce_kernels(KernelRegistry& registry) {
  const std::vector<DType> real = dtypes_of(RealTypes{});
  add_reduction(registry, "Sum", real, Reduction::sum);
  add_reduction(registry, "Mean", real, Reduction::mean);
  add_reduction(registry, "Max", real, Reduction::max);
  add_reduction(registry, "Min", real, Reduction::min);
  add_reduction(registry, "Prod", real, Reduction::prod);
  add_reduction(registry, "Any", {DType::boolean}, Reduction::max);
  add_reduction(registry, "All", {DType::boolean}, Reduction::min);
  add_arg_extreme(registry, "ArgMax", true);
  add_arg_extreme(registry, "ArgMin", false);
  add_kernels(registry, "L2Loss", FloatTypes{}, []<class T>(KernelContext& c) {
    c.set_output(0, reduce_axes(c.device(), Reduction::half_square_sum, c.input(0), {}, false));
  });
  add_kernels(registry, "SumToLike", RealTypes{},
              []<class T>(KernelContext& c) { c.set_output(0, sum_to(c.device(), c.input(0), c.input(1).shape())); });
  add_kernels(registry, "TileGrad", RealTypes{}, []<class T>(KernelContext& c) {
    c.set_output(0, tile_grad(c.device(), c.input(0), c.input(1).shape(), checked_dims(c.input(2))));
  });
}

}  // namespace troupe
