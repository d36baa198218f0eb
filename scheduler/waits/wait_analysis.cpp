// analyse() of wait_graph.hpp: cycles are the strongly connected components of the graph (Tarjan, "Depth-first search
// and linear graph algorithms", SIAM J. Comput. 1972), the other causes are things that wait for nothing.
#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include <troupe/scheduler/waits/wait_graph.hpp>
#include <troupe/scheduler/waits/wait_things.hpp>

namespace troupe {
namespace {

constexpr std::size_t kCausesShown = 8;
constexpr std::size_t kWorkShown = 4;        // items in progress, in brief
constexpr std::int64_t kTold = 100'000'000;  // ns; shorter times are not shown
constexpr std::size_t kOthersShown = 4;      // waiters for the same cause
constexpr std::size_t kChainBegin = 10;      // lines at the two ends of a chain
constexpr std::size_t kChainEnd = 4;
constexpr std::size_t kCircleShown = 8;
constexpr std::size_t kCausesCounted = 256;
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

using State = WaitThing::State;
using Kind = RootCause::Kind;

int gravity(Kind kind) {
  switch (kind) {
    case Kind::deadlock:
      return 0;
    case Kind::never:
      return 1;
    case Kind::silent:
      return 2;
    case Kind::stuck:
      return 3;
    case Kind::working:
      return 4;
  }
  return 5;
}

std::string_view heading(Kind kind) {
  switch (kind) {
    case Kind::deadlock:
      return "DEADLOCK";
    case Kind::never:
      return "NEVER";
    case Kind::silent:
      return "SILENT";
    case Kind::stuck:
      return "STUCK";
    case Kind::working:
      return "WORKING";
  }
  return "?";
}

// Picks one of two texts about a thing, regardless of their order.
void keep_better(std::string& text, const std::string& other) {
  if (std::tuple(other.size(), std::string_view(text)) > std::tuple(text.size(), std::string_view(other))) text = other;
}

std::string count_of(std::size_t count, std::string_view one, std::string_view more) {
  return count == 1 ? fmt::format("1 {}", one) : fmt::format("{} {}", count, more);
}

std::string since(std::int64_t ns) { return ns < kTold ? "" : ", for " + wait_time(ns); }

class Analysis {
 public:
  Analysis(const Waiting& waiting, const std::vector<SilentTask>& silent) {
    merge(waiting);
    leave_out_begun_ranks();
    mark_silent(silent);
    connect();
    find_circles();
    find_causes();
  }
  WaitAnalysis result();

 private:
  struct Edge {
    std::uint32_t from, to;
    const Wait* wait;  // null: on a silent task
    std::string text;
    std::int64_t for_ns = 0;
  };
  struct Node {
    WaitThing thing;
    bool silent = false;  // a task
    std::uint32_t on_silent = kNone;
    std::vector<std::uint32_t> out, in;  // edges
    std::uint32_t circle = kNone;        // its component, if that is a cycle
  };
  struct Cause {
    RootCause told;
    std::vector<std::uint32_t> nodes;
  };

  std::uint32_t node(const std::string& id);
  void leave_out_begun_ranks();
  void merge(const Waiting& waiting);
  void mark_silent(const std::vector<SilentTask>& silent);
  void connect();
  void find_circles();
  void find_causes();
  Cause cause_of(std::uint32_t node) const;
  Cause deadlock(std::vector<std::uint32_t> members) const;
  std::vector<std::uint32_t> circle_through(std::uint32_t node) const;
  // All that wait for these; afterwards, towards_ leads from each to them.
  std::vector<std::uint32_t> waiters_of(const std::vector<std::uint32_t>& nodes);
  std::string chain(std::uint32_t from, const std::vector<std::uint32_t>& to) const;
  std::string heading_of(std::size_t number, const Cause& cause) const;
  std::string tell(std::size_t number, const Cause& cause);
  std::string summary() const;
  std::string brief(const std::vector<std::string>& told) const;
  std::string text_of(std::uint32_t node) const {
    return nodes_[node].thing.text.empty() ? wait_thing::describe(nodes_[node].thing.id) : nodes_[node].thing.text;
  }

