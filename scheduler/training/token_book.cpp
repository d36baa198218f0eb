#include "troupe/scheduler/training/token_book.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

std::string TokenPlace::to_string(std::uint32_t phases) const {
  return fmt::format("step {}{} slot {}", step, phases > 1 ? fmt::format(" phase {}", phase) : "", slot);
}

void TokenBook::begin(TokenPlan plan) {
  plan_ = std::move(plan);
  count_ = plan_.steps * per_step();
  next_ = folded_ = first_open_ = 0;
  shares_.clear();
  items_.clear();
  returned_.clear();
  kept_.clear();
  complete_.clear();
  chosen_.clear();
  ended_ = false;
  figures_ = {};
  held_.assign(held_.size(), 0);
  for (const auto& [token, worker] : dropped_) hold(worker, 1);
}

const std::vector<std::uint32_t>& TokenBook::shards_of(std::uint64_t index) const {
  static const std::vector<std::uint32_t> kNone;
  return plan_.shards.empty() ? kNone : plan_.shards[turn_at(index) % plan_.phases];
}

TokenPlace TokenBook::place(std::uint64_t index) const {
  if (plan_.kind == TokenKind::evaluate) return {plan_.first_step, 0, static_cast<std::uint32_t>(index)};
  const std::uint64_t turn = turn_at(index);
  return {plan_.first_step + turn / plan_.phases, static_cast<std::uint32_t>(turn % plan_.phases),
          static_cast<std::uint32_t>(index % plan_.slots)};
}

Token TokenBook::token(std::uint64_t index) const {
  const TokenPlace at = place(index);
  Token token;
  token.kind = plan_.kind;
  token.epoch = plan_.epoch;
  token.step = at.step;
  token.phase = at.phase;
  token.slot = at.slot;
  token.batch = at.step - plan_.first_step;
  token.rate_scale = plan_.rate_scale;
  token.keep = plan_.keep && token.batch == 0;
  if (plan_.kind == TokenKind::evaluate)
    token.min_version = plan_.version;
  else if (plan_.mode != TrainingMode::asynchronous)
    token.min_version = oldest_version(at.step, at.phase, plan_.phases, plan_.staleness);
  return token;
}

std::optional<std::uint64_t> TokenBook::index_of(const TokenPlace& at) const {
  const bool evaluates = plan_.kind == TokenKind::evaluate;
  if (at.step < plan_.first_step || at.phase >= plan_.phases || (!evaluates && at.slot >= plan_.slots))
    return std::nullopt;
  const std::uint64_t step = evaluates ? at.slot : at.step - plan_.first_step;
  if (step >= plan_.steps || (evaluates && at.step != plan_.first_step)) return std::nullopt;
  return turn_of(step, at.phase, plan_.phases) * plan_.slots + (evaluates ? 0 : at.slot);
}

// Whether a token may still count: its turn has not chosen yet, and the commit log does not leave it out.
bool TokenBook::wanted(std::uint64_t index) const {
  const std::uint64_t turn = turn_at(index);
  if (chosen_.contains(turn)) return false;
  if (!plan_.commits || !has_backups()) return true;
  const auto* slots = plan_.commits->find(plan_.first_step * plan_.phases + turn);
  return !slots || std::ranges::binary_search(*slots, static_cast<std::uint32_t>(index % plan_.slots));
}

// Whether the batch's phase before this one is incomplete (asynchronous: there is one slot).
bool TokenBook::waits_for_phase(std::uint64_t turn) const {
  if (!plan_.phases_in_order || plan_.mode != TrainingMode::asynchronous || turn % plan_.phases == 0 ||
      turn - 1 < folded_)
    return false;
  const auto before = items_.find(turn - 1);
  return before == items_.end() || !before->second.complete();
}

void TokenBook::hold(std::uint32_t worker, std::ptrdiff_t change) {
  if (worker >= held_.size()) held_.resize(worker + 1);
  held_[worker] += static_cast<std::size_t>(change);
}

std::optional<std::uint64_t> TokenBook::first_wanted(std::uint64_t turn) const {
  const auto shares = shares_.find(turn);
  const std::uint64_t end = (turn + 1) * plan_.slots;
  for (std::uint64_t index = turn * plan_.slots + (shares == shares_.end() ? 0 : shares->second.taken); index < end;
       ++index)
    if (wanted(index)) return index;
  return std::nullopt;
}

// Picks among the tokens never handed out.
std::optional<std::uint64_t> TokenBook::pick(std::uint32_t worker, std::uint32_t members) const {
  const std::uint64_t needed = has_backups() ? plan_.needed : plan_.slots;
  const std::uint64_t share = (needed + members - 1) / std::max<std::uint32_t>(1, members);
  const std::uint64_t version = plan_.first_step * plan_.phases + complete_turns();
  for (std::uint64_t turn = std::max(first_open_, complete_turns()); turn < turns(); ++turn) {
    if (plan_.lookahead && turn > complete_turns() + *plan_.lookahead) break;
    const auto index = first_wanted(turn);
    if (!index || waits_for_phase(turn)) continue;
    const auto shares = shares_.find(turn);
    if (shares == shares_.end()) return index;
    const auto own = shares->second.by_worker.find(worker);
    if (own == shares->second.by_worker.end() || own->second < share ||
        (token(*index).min_version <= version && held(worker) == 0))
      return index;
  }
  return std::nullopt;
}

