#include "troupe/scheduler/training/job_state.hpp"

#include <charconv>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::string_view kCommits = "commits\n";

// Calls field(name, value) for each number, in line order; `sums`: how many lines of them follow.
template <class State, class Field>
void each_field(State& state, std::uint64_t& sums, Field&& field) {
  field("epoch", state.epoch);
  field("step", state.step);
  field("epoch_step", state.epoch_step);
  field("examples", state.examples);
  field("job_ns", state.job_ns);
  field("epoch_ns", state.epoch_ns);
  field("sums", sums);
}

// Takes the next line, with its newline.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end == std::string_view::npos ? end : end + 1);
  text.remove_prefix(line.size());
  return line;
}

// Takes the lines of `count` sums.
NamedSums take_sums(std::string_view& text, std::uint64_t count) {
  const std::string_view all = text;
  for (; count > 0; --count)
    if (take_line(text).empty()) fail(Code::data_loss, "state of a training job: {} sums are missing", count);
  return parse_sums(all.substr(0, all.size() - text.size()));
}

}  // namespace

std::string JobState::to_string() const {
  std::string text;
  std::uint64_t count = sums.size();
  each_field(*this, count,
             [&](std::string_view name, const auto& value) { text += fmt::format("{} {}\n", name, value); });
  return text + troupe::to_string(sums) + std::string(kCommits) + commits.to_string();
}

JobState JobState::parse(std::string_view text) {
  JobState state;
  std::uint64_t sums = 0;
  each_field(state, sums, [&](std::string_view name, auto& value) {
    const std::string_view line = take_line(text);
    const char* end = line.data() + line.size() - 1;
    bool good = line.starts_with(name) && line.size() > name.size() + 2 && line[name.size()] == ' ' && *end == '\n';
    if (good) {
      const auto [stopped, error] = std::from_chars(line.data() + name.size() + 1, end, value);
      good = error == std::errc() && stopped == end;
    }
    if (!good)
      fail(Code::data_loss, "state of a training job: expected '{} NUMBER', found '{}'", name, line.substr(0, 80));
  });
  state.sums = take_sums(text, sums);
  if (!text.starts_with(kCommits))
    fail(Code::data_loss, "state of a training job: expected 'commits', found '{}'", text.substr(0, 80));
  state.commits = CommitLog::parse(text.substr(kCommits.size()));
  return state;
}

}  // namespace troupe