  std::unordered_map<std::string, std::uint32_t> index_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<std::vector<std::uint32_t>> circles_;
  std::vector<Cause> causes_;
  std::vector<std::uint32_t> towards_;  // by node: the edge that leads to the cause, kNone: it is the cause
  std::vector<std::uint32_t> seen_;     // by node: the search that reached it
  std::uint32_t searches_ = 0;
  std::size_t waiting_ = 0;  // things that wait
};

std::uint32_t Analysis::node(const std::string& id) { return index_.at(id); }

// Nodes are numbered in id order, edges by nodes: the order of the reports does not matter.
void Analysis::merge(const Waiting& waiting) {
  std::vector<std::string> ids;
  ids.reserve(waiting.things.size() + 2 * waiting.waits.size());
  for (const WaitThing& thing : waiting.things) ids.push_back(thing.id);
  for (const Wait& wait : waiting.waits) ids.insert(ids.end(), {wait.waiter, wait.awaited});
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (std::string& id : ids) {
    index_.emplace(id, static_cast<std::uint32_t>(nodes_.size()));
    nodes_.emplace_back().thing.id = std::move(id);
  }
  for (const WaitThing& other : waiting.things) {
    WaitThing& thing = nodes_[node(other.id)].thing;
    if (other.state > thing.state) {
      thing.state = other.state;
      thing.text = other.text;
    } else if (other.state == thing.state) {
      keep_better(thing.text, other.text);
    }
    if (thing.task.empty() || (!other.task.empty() && other.task < thing.task)) thing.task = other.task;
    thing.for_ns = std::max(thing.for_ns, other.for_ns);
  }
  for (const Wait& wait : waiting.waits)
    edges_.push_back({node(wait.waiter), node(wait.awaited), &wait, wait.text, wait.for_ns});
  std::ranges::sort(edges_, [](const Edge& a, const Edge& b) {
    return std::tie(a.from, a.to, a.wait->kind) < std::tie(b.from, b.to, b.wait->kind);
  });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    if (kept > 0 && edges_[kept - 1].from == edges_[i].from && edges_[kept - 1].to == edges_[i].to) {
      keep_better(edges_[kept - 1].text, edges_[i].text);
      edges_[kept - 1].for_ns = std::max(edges_[kept - 1].for_ns, edges_[i].for_ns);
    } else {
      if (kept != i) edges_[kept] = std::move(edges_[i]);
      ++kept;
    }
  }
  edges_.erase(edges_.begin() + static_cast<std::ptrdiff_t>(kept), edges_.end());
}

// "collective/1/0/7" of "collective/1/0/7//job:worker/task:0"; "" of other things.
std::string_view collective_of(std::string_view id) {
  return id.starts_with("collective/") ? id.substr(0, std::min(id.find("//"), id.size())) : std::string_view();
}

// Ranks that have begun wait for messages on their way between them: that is not a cycle.
void Analysis::leave_out_begun_ranks() {
  const auto within = [this](const Edge& edge) {
    const std::string_view of = collective_of(nodes_[edge.from].thing.id);
    return !of.empty() && of == collective_of(nodes_[edge.to].thing.id);
  };
  std::vector<bool> begun(nodes_.size());
  for (const Edge& edge : edges_)
    if (within(edge)) begun[edge.from] = true;
  std::set<std::string_view> blocked;  // a rank has not begun
  for (const Edge& edge : edges_)
    if (within(edge) && !begun[edge.to]) blocked.insert(collective_of(nodes_[edge.from].thing.id));
  std::vector<bool> waits(nodes_.size());
  std::erase_if(edges_, [&](const Edge& edge) {
    if (!within(edge)) return false;
    const bool in_turn = edge.wait->kind == kInTurn;
    const bool counts = in_turn ? blocked.contains(collective_of(nodes_[edge.from].thing.id)) : !begun[edge.to];
    if (counts) waits[edge.from] = true;
    return !counts;
  });
  for (std::uint32_t n = 0; n < nodes_.size(); ++n)
    if (begun[n] && !waits[n]) nodes_[n].thing.state = std::max(nodes_[n].thing.state, State::works);
}

void Analysis::mark_silent(const std::vector<SilentTask>& silent) {
  if (silent.empty()) return;
  std::unordered_map<std::string, std::uint32_t> tasks;
  std::map<std::string, std::string> texts;
  for (const SilentTask& task : silent) keep_better(texts[task.task], task.text);
  for (const auto& [task, text] : texts) {
    const auto [it, fresh] = index_.try_emplace("task/" + task, static_cast<std::uint32_t>(nodes_.size()));
    if (fresh) nodes_.emplace_back().thing.id = it->first;
    Node& node = nodes_[it->second];
    node.silent = true;
    node.thing.text = fmt::format("{} does not answer ({})", task, text);
    tasks.emplace(task, it->second);
  }
  for (std::uint32_t n = 0; n < nodes_.size(); ++n)
    if (const auto on = tasks.find(nodes_[n].thing.task);
        on != tasks.end() && on->second != n && nodes_[n].thing.state != State::never) {
      nodes_[n].on_silent = on->second;
      edges_.push_back({n, on->second, nullptr, {}, nodes_[n].thing.for_ns});
    }
}

void Analysis::connect() {
  for (std::uint32_t e = 0; e < edges_.size(); ++e) {
    const Edge& edge = edges_[e];
    const Node& from = nodes_[edge.from];
    // A thing that never comes, or does nothing, is a cause of its own.
    if (from.silent || from.thing.state == State::never ||
        (from.thing.state == State::stuck && from.on_silent == kNone))
      continue;
    if (edge.wait && from.on_silent != kNone) continue;
    nodes_[edge.from].out.push_back(e);
    nodes_[edge.to].in.push_back(e);
  }
  waiting_ = static_cast<std::size_t>(std::ranges::count_if(nodes_, [](const Node& n) { return !n.out.empty(); }));
}

void Analysis::find_circles() {
  struct Visit {
    std::uint32_t node, next_edge;
  };
  std::vector<std::uint32_t> number(nodes_.size(), kNone), low(nodes_.size());
  std::vector<bool> open(nodes_.size());
  std::vector<std::uint32_t> stack;
  std::vector<Visit> path;
  std::uint32_t next = 0;
  const auto enter = [&](std::uint32_t n) {
    number[n] = low[n] = next++;
    stack.push_back(n);
    open[n] = true;
    path.push_back({n, 0});
  };
  for (std::uint32_t start = 0; start < nodes_.size(); ++start) {
    if (number[start] == kNone) enter(start);
    while (!path.empty()) {
      Visit& visit = path.back();
      const std::uint32_t n = visit.node;
      if (visit.next_edge < nodes_[n].out.size()) {
        const std::uint32_t to = edges_[nodes_[n].out[visit.next_edge++]].to;
        if (number[to] == kNone)
          enter(to);
        else if (open[to])
          low[n] = std::min(low[n], number[to]);
        continue;
      }
      path.pop_back();
      if (!path.empty()) low[path.back().node] = std::min(low[path.back().node], low[n]);
      if (low[n] != number[n]) continue;
      std::vector<std::uint32_t> members;
      do {
        members.push_back(stack.back());
        open[stack.back()] = false;
        stack.pop_back();
      } while (members.back() != n);
      const bool itself = std::ranges::any_of(nodes_[n].out, [&](std::uint32_t e) { return edges_[e].to == n; });
      if (members.size() == 1 && !itself) continue;
      std::ranges::sort(members);
      for (const std::uint32_t m : members) nodes_[m].circle = static_cast<std::uint32_t>(circles_.size());
      circles_.push_back(std::move(members));
    }
  }
}

// A shortest path from a member of a cycle back to it.
std::vector<std::uint32_t> Analysis::circle_through(std::uint32_t first) const {
  std::unordered_map<std::uint32_t, std::uint32_t> from;
  std::deque<std::uint32_t> queue{first};
  while (!queue.empty()) {
    const std::uint32_t n = queue.front();
    queue.pop_front();
    for (const std::uint32_t e : nodes_[n].out) {
      const std::uint32_t to = edges_[e].to;
      if (to == first) {
        std::vector<std::uint32_t> way{n};
        while (way.back() != first) way.push_back(from.at(way.back()));
        std::ranges::reverse(way);
        return way;
      }
      if (nodes_[to].circle == nodes_[first].circle && from.emplace(to, n).second) queue.push_back(to);
    }
  }
  return {first};
}

Analysis::Cause Analysis::deadlock(std::vector<std::uint32_t> members) const {
  Cause cause{.told = {.kind = Kind::deadlock}, .nodes = std::move(members)};
  const std::vector<std::uint32_t> way = circle_through(cause.nodes.front());
  std::string text;
  for (std::size_t i = 0; i < std::min(way.size(), kCircleShown); ++i)
    text += (i == 0 ? "" : i == 1 ? " waits for " : ", which waits for ") + text_of(way[i]);
  if (way.size() > kCircleShown) text += fmt::format(", and so on through {} more", way.size() - kCircleShown);
  text += way.size() == 1 ? " waits for itself" : ", which waits for the first";
  if (cause.nodes.size() > way.size()) text += fmt::format(" ({} things wait for each other)", cause.nodes.size());
  cause.told.text = text + ": none of them can proceed";
  for (const std::uint32_t m : cause.nodes) {
    cause.told.things.push_back(nodes_[m].thing.id);
    cause.told.for_ns = std::max(cause.told.for_ns, nodes_[m].thing.for_ns);
  }
  return cause;
}

Analysis::Cause Analysis::cause_of(std::uint32_t n) const {
  const Node& node = nodes_[n];
  Cause cause{.told = {.text = text_of(n), .things = {node.thing.id}, .for_ns = node.thing.for_ns}, .nodes = {n}};
  for (const std::uint32_t e : node.in)
    if (node.thing.for_ns == 0) cause.told.for_ns = std::max(cause.told.for_ns, edges_[e].for_ns);
  if (node.silent) {
    cause.told.kind = Kind::silent;
  } else if (node.thing.state == State::never) {
    cause.told.kind = Kind::never;
  } else if (node.thing.state == State::works) {
    cause.told.kind = Kind::working;
  } else {
    cause.told.kind = Kind::stuck;
    if (node.thing.state == State::waits)
      cause.told.text += node.thing.task.empty()
                             ? ": no task reports why it does not come"
                             : fmt::format(": {} does not report why it does not come", node.thing.task);
  }
  return cause;
}

void Analysis::find_causes() {
  for (const std::vector<std::uint32_t>& circle : circles_) causes_.push_back(deadlock(circle));
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    const bool alone =
        node.in.empty() && (node.thing.state == State::waits || node.thing.state == State::works) && !node.silent;
    if (node.out.empty() && !alone) causes_.push_back(cause_of(n));
  }
  const auto direct = [this](const Cause& cause) {
    std::size_t count = 0;
    for (const std::uint32_t n : cause.nodes) count += nodes_[n].in.size();
    return count;
  };
  const auto sort = [this] {
    std::ranges::stable_sort(causes_, [](const Cause& a, const Cause& b) {
      return std::tuple(gravity(a.told.kind), b.told.waiters, b.told.for_ns) <
             std::tuple(gravity(b.told.kind), a.told.waiters, a.told.for_ns);
    });
  };
  for (Cause& cause : causes_) cause.told.waiters = direct(cause);
  sort();
  seen_.assign(nodes_.size(), 0);
  towards_.assign(nodes_.size(), kNone);
  std::size_t budget = 64 * (nodes_.size() + edges_.size());  // each may lie before every cause
  for (std::size_t i = 0; i < std::min(causes_.size(), kCausesCounted) && budget > 0; ++i) {
    const auto found = waiters_of(causes_[i].nodes);
    causes_[i].told.waiters = found.size();
    std::size_t cost = found.size() + 1;
    for (const std::uint32_t n : found) cost += nodes_[n].in.size();
    budget -= std::min(budget, cost);
  }
  sort();
}