void TokenBook::take_from_turn(std::uint64_t index) {
  shares_[turn_at(index)].taken = static_cast<std::uint32_t>(index % plan_.slots) + 1;
  next_ = std::max(next_, index + 1);
  first_open_ = std::max(first_open_, complete_turns());
  while (first_open_ < turns() && shares_.contains(first_open_) && !first_wanted(first_open_)) ++first_open_;
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
    take_from_turn(index = *picked);
  }
  Item& item = items_[index];
  if (item.staged.empty()) {
    item.unstaged = shards_of(index).size();
    item.staged.resize(item.unstaged);
  }
  item.worker = worker;
  ++shares_[turn_at(index)].by_worker[worker];
  if (!item.done) hold(worker, 1);
  return token(index);
}

TokenBook::Item* TokenBook::find(std::uint64_t index) {
  const auto found = items_.find(index);
  return found == items_.end() ? nullptr : &found->second;
}

TokenBook::Note TokenBook::done(const TokenDone& message) {
  const Token& claimed = message.token;
  if (const auto dropped = dropped_.find(key_of(claimed));
      dropped != dropped_.end() && dropped->second == message.worker) {
    dropped_.erase(dropped);
    hold(message.worker, -1);
    return Note::late;
  }
  const auto claimed_part = std::tie(claimed.epoch, claimed.kind);
  const auto this_part = std::tie(plan_.epoch, plan_.kind);
  if (claimed.kind == TokenKind::finish || claimed_part > this_part) return Note::unexpected;
  if (claimed_part < this_part) return Note::repeated;
  const auto index = index_of({claimed.step, claimed.phase, claimed.slot});
  if (!index && ended_ && message.over) return Note::repeated;
  if (!index || *index >= next_) return Note::unexpected;
  if (*index < folded_ || chosen_.contains(turn_at(*index))) return Note::repeated;
  Item* found = find(*index);
  if (!found) return Note::unexpected;
  Item& item = *found;
  if (item.done) return Note::repeated;
  // It lost an unasked token with its membership, and the token came once more when it had joined again.
  if (item.worker != message.worker && claimed.request == 0) return Note::repeated;
  if (item.worker != message.worker || message.examples > plan_.examples || !can_add(figures_.sums, message.sums))
    return Note::unexpected;
  if (message.over) return end_before(*index, item);
  item.done = true;
  hold(message.worker, -1);
  item.figures = {message.sums, message.examples};
  completed(*index);
  return Note::counted;
}

TokenBook::Note TokenBook::staged(const Staged& message) {
  if (message.step < plan_.first_step) return Note::repeated;
  const auto index = index_of({message.step, message.phase, message.slot});
  if (!index || *index >= next_) return Note::unexpected;
  const std::vector<std::uint32_t>& shards = shards_of(*index);
  const auto shard = std::ranges::find(shards, message.shard);
  if (shard == shards.end()) return Note::unexpected;
  if (*index < folded_ || chosen_.contains(turn_at(*index))) return Note::repeated;
  Item* found = find(*index);
  if (!found) return Note::unexpected;
  Item& item = *found;
  const auto position = static_cast<std::size_t>(shard - shards.begin());
  if (item.staged[position]) return Note::repeated;
  item.staged[position] = true;
  --item.unstaged;
  completed(*index);
  return Note::counted;
}

void TokenBook::drop(std::uint64_t index, const Item& item) {
  if (item.worker && !item.done) dropped_[key_of(token(index))] = *item.worker;
  forget_returned(index);
}

// The data ended before the step of token `index`, so this part has only the steps before: its later tokens are
// dropped.
TokenBook::Note TokenBook::end_before(std::uint64_t index, Item& item) {
  const std::uint64_t step = index / per_step();
  const bool known = plan_.steps < TokenPlan::kUnknownSteps && !ended_;
  if (known || step < complete_steps()) return Note::unexpected;
  hold(*item.worker, -1);
  item.done = true;
  const std::uint64_t count = step * per_step();
  for (auto it = items_.lower_bound(count); it != items_.end(); it = items_.erase(it)) drop(it->first, it->second);
  ended_ = true;
  plan_.steps = step;
  count_ = count;
  next_ = std::min(next_, count_);
  first_open_ = std::min(first_open_, turns());
  shares_.erase(shares_.lower_bound(turns()), shares_.end());
  complete_.erase(complete_.lower_bound(turns()), complete_.end());
  return Note::counted;
}

