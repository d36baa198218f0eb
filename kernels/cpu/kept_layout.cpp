#include "troupe/kernels/cpu/kept_layout.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <troupe/devices/host_pages.hpp>
#include <troupe/messages/error.hpp>

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

// Room for layouts. Many share large pages: the 42 MB of an encoder's matrices, each in a buffer of its own, are ten
// thousand page faults before the first answer. Room is returned to the system when no layout in it is left.
class LayoutRoom {
 public:
  // Aligned to kBufferAlignment. Throws resource_exhausted.
  static std::shared_ptr<void> allocate(std::size_t bytes) {
    static std::mutex mutex;
    static std::weak_ptr<LayoutRoom> current;
    const std::lock_guard lock(mutex);
    std::shared_ptr<LayoutRoom> room = current.lock();
    const std::size_t size = (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
    if (!room || room->pages_->size() - room->used_ < size) {
      room = std::make_shared<LayoutRoom>(std::max(size, kRoom));
      current = room;
    }
    void* const begin = static_cast<std::byte*>(room->pages_->data()) + room->used_;
    room->used_ += size;
    return {std::move(room), begin};
  }

  explicit LayoutRoom(std::size_t bytes) : pages_(reserve_host_pages(bytes)) {
    if (!pages_) fail(Code::resource_exhausted, "cannot allocate {} bytes for layouts of constants", bytes);
  }

 private:
  static constexpr std::size_t kRoom = std::size_t{32} << 20;

  const BufferRef pages_;
  std::size_t used_ = 0;
};

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
    return found->memory.get();
  if (layouts_.size() == kMostLayouts) return nullptr;
  std::shared_ptr<void> made = LayoutRoom::allocate(bytes);
  make(made.get());
  layouts_.push_back({key, std::move(made)});
  return layouts_.back().memory.get();
}

}  // namespace troupe
