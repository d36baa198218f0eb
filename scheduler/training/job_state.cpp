#include "troupe/scheduler/training/job_state.hpp"

#include <fmt/ranges.h>

#include <charconv>
#include <limits>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::string_view kCommits = "commits\n", kTraining = "training", kEvaluation = "evaluation",
                           kPlace = "place ";

// Calls field(name, value) for each number, in line order; `sums` and `epochs`: how many of them follow.
template <class State, class Field>
void each_field(State& state, std::uint64_t& sums, std::uint64_t& epochs, Field&& field) {
  field("epoch", state.epoch);
  field("step", state.step);
  field("epoch_step", state.epoch_step);
  field("examples", state.examples);
  field("job_ns", state.job_ns);
  field("epoch_ns", state.epoch_ns);
  field("sums", sums);
  field("history", epochs);
}

// Takes the next line, with its newline.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end == std::string_view::npos ? end : end + 1);
  text.remove_prefix(line.size());
  return line;
}

// Takes "name NUMBER", or throws data_loss.
template <class Number>
void take_number(std::string_view& text, std::string_view name, Number& value) {
  const std::string_view line = take_line(text);
  const char* end = line.data() + line.size() - 1;
  bool good = line.starts_with(name) && line.size() > name.size() + 2 && line[name.size()] == ' ' && *end == '\n';
  if (good) {
    const auto [stopped, error] = std::from_chars(line.data() + name.size() + 1, end, value);
    good = error == std::errc() && stopped == end;
  }
  if (!good)
    fail(Code::data_loss, "state of a training job: expected '{} NUMBER', found '{}'", name, line.substr(0, 80));
}

// Takes the lines of `count` sums.
NamedSums take_sums(std::string_view& text, std::uint64_t count) {
  const std::string_view all = text;
  for (; count > 0; --count)
    if (take_line(text).empty()) fail(Code::data_loss, "state of a training job: {} sums are missing", count);
  return parse_sums(all.substr(0, all.size() - text.size()));
}

// "place EPOCH STEP NUMBER..."
DataPlace parse_place(std::string_view line) {
  std::vector<std::uint64_t> numbers;
  const char *at = line.data() + kPlace.size(), *const end = line.data() + line.size();
  while (at < end) {
    const auto [stopped, error] = std::from_chars(at, end, numbers.emplace_back());
    if (error != std::errc() || stopped == end || (*stopped != ' ' && *stopped != '\n') ||
        numbers.size() > kMaxPosition + 2)
      fail(Code::data_loss, "state of a training job: expected 'place EPOCH STEP NUMBER...', found '{}'",
           line.substr(0, 80));
    at = stopped + 1;
  }
  if (numbers.size() < 3 || numbers[0] > std::numeric_limits<std::uint32_t>::max())
    fail(Code::data_loss, "state of a training job: '{}' is no place", line.substr(0, 80));
  return {static_cast<std::uint32_t>(numbers[0]), numbers[1], {numbers.begin() + 2, numbers.end()}};
}

}  // namespace

std::string JobState::to_string() const {
  std::string text;
  std::uint64_t count = sums.size(), epochs = history.size();
  each_field(*this, count, epochs,
             [&](std::string_view name, const auto& value) { text += fmt::format("{} {}\n", name, value); });
  text += troupe::to_string(sums);
  for (const EpochRecord& record : history)
    for (const auto& [name, sums_of] : {std::pair(kTraining, &record.training), {kEvaluation, &record.evaluation}})
      text += fmt::format("{} {}\n{}", name, sums_of->size(), troupe::to_string(*sums_of));
  if (!place.position.empty())
    text += fmt::format("{}{} {} {}\n", kPlace, place.epoch, place.step, fmt::join(place.position, " "));
  return text + std::string(kCommits) + commits.to_string();
}

JobState JobState::parse(std::string_view text) {
  JobState state;
  std::uint64_t sums = 0, epochs = 0;
  each_field(state, sums, epochs, [&](std::string_view name, auto& value) { take_number(text, name, value); });
  state.sums = take_sums(text, sums);
  for (; epochs > 0; --epochs) {
    EpochRecord& record = state.history.emplace_back();
    take_number(text, kTraining, sums);
    record.training = take_sums(text, sums);
    take_number(text, kEvaluation, sums);
    record.evaluation = take_sums(text, sums);
  }
  if (text.starts_with(kPlace)) state.place = parse_place(take_line(text));
  if (!text.starts_with(kCommits))
    fail(Code::data_loss, "state of a training job: expected 'commits', found '{}'", text.substr(0, 80));
  state.commits = CommitLog::parse(text.substr(kCommits.size()));
  return state;
}

}  // namespace troupe