void TokenBook::completed(std::uint64_t index) {
  if (!items_.at(index).complete()) return;
  forget_returned(index);  // completed although its worker was lost
  if (!has_backups()) return fold_tokens();
  const std::uint64_t turn = turn_at(index);
  auto& complete = complete_[turn];
  complete.push_back(index);
  if (complete.size() < plan_.needed) return;
  std::ranges::sort(complete);
  choose(turn);
  fold_turns();
}

void TokenBook::choose(std::uint64_t turn) {
  Choice& choice = chosen_[turn];
  const TokenPlace at = place(turn * plan_.slots);
  choice.step = at.step;
  choice.phase = at.phase;
  for (const std::uint64_t index : complete_.at(turn))
    choice.slots.push_back(static_cast<std::uint32_t>(index % plan_.slots));
  const auto end = items_.lower_bound((turn + 1) * plan_.slots);
  for (auto item = items_.lower_bound(turn * plan_.slots); item != end;) {
    if (std::ranges::binary_search(choice.slots, static_cast<std::uint32_t>(item->first % plan_.slots))) {
      ++item;
      continue;
    }
    if (item->second.worker && !item->second.done) choice.holders.push_back(*item->second.worker);
    drop(item->first, item->second);
    item = items_.erase(item);
  }
}

void TokenBook::add(const Figures& figures, std::uint64_t index) {
  troupe::add(figures_.sums, figures.sums);
  if (place(index).phase == 0) figures_.examples += figures.examples;
}

void TokenBook::note_boundary() {
  shares_.erase(shares_.begin(), shares_.lower_bound(complete_turns()));
  if (plan_.kind == TokenKind::train && folded_ % per_step() == 0)
    boundaries_.push_back({plan_.first_step + complete_steps(), figures_});
}

void TokenBook::resume(std::uint64_t step, const Figures& figures) {
  folded_ = next_ = (step - plan_.first_step) * per_step();
  first_open_ = complete_turns();
  figures_ = figures;
}

// Moves complete tokens from the front of the window into the figures.
void TokenBook::fold_tokens() {
  for (auto first = items_.begin(); first != items_.end() && first->first == folded_ && first->second.complete();
       first = items_.erase(first)) {
    add(first->second.figures, folded_);
    ++folded_;
    note_boundary();
  }
}

// The same for turns that have chosen.
void TokenBook::fold_turns() {
  while (!chosen_.empty() && chosen_.begin()->first == complete_turns()) {
    const auto complete = complete_.extract(chosen_.begin()->first);
    for (const std::uint64_t index : complete.mapped()) {
      add(items_.at(index).figures, index);
      items_.erase(index);
    }
    choices_.push_back(std::move(chosen_.begin()->second));
    chosen_.erase(chosen_.begin());
    folded_ += plan_.slots;
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
    --shares_[turn_at(index)].by_worker[worker];
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
  const std::uint64_t end = all ? next_ : std::min((complete_turns() + 1) * plan_.slots, count_);
  for (std::uint64_t index = folded_; index < end && out.size() < limit; ++index) {
    if (!wanted(index)) continue;
    Open open{.place = place(index), .worker = {}, .kept = {}, .unstaged = {}};
    if (const auto found = items_.find(index); found == items_.end()) {
      open.handed_out = false;
    } else {
      if (found->second.complete()) continue;
      open.worker = found->second.worker;
      open.done = found->second.done;
      for (std::size_t i = 0; i < found->second.staged.size(); ++i)
        if (!found->second.staged[i]) open.unstaged.push_back(shards_of(index)[i]);
    }
    for (const auto& [worker, kept] : kept_)
      if (kept.contains(index)) open.kept = worker;
    out.push_back(std::move(open));
  }
  return out;
}

std::vector<TokenPlace> TokenBook::held_by(std::uint32_t worker) const {
  std::vector<TokenPlace> out;
  for (const auto& [index, item] : items_)
    if (item.worker == worker && !item.done) out.push_back(place(index));
  for (const auto& [dropped, holder] : dropped_)
    if (holder == worker) out.push_back(std::get<TokenPlace>(dropped));
  std::ranges::sort(out);
  return out;
}

std::string TokenBook::outstanding(std::size_t limit, bool of_first_turn) const {
  std::string text;
  std::size_t shown = 0;
  for (const auto& [index, item] : items_) {
    if (item.complete()) continue;
    if (of_first_turn && turn_at(index) > complete_turns()) break;
    if (shown++ == limit) return text + "; …";
    text += fmt::format("{}{} (", shown == 1 ? "" : "; ", place(index).to_string(plan_.phases));
    text += item.worker ? fmt::format("worker {}", *item.worker) : "back in the book";
    text += item.done ? ", reported" : "";
    for (std::size_t i = 0; i < item.staged.size(); ++i)
      if (!item.staged[i]) text += fmt::format(", not staged on shard {}", shards_of(index)[i]);
    text += ")";
  }
  return text;
}

}  // namespace troupe
