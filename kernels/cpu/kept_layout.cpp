#include "troupe/kernels/cpu/kept_layout.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace troupe {
namespace {

constexpr std::size_t kMostLayouts = 4;

// Those that somebody has, by the memory of their constants.
struct KnownLayouts {
  std::mutex mutex;
  std::map<std::pair<const void*, std::size_t>, std::weak_ptr<KeptLayout>> all;
};
KnownLayouts& known_layouts() {
  static KnownLayouts known;
  return known;
}

}  // namespace

std::shared_ptr<KeptLayout> KeptLayout::of(const Tensor* constant) {
  if (!constant) return nullptr;
  KnownLayouts& known = known_layouts();
  const std::lock_guard lock(known.mutex);
  std::weak_ptr<KeptLayout>& place = known.all[{constant->raw(), constant->num_bytes()}];
  if (auto found = place.lock()) return found;
  auto made = std::make_shared<KeptLayout>(*constant);
  place = made;
  std::erase_if(known.all, [](const auto& entry) { return entry.second.expired(); });
  return made;
}

const void* KeptLayout::get(const std::vector<std::int64_t>& key, std::size_t bytes,
                            const std::function<void(void* to)>& make) {
  const std::lock_guard lock(mutex_);
  if (const auto found = std::ranges::find(layouts_, key, &Layout::key); found != layouts_.end())
    return found->memory.raw();
  if (layouts_.size() == kMostLayouts) return nullptr;
  Tensor made(DType::u8, Shape{static_cast<std::int64_t>(bytes)});
  make(made.mutable_raw());
  layouts_.push_back({key, std::move(made)});
  return layouts_.back().memory.raw();
}

}  // namespace troupe
