#include "troupe/devices/kernel.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include <troupe/devices/loaded_kernels.hpp>

namespace troupe {
namespace {

// Readers take no lock: a link does not change once it is in the list, and is never removed.
struct KernelsLink {
  std::set<std::string, std::less<>> ops;
  KernelRegistry kernels;
  const KernelsLink* earlier = nullptr;
};
constinit std::atomic<const KernelsLink*> last_kernels_loaded{nullptr};

const KernelRegistry* loaded_kernels_of(std::string_view op) {
  for (const KernelsLink* l = last_kernels_loaded.load(std::memory_order_acquire); l; l = l->earlier)
    if (l->ops.contains(op)) return &l->kernels;
  return nullptr;
}

}  // namespace

void add_loaded_kernels(std::set<std::string, std::less<>> ops, KernelRegistry kernels) {
  auto* const link = new KernelsLink{std::move(ops), std::move(kernels), last_kernels_loaded.load()};
  while (!last_kernels_loaded.compare_exchange_weak(link->earlier, link, std::memory_order_acq_rel)) {
  }
}

const Tensor& Variable::value() const {
  if (!value_.valid())
    fail(Code::failed_precondition, "variable '{}' is not initialized: run its initializer (or restore it) first",
         name_);
  return value_;
}

void Variable::assign(Tensor value) {
  if (value.dtype() != dtype_ || !shape_.compatible_with(value.shape()))
    invalid_argument("variable '{}' is {}{}; it cannot hold {}{}", name_, troupe::name(dtype_), shape_.to_string(),
                     troupe::name(value.dtype()), value.shape().to_string());
  if (value.buffer().get() != value_.buffer().get()) check_not_fixed();
  ++changes_;
  value_ = std::move(value);
}

Tensor& Variable::writable(Allocator& allocator) {
  return writable(allocator, [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); });
}

Tensor& Variable::writable(Allocator& allocator, CopyBytes copy_bytes) {
  const Tensor& old = value();
  ++changes_;
  // Views of a larger buffer are copied too: kernels may rely on alignment, and the rest belongs to other tensors.
  if (!value_.unique() || !value_.aligned() || value_.buffer()->data() != value_.raw()) {
    check_not_fixed();
    Tensor copy = allocator.tensor(old.dtype(), old.shape());
    if (old.dtype() == DType::string)
      copy = old.clone();
    else
      copy_bytes(copy.mutable_raw(), old.raw(), old.num_bytes());
    value_ = std::move(copy);
  }
  return value_;
}

void Variable::check_not_fixed() const {
  if (fixed_) fail(Code::failed_precondition, "variable '{}' is fixed and cannot change its memory", name_);
}

Tensor KernelContext::take_or_allocate(int index, DType dtype, const Shape& shape) {
  if (input(index).dtype() == dtype && input(index).shape() == shape) {
    Tensor taken = take_input(index);
    if (taken.valid()) return taken;
  }
  return allocate(dtype, shape);
}

void KernelRegistry::add(KernelDef def) {
  if (def.dtypes.empty()) def.dtypes = {DType::invalid};
  for (DType dtype : def.dtypes) {
    auto& entries = by_op_[def.op];
    for (const Entry& e : entries)
      if (e.device_type == def.device_type &&
          (e.dtype == dtype || e.dtype == DType::invalid || dtype == DType::invalid))
        fail(Code::already_exists, "op {} already has a kernel for {} and {}", def.op, def.device_type,
             dtype == DType::invalid ? "any dtype" : name(dtype));
    entries.push_back({def.device_type, dtype, def.make, def.recordable});
  }
}

const KernelRegistry::Entry* KernelRegistry::entry(std::string_view op, std::string_view device_type,
                                                   DType dtype) const {
  if (const auto it = by_op_.find(std::string(op)); it != by_op_.end())
    for (const Entry& e : it->second)
      if (e.device_type == device_type && (e.dtype == dtype || e.dtype == DType::invalid)) return &e;
  const KernelRegistry* const loaded = loaded_kernels_of(op);
  return loaded && loaded != this ? loaded->entry(op, device_type, dtype) : nullptr;
}

const KernelFactory* KernelRegistry::find(std::string_view op, std::string_view device_type, DType dtype) const {
  const Entry* found = entry(op, device_type, dtype);
  return found ? &found->make : nullptr;
}

bool KernelRegistry::recordable(std::string_view op, std::string_view device_type, DType dtype) const {
  const Entry* found = entry(op, device_type, dtype);
  return found && found->recordable;
}

void KernelRegistry::set_reuse(std::string_view op, std::string_view device_type, Reuse reuse) {
  const auto it = by_op_.find(std::string(op));
  bool found = false;
  if (it != by_op_.end())
    for (Entry& e : it->second)
      if (e.device_type == device_type) {
        e.reuse = reuse;
        found = true;
      }
  if (!found) fail(Code::not_found, "op {} has no kernel for {}", op, device_type);
}

Reuse KernelRegistry::reuse(std::string_view op, std::string_view device_type) const {
  if (const auto it = by_op_.find(std::string(op)); it != by_op_.end())
    for (const Entry& e : it->second)
      if (e.device_type == device_type) return e.reuse;
  const KernelRegistry* const loaded = loaded_kernels_of(op);
  return loaded && loaded != this ? loaded->reuse(op, device_type) : Reuse::none;
}

const KernelFactory& KernelRegistry::get(std::string_view op, std::string_view device_type, DType dtype) const {
  if (const KernelFactory* found = find(op, device_type, dtype)) return *found;
  std::string known;
  const auto add_known = [&](const KernelRegistry& registry) {
    if (const auto it = registry.by_op_.find(std::string(op)); it != registry.by_op_.end())
      for (const Entry& e : it->second)
        known += fmt::format("{}{}:{}", known.empty() ? "" : ", ", e.device_type,
                             e.dtype == DType::invalid ? "any" : name(e.dtype));
  };
  add_known(*this);
  if (const KernelRegistry* const loaded = loaded_kernels_of(op)) add_known(*loaded);
  fail(Code::unimplemented, "op {} has no {} kernel for {}; available: {}", op, device_type, name(dtype),
       known.empty() ? "none" : known);
}

std::vector<std::string> KernelRegistry::list(std::string_view device_type) const {
  std::vector<std::string> out;
  for (const auto& [op, entries] : by_op_)
    for (const Entry& e : entries)
      if (e.device_type == device_type)
        out.push_back(e.dtype == DType::invalid ? op : fmt::format("{}:{}", op, name(e.dtype)));
  std::ranges::sort(out);
  return out;
}

}  // namespace troupe