std::vector<std::uint32_t> Analysis::waiters_of(const std::vector<std::uint32_t>& nodes) {
  ++searches_;
  std::vector<std::uint32_t> found = nodes;
  for (const std::uint32_t n : nodes) {
    seen_[n] = searches_;
    towards_[n] = kNone;
  }
  for (std::size_t i = 0; i < found.size(); ++i)
    for (const std::uint32_t e : nodes_[found[i]].in) {
      const std::uint32_t from = edges_[e].from;
      if (seen_[from] == searches_) continue;
      seen_[from] = searches_;
      towards_[from] = e;
      found.push_back(from);
    }
  found.erase(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(nodes.size()));
  // Those in a cycle wait for it themselves.
  if (!nodes.empty() && nodes_[nodes[0]].circle != kNone) found.insert(found.end(), nodes.begin(), nodes.end());
  return found;
}

// From the first waiter to the cause, a line each.
std::string Analysis::chain(std::uint32_t from, const std::vector<std::uint32_t>& to) const {
  std::vector<std::string> lines{"   " + text_of(from)};
  lines[0] += since(nodes_[from].thing.for_ns);
  for (std::uint32_t n = from; towards_[n] != kNone; n = edges_[towards_[n]].to) {
    const Edge& edge = edges_[towards_[n]];
    if (!edge.wait) {
      lines.push_back("     which is on " + nodes_[n].thing.task);
      continue;
    }
    std::string line = "     waits for " + text_of(edge.to);
    if (!edge.text.empty()) line += ": " + edge.text;
    line += since(edge.for_ns);
    lines.push_back(std::move(line));
  }
  if (nodes_[to[0]].circle != kNone) lines.push_back("     which is in the cycle");
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines.size() > kChainBegin + kChainEnd + 1 && i == kChainBegin) {
      text += fmt::format("     … {} in between …\n", lines.size() - kChainBegin - kChainEnd);
      i = lines.size() - kChainEnd;
    }
    text += lines[i] + '\n';
  }
  return text;
}

