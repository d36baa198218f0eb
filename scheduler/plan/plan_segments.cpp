// The second phase of building a plan: segments, and what they wait for.
#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include <troupe/scheduler/plan/arrival_sets.hpp>
#include <troupe/scheduler/plan/plan_draft.hpp>

namespace troupe {
namespace {

// Whether the node does anything when the plan runs.
bool runs(const Node& n) { return !n.op->is_source() && !n.op->is_arrival(); }

class SegmentFormer {
 public:
  explicit SegmentFormer(PlanDraft& draft) : draft_(draft), plan_(*draft.plan) {}

  void form() {
    group();
    std::uint32_t first = 0;
    for (const std::vector<int>& members : draft_.members) {
      Segment segment;
      segment.first_node = first;
      segment.num_nodes = static_cast<std::uint32_t>(members.size());
      first += segment.num_nodes;
      plan_.segments.push_back(std::move(segment));
    }
    seen_by_.assign(at(draft_.graph.size()), -1);
    for (std::size_t s = 0; s < draft_.members.size(); ++s) connect(static_cast<int>(s));
  }

 private:
  static std::size_t at(int id) { return PlanDraft::at(id); }

  // Nodes with equal sets of arrivals above them form a segment.
  void group() {
    draft_.segment_of.assign(at(draft_.graph.size()), -1);
    draft_.arrival_of.assign(at(draft_.graph.size()), -1);
    std::vector<int> set_of(at(draft_.graph.size()), ArrivalSets::kEmpty);
    ArrivalSets sets;
    std::unordered_map<int, int> segment_of_set;
    for (int id : draft_.order) {
      const Node& n = draft_.graph.node(id);
      int set = ArrivalSets::kEmpty;
      for (const Endpoint& e : n.inputs) set = sets.join(set, set_of[at(e.node)]);
      for (int c : n.controls) set = sets.join(set, set_of[at(c)]);
      if (n.op->is_arrival()) {
        set = sets.with(set, static_cast<std::uint32_t>(plan_.arrivals.size()));
        add_arrival(n);
      }
      set_of[at(id)] = set;
      if (!runs(n)) continue;
      const auto [it, fresh] = segment_of_set.try_emplace(set, static_cast<int>(draft_.members.size()));
      if (fresh) draft_.members.emplace_back();
      draft_.segment_of[at(id)] = it->second;
      draft_.members[at(it->second)].push_back(id);
    }
  }

  void add_arrival(const Node& n) {
    Arrival a;
    a.is_pull = n.op->role == OpRole::pull;
    a.slot = draft_.values[at(n.id)][0].index;
    a.dtype = n.output_types[0];
    a.shape = n.output_shapes[0];
    a.name = n.name;
    if (a.is_pull) {
      a.slice = PlanDraft::number(n, "slice");
      a.shard = PlanDraft::number(n, "shard");
      a.from = fmt::format("shard {}", a.shard);
      a.is_asked = n.attributes.integer("ask") >= 0;
      if (a.is_asked) a.edge = ask_edge(PlanDraft::ask(n));
      if (a.is_asked && !edges_.insert(a.edge.value).second)
        invalid_argument("{} '{}': another node has ask {}", n.op->name, n.name, PlanDraft::ask(n));
    } else if (n.op->role == OpRole::collect) {
      a.is_collect = true;
      a.edge = collect_edge(PlanDraft::channel(n));
      a.from = "the ranks of the group";
      if (!edges_.insert(a.edge.value).second)
        invalid_argument("{} '{}': another node has channel {}", n.op->name, n.name, PlanDraft::channel(n));
    } else {
      a.edge = EdgeId{PlanDraft::number(n, "edge")};
      a.from = n.attributes.string("from");
      if (!edges_.insert(a.edge.value).second)
        invalid_argument("{} '{}': another node has edge {}", n.op->name, n.name, a.edge.value);
    }
    draft_.arrival_of[at(n.id)] = static_cast<int>(plan_.arrivals.size());
    plan_.arrivals.push_back(std::move(a));
  }

  // Finds what a segment waits for. Looks through nodes that do nothing (Const, Feed) to the arrivals and segments
  // behind them; behind an arrival too, since its tensor may come before the arrival's own predecessors have run.
  // Visits each node once per segment.
  void connect(int own) {
    Segment& segment = plan_.segments[at(own)];
    std::vector<int> pending;
    const auto push_sources = [&](const Node& n) {
      for (const Endpoint& e : n.inputs) pending.push_back(e.node);
      pending.insert(pending.end(), n.controls.begin(), n.controls.end());
    };
    std::vector<int> before;
    for (int member : draft_.members[at(own)]) {
      push_sources(draft_.graph.node(member));
      while (!pending.empty()) {
        const int id = pending.back();
        pending.pop_back();
        if (draft_.segment_of[at(id)] == own || std::exchange(seen_by_[at(id)], own) == own) continue;
        if (draft_.segment_of[at(id)] >= 0) {
          before.push_back(draft_.segment_of[at(id)]);
          continue;
        }
        if (draft_.arrival_of[at(id)] >= 0) {
          plan_.arrivals[at(draft_.arrival_of[at(id)])].segments.push_back(static_cast<std::uint32_t>(own));
          ++segment.waits;
        }
        push_sources(draft_.graph.node(id));
      }
    }
    std::ranges::sort(before);
    before.erase(std::ranges::unique(before).begin(), before.end());
    segment.waits += static_cast<std::uint32_t>(before.size());
    for (int b : before) plan_.segments[at(b)].successors.push_back(static_cast<std::uint32_t>(own));
  }

  PlanDraft& draft_;
  Plan& plan_;
  std::vector<int> seen_by_;  // by node: the last segment that looked through it
  std::set<std::uint32_t> edges_;
};

}  // namespace

void form_segments(PlanDraft& draft) { SegmentFormer(draft).form(); }

}  // namespace troupe
