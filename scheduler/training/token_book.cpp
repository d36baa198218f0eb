#include "scheduler/training/token_book.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace troupe {

TokenBook::TokenBook(Phase phase) : phase_(std::move(phase)), count_(phase_.steps * phase_.slots) {}

Token TokenBook::token(std::uint64_t index) const {
  Token token;
  token.kind = phase_.kind;
  token.epoch = phase_.epoch;
  token.step = phase_.first_step + index / phase_.slots;
  token.slot = static_cast<std::uint32_t>(index % phase_.slots);
  token.begin = index * phase_.chunk;
  token.end = std::min(token.begin + phase_.chunk, phase_.examples);
  if (phase_.kind == TokenKind::evaluate)
    token.min_version = phase_.version;
  else if (phase_.mode != TrainingMode::asynchronous)
    token.min_version = token.step - std::min(token.step, phase_.staleness);
  return token;
}

std::optional<std::uint64_t> TokenBook::index_of(std::uint64_t step, std::uint32_t slot) const {
  if (step < phase_.first_step || step - phase_.first_step >= phase_.steps || slot >= phase_.slots)
    return std::nullopt;
  return (step - phase_.first_step) * phase_.slots + slot;
}

std::optional<Token> TokenBook::take(std::uint32_t worker) {
  std::uint64_t index = next_;
  if (!returned_.empty()) {
    index = *returned_.begin();
    returned_.erase(returned_.begin());
  } else {
    if (next_ == count_) return std::nullopt;
    if (phase_.lookahead && next_ / phase_.slots > complete_steps() + *phase_.lookahead) return std::nullopt;
    ++next_;
  }
  Item& item = items_[index];
  if (item.staged.empty()) {
    item.staged.resize(phase_.shards.size());
    item.unstaged = phase_.shards.size();
  }
  item.worker = worker;
  return token(index);
}

std::size_t TokenBook::held(std::uint32_t worker) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      items_, [&](const auto& item) { return item.second.worker == worker && !item.second.done; }));
}

TokenBook::Note TokenBook::done(const TokenDone& message) {
  const Token& claimed = message.token;
  const auto claimed_phase = std::tie(claimed.epoch, claimed.kind);
  const auto this_phase = std::tie(phase_.epoch, phase_.kind);
  if (claimed.kind == TokenKind::finish || claimed_phase > this_phase) return Note::unexpected;
  if (claimed_phase < this_phase) return Note::repeated;
  const auto index = index_of(claimed.step, claimed.slot);
  if (!index || *index >= next_) return Note::unexpected;
  if (*index < folded_) return Note::repeated;
  const auto found = items_.find(*index);
  Item& item = found->second;
  if (item.done) return Note::repeated;
  const Token issued = token(*index);
  if (item.worker != message.worker || message.examples != issued.end - issued.begin ||
      message.correct > message.examples)
    return Note::unexpected;
  item.done = true;
  item.figures = {message.loss_sum, message.correct, message.examples};
  fold(*index);
  return Note::counted;
}

TokenBook::Note TokenBook::staged(const Staged& message) {
  if (message.step < phase_.first_step) return Note::repeated;
  const auto shard = std::find(phase_.shards.begin(), phase_.shards.end(), message.shard);
  const auto index = index_of(message.step, message.slot);
  if (!index || *index >= next_ || shard == phase_.shards.end()) return Note::unexpected;
  if (*index < folded_) return Note::repeated;
  Item& item = items_.at(*index);
  const auto position = static_cast<std::size_t>(shard - phase_.shards.begin());
  if (item.staged[position]) return Note::repeated;
  item.staged[position] = true;
  --item.unstaged;
  fold(*index);
  return Note::counted;
}

// Takes the complete tokens at the front out of the window.
void TokenBook::fold(std::uint64_t index) {
  if (!items_.at(index).complete()) return;
  returned_.erase(index);  // it came after all, after its worker was lost
  for (auto first = items_.begin();
       first != items_.end() && first->first == folded_ && first->second.complete();
       first = items_.erase(first)) {
    figures_.loss_sum += first->second.figures.loss_sum;
    figures_.correct += first->second.figures.correct;
    figures_.examples += first->second.figures.examples;
    ++folded_;
  }
}

std::size_t TokenBook::release(std::uint32_t worker) {
  std::size_t count = 0;
  for (auto& [index, item] : items_) {
    if (item.worker != worker || item.complete()) continue;
    item.worker.reset();
    returned_.insert(index);
    ++count;
  }
  return count;
}

std::string TokenBook::outstanding(std::size_t limit, bool of_first_step) const {
  std::string text;
  std::size_t shown = 0;
  for (const auto& [index, item] : items_) {
    if (item.complete()) continue;
    if (of_first_step && index / phase_.slots > complete_steps()) break;
    if (shown++ == limit) return text + "; …";
    const Token at = token(index);
    text += fmt::format("{}step {}: slot {} (", shown == 1 ? "" : "; ", at.step, at.slot);
    text += item.worker ? fmt::format("worker {}", *item.worker) : "back in the book";
    text += item.done ? ", reported" : "";
    for (std::size_t i = 0; i < item.staged.size(); ++i)
      if (!item.staged[i]) text += fmt::format(", not staged on shard {}", phase_.shards[i]);
    text += ")";
  }
  return text;
}

}  // namespace troupe
