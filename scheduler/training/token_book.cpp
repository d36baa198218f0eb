#include "troupe/scheduler/training/token_book.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace troupe {

void TokenBook::begin(Phase phase) {
  phase_ = std::move(phase);
  count_ = phase_.steps * phase_.slots;
  next_ = folded_ = first_open_ = 0;
  shares_.clear();
  items_.clear();
  returned_.clear();
  kept_.clear();
  complete_.clear();
  chosen_.clear();
  figures_ = {};
  held_.assign(held_.size(), 0);
  for (const auto& [token, worker] : dropped_) hold(worker, 1);
}

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
  if (step < phase_.first_step || step - phase_.first_step >= phase_.steps || slot >= phase_.slots) return std::nullopt;
  return (step - phase_.first_step) * phase_.slots + slot;
}

// Whether a token may still count: its step has not chosen yet, and the commit log does not leave it out.
bool TokenBook::wanted(std::uint64_t index) const {
  const std::uint64_t step = index / phase_.slots;
  if (chosen_.contains(step)) return false;
  if (!phase_.commits || !has_backups()) return true;
  const auto* slots = phase_.commits->find(phase_.first_step + step);
  return !slots || std::ranges::binary_search(*slots, static_cast<std::uint32_t>(index % phase_.slots));
}

void TokenBook::hold(std::uint32_t worker, std::ptrdiff_t change) {
  if (worker >= held_.size()) held_.resize(worker + 1);
  held_[worker] += static_cast<std::size_t>(change);
}

std::optional<std::uint64_t> TokenBook::first_wanted(std::uint64_t step) const {
  const auto shares = shares_.find(step);
  const std::uint64_t end = (step + 1) * phase_.slots;
  for (std::uint64_t index = step * phase_.slots + (shares == shares_.end() ? 0 : shares->second.taken); index < end;
       ++index)
    if (wanted(index)) return index;
  return std::nullopt;
}

// Picks among the tokens never handed out.
std::optional<std::uint64_t> TokenBook::pick(std::uint32_t worker, std::uint32_t members) const {
  const std::uint64_t needed = has_backups() ? phase_.needed : phase_.slots;
  const std::uint64_t share = (needed + members - 1) / std::max<std::uint32_t>(1, members);
  const std::uint64_t can_start = complete_steps() + phase_.staleness;
  for (std::uint64_t step = std::max(first_open_, complete_steps()); step < phase_.steps; ++step) {
    if (phase_.lookahead && step > complete_steps() + *phase_.lookahead) break;
    const auto index = first_wanted(step);
    if (!index) continue;
    const auto shares = shares_.find(step);
    if (shares == shares_.end()) return index;
    const auto own = shares->second.by_worker.find(worker);
    if (own == shares->second.by_worker.end() || own->second < share || (step <= can_start && held(worker) == 0))
      return index;
  }
  return std::nullopt;
}

void TokenBook::take_from_step(std::uint64_t index) {
  const std::uint64_t step = index / phase_.slots;
  shares_[step].taken = static_cast<std::uint32_t>(index % phase_.slots) + 1;
  next_ = std::max(next_, index + 1);
  first_open_ = std::max(first_open_, complete_steps());
  while (first_open_ < phase_.steps && !first_wanted(first_open_)) ++first_open_;
}

bool TokenBook::has_token_for(std::uint32_t worker, std::uint32_t members) const {
  return keeps(worker) || !returned_.empty() || pick(worker, members).has_value();
}

std::optional<Token> TokenBook::take(std::uint32_t worker, std::uint32_t members) {
  std::uint64_t index = 0;
  std::set<std::uint64_t>& again = keeps(worker) ? kept_[worker] : returned_;
  if (!again.empty()) {
    index = *again.begin();
    again.erase(again.begin());
  } else {
    const auto picked = pick(worker, members);
    if (!picked) return std::nullopt;
    take_from_step(index = *picked);
  }
  Item& item = items_[index];
  if (item.staged.empty()) {
    item.staged.resize(phase_.shards.size());
    item.unstaged = phase_.shards.size();
  }
  item.worker = worker;
  ++shares_[index / phase_.slots].by_worker[worker];
  if (!item.done) hold(worker, 1);
  return token(index);
}

