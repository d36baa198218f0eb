#include "troupe/scheduler/training/provenance.hpp"

#include <algorithm>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::size_t kDroppedListed = 32;  // per version; bounds the memory taken by a broken worker's repeats

}  // namespace

std::string_view name(Fate fate) {
  switch (fate) {
    case Fate::applied:
      return "applied";
    case Fate::duplicate:
      return "duplicate";
    case Fate::stale:
      return "stale";
    case Fate::uncommitted:
      return "not committed";
    case Fate::fenced:
      return "fenced";
  }
  return "unknown";
}

std::string Provenance::to_string() const {
  std::string text = fmt::format("version {}: ", version);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const SlotSource& s = sources[i];
    text += fmt::format("{}{}{} step {}{} slot {} of worker {} ({} gradient{})", i == 0 ? "" : "; ",
                        s.fate == Fate::applied ? "" : "dropped as ", name(s.fate), s.step,
                        s.phase == 0 ? "" : fmt::format(" phase {}", s.phase), s.slot, s.worker, s.gradients,
                        s.gradients == 1 ? "" : "s");
  }
  if (left_out > 0) text += fmt::format("; and {} more dropped", left_out);
  return text;
}

void ProvenanceBook::note(std::uint64_t version, const SlotSource& source) {
  if (limit_ == 0 || (versions_.size() >= limit_ && version < versions_.begin()->first)) return;
  Provenance& record = versions_.try_emplace(version).first->second;
  record.version = version;
  const auto same = std::ranges::find_if(record.sources, [&](const SlotSource& s) {
    return s.worker == source.worker && s.step == source.step && s.phase == source.phase && s.slot == source.slot &&
           s.fate == source.fate;
  });
  const auto applied =
      std::ranges::find_if(record.sources, [](const SlotSource& s) { return s.fate != Fate::applied; });
  if (same != record.sources.end())
    same->gradients += source.gradients;
  else if (source.fate == Fate::applied)
    record.sources.insert(applied, source);
  else if (record.sources.end() - applied < static_cast<std::ptrdiff_t>(kDroppedListed))
    record.sources.push_back(source);
  else
    record.left_out += source.gradients;
  if (versions_.size() > limit_) versions_.erase(versions_.begin());
}

const Provenance* ProvenanceBook::find(std::uint64_t version) const {
  const auto found = versions_.find(version);
  return found == versions_.end() ? nullptr : &found->second;
}

std::vector<Provenance> ProvenanceBook::take(std::uint64_t version) {
  std::vector<Provenance> taken;
  while (!versions_.empty() && versions_.begin()->first <= version)
    taken.push_back(std::move(versions_.extract(versions_.begin()).mapped()));
  return taken;
}

std::optional<bool> ProvenanceBook::applied(std::uint64_t version, std::uint32_t slot) const {
  const Provenance* record = find(version);
  if (!record || record->sources.empty() || record->sources.front().fate != Fate::applied) return std::nullopt;
  return std::ranges::any_of(record->sources,
                             [&](const SlotSource& s) { return s.fate == Fate::applied && s.slot == slot; });
}

}  // namespace troupe
