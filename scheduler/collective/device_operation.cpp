#include "troupe/scheduler/collective/device_operation.hpp"

namespace troupe {
namespace {

// The meaning of messages, by hop.
constexpr std::uint32_t kBegun = 0;   // the sender has begun
constexpr std::uint32_t kNumber = 1;  // `piece`

}  // namespace

DeviceOperation::DeviceOperation(CollectiveSpec spec, std::uint32_t rank, std::uint32_t ranks, Tensor local)
    : spec_(std::move(spec)),
      rank_(rank),
      ranks_(ranks),
      local_(std::move(local)),
      begun_(ranks, false),
      missing_words_(ranks - 1) {
  begun_[rank] = true;
}

void DeviceOperation::start(std::vector<CollectiveMessage>& out) {
  for (std::uint32_t i = 1; i < ranks_; ++i) out.push_back({rank_, (rank_ + i) % ranks_, kBegun, rank_, 0, {}});
}

void DeviceOperation::take(CollectiveMessage m, std::vector<CollectiveMessage>&) {
  const bool expected = m.from < ranks_ && m.from != rank_ && m.part == m.from && !m.tensor.valid() &&
                        (m.hop == kBegun ? !begun_[m.from] : m.hop == kNumber && m.from == 0 && !number_);
  if (!expected)
    invalid_argument("rank {} sent an invalid message for {} between devices: part {}, piece {}, hop {}", m.from,
                     spec_.describe(), m.part, m.piece, m.hop);
  if (m.hop == kNumber) {
    number_ = m.piece;
    return;
  }
  begun_[m.from] = true;
  --missing_words_;
}

void DeviceOperation::give_number(std::uint32_t number, std::vector<CollectiveMessage>& out) {
  number_ = number;
  for (std::uint32_t to = 1; to < ranks_; ++to) out.push_back({rank_, to, kNumber, rank_, number, {}});
}

void DeviceOperation::ended(std::vector<Tensor> result) {
  ended_ = true;
  result_ = std::move(result);
}

std::string DeviceOperation::missing() const {
  if (!all_have_begun()) return fmt::format("{} of {} start signals", missing_words_, ranks_);
  return number_ ? "the result" : "the launch number";
}

}  // namespace troupe
