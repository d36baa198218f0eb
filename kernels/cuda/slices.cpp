// Slices, pads, tiles and other reorders: twins of kernels/cpu/array_kernels.cpp and layout_kernels.cpp. All compute in
// kernels/common/slices.cpp and layout.cpp.
#include <troupe/kernels/common/layout.hpp>
#include <troupe/kernels/common/slices.hpp>
#include <troupe/kernels/cuda/elementwise.hpp>
#include <troupe/kernels/cuda/host_input.hpp>

namespace troupe {
namespace {

// Inputs first, first + 1, ... on the host.
class HostLists {
 public:
  HostLists(const KernelInit& init, int first, int count) {
    for (int i = 0; i < count; ++i) inputs_.emplace_back(init, first + i);
  }
  std::vector<Tensor> get(KernelContext& c) const {
    std::vector<Tensor> out;
    for (const HostInput& input : inputs_) out.push_back(input.get(c));
    return out;
  }

 private:
  std::vector<HostInput> inputs_;
};

// Registers a kernel that gets `count` lists of integers, inputs from `first` on.
template <class Run>
void add_with_lists(KernelRegistry& registry, const char* op, int first, int count, Run run) {
  add_cuda(registry, op, kDataDTypes, [=](const KernelInit& init) -> Kernel {
    return [run, lists = HostLists(init, first, count)](KernelContext& c) {
      const std::vector<Tensor> values = lists.get(c);
      std::vector<Dims> dims;
      for (const Tensor& value : values) dims.push_back(checked_dims(value));
      c.set_output(0, run(c, dims));
    };
  });
}

void register_slices(KernelRegistry& registry) {
  using Lists = std::vector<Dims>;
  add_with_lists(registry, "Slice", 1, 2, [](KernelContext& c, const Lists& lists) {
    return slice(c.device(), c.input(0), lists[0], lists[1]);
  });
  add_with_lists(registry, "SliceGrad", 2, 1, [](KernelContext& c, const Lists& lists) {
    return slice_grad(c.device(), c.input(0), c.input(1).shape(), lists[0]);
  });
  add_with_lists(registry, "StridedSlice", 1, 4, [](KernelContext& c, const Lists& lists) {
    return strided_slice(c.device(), c.input(0), {lists[0], lists[1], lists[2], lists[3]});
  });
  add_with_lists(registry, "StridedSliceGrad", 2, 4, [](KernelContext& c, const Lists& lists) {
    return strided_slice_grad(c.device(), c.input(0), c.input(1).shape(), {lists[0], lists[1], lists[2], lists[3]});
  });
  add_with_lists(registry, "Tile", 1, 1,
                 [](KernelContext& c, const Lists& lists) { return tile(c.device(), c.input(0), lists[0]); });
  add_with_lists(registry, "Reverse", 1, 1,
                 [](KernelContext& c, const Lists& lists) { return reverse(c.device(), c.input(0), lists[0]); });
  add_with_lists(registry, "Roll", 1, 2,
                 [](KernelContext& c, const Lists& lists) { return roll(c.device(), c.input(0), lists[0], lists[1]); });
  add_cuda(registry, "Pad", kDataDTypes, [](const KernelInit& init) -> Kernel {
    return [pads = HostInput(init, 1), value = HostInput(init, 2),
            mode = parse_pad_mode(init.attributes.string("mode"))](KernelContext& c) {
      const Tensor list = pads.get(c);
      c.set_output(0,
                   pad(c.device(), c.input(0), checked_dims(list), mode, value.constant() ? value.get(c) : c.input(2)));
    };
  });
}

void register_blocks(KernelRegistry& registry) {
  const auto add_depth = [&](const char* op, Tensor (*run)(Device&, const Tensor&, const DepthLayout&)) {
    add_cuda(registry, op, kDataDTypes, [run](const KernelInit& init) -> Kernel {
      return [run, layout = depth_layout(init.attributes.integer("block"), init.attributes.string("mode"),
                                         init.attributes.string("layout"))](KernelContext& c) {
        c.set_output(0, run(c.device(), c.input(0), layout));
      };
    });
  };
  add_depth("DepthToSpace", depth_to_space);
  add_depth("SpaceToDepth", space_to_depth);
}

}  // namespace

void register_cuda_slice_kernels(KernelRegistry& registry) {
  register_slices(registry);
  register_blocks(registry);
}

}  // namespace troupe