std::string Analysis::heading_of(std::size_t number, const Cause& cause) const {
  return fmt::format("{}. {} {}{}", number, heading(cause.told.kind), cause.told.text, since(cause.told.for_ns));
}

std::string Analysis::tell(std::size_t number, const Cause& cause) {
  std::string text = heading_of(number, cause) + '\n';
  const auto waiters = waiters_of(cause.nodes);
  std::vector<std::uint32_t> first;  // waiters that nothing waits for
  for (const std::uint32_t n : waiters)
    if (nodes_[n].in.empty()) first.push_back(n);
  std::ranges::sort(first, [this](std::uint32_t a, std::uint32_t b) {
    return std::tuple(nodes_[b].thing.for_ns, a) < std::tuple(nodes_[a].thing.for_ns, b);
  });
  if (!first.empty()) text += chain(first[0], cause.nodes);
  if (waiters.empty()) return text + "   Nothing known waits for it.\n";
  if (first.size() > 1) {
    text += "   Also waiting for it: ";
    const std::size_t shown = std::min(first.size(), kOthersShown + 1);
    for (std::size_t i = 1; i < shown; ++i) text += (i == 1 ? "" : "; ") + text_of(first[i]);
    if (first.size() > shown) text += fmt::format("; and {} more", first.size() - shown);
    text += ".\n";
  }
  return text;
}

