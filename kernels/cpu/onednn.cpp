#include "troupe/kernels/cpu/onednn.hpp"

#include <bit>
#include <string_view>

#include <troupe/devices/cpu/blocked_signals.hpp>

namespace troupe::onednn {

std::vector<std::int64_t> numbers_of(const dnnl::memory::desc& layout) {
  const dnnl_memory_desc_t& d = layout.data;
  std::vector<std::int64_t> out{d.ndims,
                                static_cast<std::int64_t>(d.format_kind),
                                static_cast<std::int64_t>(d.data_type),
                                d.offset0,
                                static_cast<std::int64_t>(d.extra.flags),
                                d.extra.compensation_mask,
                                std::bit_cast<std::int32_t>(d.extra.scale_adjust),
                                d.extra.asymm_compensation_mask};
  const dnnl_blocking_desc_t& blocks = d.format_desc.blocking;
  for (int i = 0; i < d.ndims; ++i) out.insert(out.end(), {d.padded_dims[i], blocks.strides[i]});
  for (int i = 0; i < blocks.inner_nblks; ++i) out.insert(out.end(), {blocks.inner_blks[i], blocks.inner_idxs[i]});
  return out;
}

bool has_bf16() {
  static const bool has = [] {
    try {
      const dnnl::memory::desc square({16, 16}, dnnl::memory::data_type::bf16, dnnl::memory::format_tag::ab);
      const dnnl::matmul::primitive_desc product({square, square, square}, engine());
      return std::string_view(product.impl_info_str()).starts_with("brg");
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  return has;
}

void Primitive::set(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad) {
  primitive_ = std::move(primitive);
  scratchpad_bytes_ = scratchpad.get_size();
  if (scratchpad_bytes_ > 0) scratchpad_ = dnnl::memory(scratchpad, engine(), nullptr);
}

// Uses the C interface: the C++ one builds a map of arguments for each call.
void Primitive::run(std::span<void* const> data) {
  constexpr std::size_t kMostArguments = 8;
  std::array<dnnl_exec_arg_t, kMostArguments> arguments;
  const auto bind = [](const dnnl::memory& memory, void* to) {
    dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(memory.get(), to), "oneDNN rejected a memory handle");
  };
  std::size_t count = 0;
  for (; count < operands_.size(); ++count) {
    bind(operands_[count].memory, data[count]);
    arguments[count] = {operands_[count].argument, operands_[count].memory.get()};
  }
  const Scratch scratch(scratchpad_bytes_);
  if (scratchpad_bytes_ > 0) {
    bind(scratchpad_, scratch.data());
    arguments[count++] = {DNNL_ARG_SCRATCHPAD, scratchpad_.get()};
  }
  const OpenMpGuard guard;
  const BlockedSignals signals;
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive_.get(), stream().get(), static_cast<int>(count), arguments.data()),
      "oneDNN failed to run a primitive");
}

}  // namespace troupe::onednn
