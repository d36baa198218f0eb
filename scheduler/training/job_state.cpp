#include "troupe/scheduler/training/job_state.hpp"

#include <bit>
#include <charconv>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::string_view kCommits = "commits\n";

// Calls field(name, value) for each field, in line order.
template <class State, class Field>
void each_field(State& state, std::uint64_t& loss_bits, Field&& field) {
  field("epoch", state.epoch);
  field("step", state.step);
  field("loss_sum_bits", loss_bits);
  field("correct", state.correct);
  field("examples", state.examples);
  field("job_ns", state.job_ns);
  field("epoch_ns", state.epoch_ns);
}

}  // namespace

std::string JobState::to_string() const {
  std::string text;
  auto bits = std::bit_cast<std::uint64_t>(loss_sum);
  each_field(*this, bits,
             [&](std::string_view name, const auto& value) { text += fmt::format("{} {}\n", name, value); });
  return text + std::string(kCommits) + commits.to_string();
}

JobState JobState::parse(std::string_view text) {
  JobState state;
  std::uint64_t bits = 0;
  each_field(state, bits, [&](std::string_view name, auto& value) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const char* end = line.data() + line.size();
    bool good = line.starts_with(name) && line.size() > name.size() + 1 && line[name.size()] == ' ' &&
                line.size() < text.size();
    if (good) {
      const auto [stopped, error] = std::from_chars(line.data() + name.size() + 1, end, value);
      good = error == std::errc() && stopped == end;
    }
    if (!good)
      fail(Code::data_loss, "state of a training job: expected '{} NUMBER', found '{}'", name, line.substr(0, 80));
    text.remove_prefix(line.size() + 1);
  });
  state.loss_sum = std::bit_cast<double>(bits);
  if (!text.starts_with(kCommits))
    fail(Code::data_loss, "state of a training job: expected 'commits', found '{}'", text.substr(0, 80));
  state.commits = CommitLog::parse(text.substr(kCommits.size()));
  return state;
}

}  // namespace troupe