std::string Analysis::summary() const {
  const auto wrong = [](const Cause& cause) { return cause.told.kind != Kind::working; };
  const bool stuck =
      std::ranges::any_of(causes_, [&](const Cause& cause) { return wrong(cause) && cause.told.waiters > 0; });
  if (waiting_ == 0) return "Nothing waits, but:\n";
  const std::string waiting = count_of(waiting_, "thing waits", "things wait");
  if (stuck) return fmt::format("{} for {}; the worst first.\n", waiting, count_of(causes_.size(), "cause", "causes"));
  if (wrong(causes_[0])) return fmt::format("Nothing is stuck, but not all is well; {}.\n", waiting);
  return fmt::format("Nothing is stuck: {} for work in progress.\n", waiting);
}

// `told`: the text of each cause that is shown.
std::string Analysis::brief(const std::vector<std::string>& told) const {
  std::string text = summary();
  std::size_t work = 0;
  for (std::size_t i = 0; i < told.size() && work < kWorkShown; ++i) {
    const Cause& cause = causes_[i];
    if (cause.told.kind != Kind::working) {
      text += told[i];
      continue;
    }
    ++work;
    text += heading_of(i + 1, cause);
    if (cause.told.waiters > 0) text += fmt::format("; {} for it", count_of(cause.told.waiters, "waits", "wait"));
    text += '\n';
  }
  const auto all_work =
      static_cast<std::size_t>(std::ranges::count(causes_, Kind::working, [](const Cause& c) { return c.told.kind; }));
  if (const std::size_t wrong = causes_.size() - all_work; wrong > kCausesShown)
    text += fmt::format("and {} more.\n", count_of(wrong - kCausesShown, "cause", "causes"));
  if (all_work > work) text += fmt::format("and {} more in progress.\n", count_of(all_work - work, "thing", "things"));
  return text;
}

WaitAnalysis Analysis::result() {
  WaitAnalysis out;
  if (causes_.empty()) {
    out.text = out.brief = "Nothing waits.\n";
    return out;
  }
  std::vector<std::string> told;
  for (std::size_t i = 0; i < std::min(causes_.size(), kCausesShown); ++i) told.push_back(tell(i + 1, causes_[i]));
  out.text = summary();
  for (const std::string& cause : told) out.text += cause;
  if (causes_.size() > kCausesShown)
    out.text += fmt::format("and {} more.\n", count_of(causes_.size() - kCausesShown, "cause", "causes"));
  out.brief = brief(told);
  for (Cause& cause : causes_) out.causes.push_back(std::move(cause.told));
  return out;
}

}  // namespace

WaitAnalysis analyse(const Waiting& waiting, const std::vector<SilentTask>& silent) {
  return Analysis(waiting, silent).result();
}

}  // namespace troupe
