// Which input task a worker asks for a batch: the one whose share it is (BatchDesk::share_of()), or if that is not
// there the next one. What a lost task was asked for, others are asked for again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <troupe/messages/batch_name.hpp>

namespace troupe {

class FeedRequests {
 public:
  struct Request {
    std::uint32_t input;
    BatchName batch;
  };
  using Requests = std::vector<Request>;  // to send

  // `inputs`: the tasks that there may be.
  FeedRequests(std::uint32_t slots, std::uint32_t inputs) : slots_(slots), up_(inputs, false) {}

  void up(std::uint32_t input, Requests& out);
  void down(std::uint32_t input, Requests& out);
  bool any_up() const;

  // Does nothing for a batch that is already wanted.
  void want(const BatchName& batch, Requests& out);
  // Whether it was wanted; it no longer is.
  bool came(const BatchName& batch) { return wanted_.erase(batch) > 0; }
  std::size_t wanted() const { return wanted_.size(); }

 private:
  std::optional<std::uint32_t> input_for(const BatchName& batch) const;

  std::uint32_t slots_;
  std::vector<bool> up_;
  std::map<BatchName, std::optional<std::uint32_t>> wanted_;  // by whom it is made; none is there: nullopt
};

}  // namespace troupe