TokenBook::Item* TokenBook::find(std::uint64_t index) {
  const auto found = items_.find(index);
  return found == items_.end() ? nullptr : &found->second;
}

TokenBook::Note TokenBook::done(const TokenDone& message) {
  const Token& claimed = message.token;
  if (const auto dropped = dropped_.find({claimed.step, claimed.slot});
      claimed.kind == TokenKind::train && dropped != dropped_.end() && dropped->second == message.worker) {
    dropped_.erase(dropped);
    hold(message.worker, -1);
    return Note::late;
  }
  const auto claimed_phase = std::tie(claimed.epoch, claimed.kind);
  const auto this_phase = std::tie(phase_.epoch, phase_.kind);
  if (claimed.kind == TokenKind::finish || claimed_phase > this_phase) return Note::unexpected;
  if (claimed_phase < this_phase) return Note::repeated;
  const auto index = index_of(claimed.step, claimed.slot);
  if (!index || *index >= next_) return Note::unexpected;
  if (*index < folded_ || chosen_.contains(*index / phase_.slots)) return Note::repeated;
  Item* found = find(*index);
  if (!found) return Note::unexpected;
  Item& item = *found;
  if (item.done) return Note::repeated;
  const Token issued = token(*index);
  if (item.worker != message.worker || message.examples != issued.end - issued.begin ||
      message.correct > message.examples)
    return Note::unexpected;
  item.done = true;
  hold(message.worker, -1);
  item.figures = {message.loss_sum, message.correct, message.examples};
  completed(*index);
  return Note::counted;
}

TokenBook::Note TokenBook::staged(const Staged& message) {
  if (message.step < phase_.first_step) return Note::repeated;
  const auto shard = std::find(phase_.shards.begin(), phase_.shards.end(), message.shard);
  const auto index = index_of(message.step, message.slot);
  if (!index || *index >= next_ || shard == phase_.shards.end()) return Note::unexpected;
  if (*index < folded_ || chosen_.contains(*index / phase_.slots)) return Note::repeated;
  Item* found = find(*index);
  if (!found) return Note::unexpected;
  Item& item = *found;
  const auto position = static_cast<std::size_t>(shard - phase_.shards.begin());
  if (item.staged[position]) return Note::repeated;
  item.staged[position] = true;
  --item.unstaged;
  completed(*index);
  return Note::counted;
}

void TokenBook::completed(std::uint64_t index) {
  if (!items_.at(index).complete()) return;
  forget_returned(index);  // completed although its worker was lost
  if (!has_backups()) return fold_tokens();
  const std::uint64_t step = index / phase_.slots;
  auto& complete = complete_[step];
  complete.push_back(index);
  if (complete.size() < phase_.needed) return;
  std::ranges::sort(complete);
  choose(step);
  fold_steps();
}

void TokenBook::choose(std::uint64_t step) {
  Choice& choice = chosen_[step];
  choice.step = phase_.first_step + step;
  for (const std::uint64_t index : complete_.at(step))
    choice.slots.push_back(static_cast<std::uint32_t>(index % phase_.slots));
  const auto end = items_.lower_bound((step + 1) * phase_.slots);
  for (auto item = items_.lower_bound(step * phase_.slots); item != end;) {
    const auto slot = static_cast<std::uint32_t>(item->first % phase_.slots);
    if (std::ranges::binary_search(choice.slots, slot)) {
      ++item;
      continue;
    }
    if (const auto worker = item->second.worker; worker && !item->second.done) {
      dropped_[{choice.step, slot}] = *worker;
      choice.holders.push_back(*worker);
    }
    forget_returned(item->first);
    item = items_.erase(item);
  }
}

void TokenBook::add(const Figures& figures) {
  figures_.loss_sum += figures.loss_sum;
  figures_.correct += figures.correct;
  figures_.examples += figures.examples;
}

