#include "troupe/scheduler/training/worker_tokens.hpp"

#include <algorithm>
#include <tuple>

#include <troupe/scheduler/training/turns.hpp>

namespace troupe {
namespace {

bool is_later(const Token& a, const Token& b) {
  return std::tie(a.epoch, a.kind, a.step, a.phase) > std::tie(b.epoch, b.kind, b.step, b.phase);
}

}  // namespace

void WorkerTokens::begin(TrainingOutbox& out) {
  for (std::uint32_t i = 0; i < options_.ahead; ++i) ask(out);
}

void WorkerTokens::ask(TrainingOutbox& out) {
  asked_.insert(++request_);
  out.push_back({Destination::coordinator(),
                 TakeToken{.worker = options_.worker, .request = request_, .job = 0, .view = options_.view}});
}

bool WorkerTokens::has(const Token& token) const {
  const auto same = [&](const Token& t) {
    return std::tie(t.kind, t.epoch, t.step, t.phase, t.slot) ==
           std::tie(token.kind, token.epoch, token.step, token.phase, token.slot);
  };
  return std::ranges::any_of(waiting_, same) ||
         std::ranges::any_of(computing_, [&](const Computing& c) { return same(c.work.token); });
}

void WorkerTokens::came(const Token& token) {
  if (token.request == 0 ? has(token) : asked_.erase(token.request) == 0) return;
  if (token.kind == TokenKind::finish)
    finish_ = token;
  else
    waiting_.push_back(token);
}

std::vector<std::uint64_t> WorkerTokens::committed(const Commit& commit, TrainingOutbox& out) {
  const auto unused = [&](const Token& token) {
    return token.kind == TokenKind::train && token.step == commit.step && token.phase == commit.phase &&
           !std::ranges::binary_search(commit.slots, token.slot);
  };
  std::vector<std::uint64_t> cancelled;
  for (Computing& computing : computing_) {
    if (computing.unused || !unused(computing.work.token)) continue;
    computing.unused = true;
    cancelled.push_back(computing.work.id);
  }
  std::erase_if(waiting_, [&](const Token& token) {
    if (!unused(token)) return false;
    report(token, {}, out);
    return true;
  });
  return cancelled;
}

std::optional<WorkerTokens::Work> WorkerTokens::start() {
  const bool asynchronous = options_.mode == TrainingMode::asynchronous;
  if (waiting_.empty() || (asynchronous && !computing_.empty())) return std::nullopt;
  const Work work{.id = ++works_, .token = waiting_.front(), .after = after_};
  waiting_.pop_front();
  computing_.push_back({.work = work, .report = {}});
  return work;
}

bool WorkerTokens::unused(std::uint64_t id) const {
  const auto found = std::ranges::find(computing_, id, [](const Computing& c) { return c.work.id; });
  return found != computing_.end() && found->unused;
}

void WorkerTokens::ended(std::uint64_t id, TokenDone figures, TrainingOutbox& out) {
  const auto found = std::ranges::find(computing_, id, [](const Computing& c) { return c.work.id; });
  if (found == computing_.end()) return;
  found->report = std::move(figures);
  for (auto c = computing_.begin(); c != computing_.end();) {
    const auto holds_up = [&](const Computing& earlier) { return !is_later(earlier.work.token, c->work.token); };
    if (!c->report || std::any_of(computing_.begin(), c, holds_up)) {
      ++c;
      continue;
    }
    Computing done = std::move(*c);
    c = computing_.erase(c);
    const Token& token = done.work.token;
    const bool pushed = token.kind == TokenKind::train && !done.report->over;
    if (options_.mode == TrainingMode::asynchronous && pushed)
      after_ = turn_of(token.step, token.phase, options_.phases) + 1;
    report(token, done.unused ? TokenDone{} : std::move(*done.report), out);
  }
}

// An unrequested token is not followed by a new request: earlier requests are still open.
void WorkerTokens::report(const Token& token, TokenDone report, TrainingOutbox& out) {
  report.worker = options_.worker;
  report.token = token;
  report.view = options_.view;
  out.push_back({Destination::coordinator(), std::move(report)});
  if (token.request != 0) ask(out);
}

}  // namespace troupe
