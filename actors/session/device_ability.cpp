#include "troupe/actors/session/device_ability.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include <troupe/devices/collective/communicator.hpp>

namespace troupe {
namespace {

constexpr std::size_t kBytes = 512;
constexpr std::size_t kLongest = 160;  // bytes of a text
constexpr char kThere = 'g', kNone = '-';

}  // namespace

DeviceAbility ability_of(Device* device) {
  DeviceAbility out;
  if (!device) return out;
  out.there = true;
  try {
    if (const Error lost = device->failure()) throw lost;
    out.description = device->communicators()->description();
    out.identity = device->communicators()->identity();
  } catch (...) {
    out.description.clear();
    out.why_not = current_error().message();
  }
  return out;
}

Tensor to_tensor(const DeviceAbility& ability) {
  std::string text(1, ability.there ? kThere : kNone);
  for (const std::string* part : {&ability.description, &ability.identity, &ability.why_not}) {
    std::string line = part->substr(0, kLongest);
    std::ranges::replace(line, '\n', ' ');
    text += line + '\n';
  }
  text.resize(kBytes);
  Tensor out(DType::u8, Shape{static_cast<std::int64_t>(kBytes)});
  std::memcpy(out.mutable_raw(), text.data(), kBytes);
  return out;
}

DeviceAbility to_ability(const Tensor& tensor) {
  const std::string_view text(reinterpret_cast<const char*>(tensor.raw()), tensor.num_bytes());
  std::array<std::string, 3> lines;
  std::size_t begin = 1;
  for (std::string& line : lines) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) invalid_argument("the device description of a rank is not terminated");
    line = text.substr(begin, end - begin);
    begin = end + 1;
  }
  return {text[0] == kThere, lines[0], lines[1], lines[2]};
}

std::optional<std::string> why_apart(const std::vector<DeviceAbility>& abilities,
                                     const std::vector<TaskName>& members) {
  if (std::ranges::none_of(abilities, &DeviceAbility::there)) return "";
  const auto rank_name = [&](std::size_t rank) { return fmt::format("rank {} ({})", rank, members[rank].to_string()); };
  std::map<std::string, std::size_t> seen;  // by identity
  for (std::size_t r = 0; r < abilities.size(); ++r) {
    const DeviceAbility& a = abilities[r];
    if (!a.there) return fmt::format("{} has no GPU", rank_name(r));
    if (!a.why_not.empty()) return fmt::format("{}: {}", rank_name(r), a.why_not);
    if (a.description != abilities[0].description)
      return fmt::format("{} has {}, but {} has {}", rank_name(0), abilities[0].description, rank_name(r),
                         a.description);
    if (const auto [other, fresh] = seen.try_emplace(a.identity, r); !fresh)
      return fmt::format("{} and {} share a GPU: give each task its own (CUDA_VISIBLE_DEVICES)",
                         rank_name(other->second), rank_name(r));
  }
  return std::nullopt;
}

}  // namespace troupe