void TokenBook::note_boundary() {
  shares_.erase(shares_.begin(), shares_.lower_bound(complete_steps()));
  if (phase_.kind == TokenKind::train && folded_ % phase_.slots == 0)
    boundaries_.push_back({phase_.first_step + complete_steps(), figures_});
}

void TokenBook::resume(std::uint64_t step, const Figures& figures) {
  folded_ = next_ = (step - phase_.first_step) * phase_.slots;
  first_open_ = step - phase_.first_step;
  figures_ = figures;
}

// Moves complete tokens from the front of the window into the figures.
void TokenBook::fold_tokens() {
  for (auto first = items_.begin(); first != items_.end() && first->first == folded_ && first->second.complete();
       first = items_.erase(first)) {
    add(first->second.figures);
    ++folded_;
    note_boundary();
  }
}

// The same for steps that have chosen.
void TokenBook::fold_steps() {
  while (!chosen_.empty() && chosen_.begin()->first == complete_steps()) {
    const auto complete = complete_.extract(chosen_.begin()->first);
    for (const std::uint64_t index : complete.mapped()) {
      add(items_.at(index).figures);
      items_.erase(index);
    }
    choices_.push_back(std::move(chosen_.begin()->second));
    chosen_.erase(chosen_.begin());
    folded_ += phase_.slots;
    next_ = std::max(next_, folded_);
    note_boundary();
  }
}

std::size_t TokenBook::give_back(std::uint32_t worker, std::set<std::uint64_t>& to) {
  std::erase_if(dropped_, [&](const auto& dropped) {
    if (dropped.second != worker) return false;
    hold(worker, -1);
    return true;
  });
  std::size_t count = 0;
  for (auto& [index, item] : items_) {
    if (item.worker != worker || item.complete()) continue;
    if (!item.done) hold(worker, -1);
    item.worker.reset();
    --shares_[index / phase_.slots].by_worker[worker];
    to.insert(index);
    ++count;
  }
  return count;
}

std::size_t TokenBook::release(std::uint32_t worker) { return give_back(worker, returned_) + release_kept(worker); }

std::size_t TokenBook::keep(std::uint32_t worker) { return give_back(worker, kept_[worker]); }

std::size_t TokenBook::release_kept(std::uint32_t worker) {
  auto kept = kept_.extract(worker);
  if (kept.empty()) return 0;
  const std::size_t count = kept.mapped().size();
  returned_.merge(kept.mapped());
  return count;
}

void TokenBook::forget_returned(std::uint64_t index) {
  returned_.erase(index);
  for (auto& [worker, kept] : kept_) kept.erase(index);
}

std::vector<TokenBook::Open> TokenBook::open(std::size_t limit, bool all) const {
  std::vector<Open> out;
  const std::uint64_t step = complete_steps(), end = all ? next_ : std::min((step + 1) * phase_.slots, count_);
  for (std::uint64_t index = folded_; index < end && out.size() < limit; ++index) {
    if (!wanted(index)) continue;
    const Token at = token(index);
    Open open{.step = at.step, .slot = at.slot, .worker = {}, .kept = {}, .unstaged = {}};
    if (const auto found = items_.find(index); found == items_.end()) {
      open.handed_out = false;
    } else {
      if (found->second.complete()) continue;
      open.worker = found->second.worker;
      open.done = found->second.done;
      for (std::size_t i = 0; i < found->second.staged.size(); ++i)
        if (!found->second.staged[i]) open.unstaged.push_back(phase_.shards[i]);
    }
    for (const auto& [worker, kept] : kept_)
      if (kept.contains(index)) open.kept = worker;
    out.push_back(std::move(open));
  }
  return out;
}

std::vector<std::pair<std::uint64_t, std::uint32_t>> TokenBook::held_by(std::uint32_t worker) const {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> out;
  for (const auto& [index, item] : items_)
    if (item.worker == worker && !item.done) out.emplace_back(token(index).step, token(index).slot);
  for (const auto& [dropped, holder] : dropped_)
    if (holder == worker) out.push_back(dropped);
  std::ranges::sort(out);
  return out;
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
