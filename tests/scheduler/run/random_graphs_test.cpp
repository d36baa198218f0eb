// Random graphs, run with kernels that write in place whenever they may, arrivals and segments in random order, against
// a plain interpreter that copies everything.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/scheduler/run/replay_device.hpp"

namespace troupe {
namespace {

using namespace testing;

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return engine_() % n; }  // the same on every platform
  bool one_in(std::size_t n) { return below(n) == 0; }

 private:
  std::mt19937 engine_;
};

Tensor values(Random& random, std::int64_t n) {
  Tensor t(DType::i64, Shape{n});
  for (auto& x : t.mutable_values<std::int64_t>()) x = static_cast<std::int64_t>(random.below(2000)) - 1000;
  return t;
}

struct RandomGraph {
  Graph graph;
  int feeds = 0;
  int arrivals = 0;
};

// Tensors are [16] or [8], so that halves are aligned views that could be written in place.
void grow(RandomGraph& r, Random& random, int size) {
  Graph& g = r.graph;
  std::vector<Output> wide, narrow;
  const auto source = [&] {
    const Shape shape{16};
    switch (random.below(4)) {
      case 0:
        return constant_node(g, values(random, 16));
      case 1:
        return feed(g, r.feeds++, shape);
      case 2:
        return recv(g, r.arrivals++, shape);
      default:
        return pull(g, r.arrivals++, shape);
    }
  };
  for (int i = 0; i < 3; ++i) wide.push_back(source());
  const auto pick = [&](const std::vector<Output>& from) {
    // Mostly late values, so that graphs become deep.
    return from[from.size() - 1 - std::min(random.below(from.size()), random.below(from.size()))];
  };
  for (int i = 0; i < size; ++i) {
    std::vector<Output>& values = !narrow.empty() && random.one_in(3) ? narrow : wide;
    switch (random.below(12)) {
      case 0:
        wide.push_back(source());
        break;
      case 1:
      case 2:
        values.push_back(node(g, "Identity", {pick(values)}));
        break;
      case 3: {
        const Node& split = g.add(
            {.op = "Split", .inputs = {pick(wide)}, .attributes = {{"axis", std::int64_t{0}}, {"N", std::int64_t{2}}}});
        narrow.push_back(g.output(split, 0));
        if (!random.one_in(3)) narrow.push_back(g.output(split, 1));
        break;
      }
      case 4:
        if (!narrow.empty())
          wide.push_back(node(g, "Concat", {pick(narrow), pick(narrow)}, {}, {{"axis", std::int64_t{0}}}));
        break;
      case 5:
        values.push_back(node(g, "Neg", {pick(values)}));
        break;
      case 6:
        values.push_back(node(g, "Square", {pick(values)}));
        break;
      case 7:
        values.push_back(node(g, "Mul", {pick(values), pick(values)}));
        break;
      case 8:
        values.push_back(node(g, "Sub", {pick(values), pick(values)}));
        break;
      default:
        values.push_back(node(g, "Add", {pick(values), pick(values)}));
        break;
    }
  }
  std::int64_t sends = 0, pushes = 0, fetches = 0;
  for (const auto* list : {&wide, &narrow})
    for (const Output& x : *list) {
      if (random.one_in(4)) send(g, x, 1000 + sends++);
      if (random.one_in(6)) push(g, x, pushes++);
      if (random.one_in(5)) fetch(g, x, fetches++);
    }
  for (int i = 0; i < size / 4; ++i) {  // order only, also between nodes that do nothing
    const std::size_t a = random.below(static_cast<std::size_t>(g.size())),
                      b = random.below(static_cast<std::size_t>(g.size()));
    if (a != b) g.add_control_edge(g.node(static_cast<int>(std::min(a, b))), g.node(static_cast<int>(std::max(a, b))));
  }
}

// The same graph with its nodes listed in random order.
std::unique_ptr<Graph> shuffled(const Graph& g, Random& random) {
  std::vector<int> order(static_cast<std::size_t>(g.size())), place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t j = random.below(i + 1);
    order[i] = order[j];
    order[j] = static_cast<int>(i);
  }
  for (std::size_t i = 0; i < order.size(); ++i) place[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  auto out = std::make_unique<Graph>(g.ops());
  for (int id : order) {
    std::vector<Endpoint> inputs;
    std::vector<int> controls;
    for (const Endpoint& e : g.node(id).inputs) inputs.push_back({place[static_cast<std::size_t>(e.node)], e.index});
    for (int c : g.node(id).controls) controls.push_back(place[static_cast<std::size_t>(c)]);
    out->add_copy(g.node(id), inputs, controls);
  }
  return out;
}

struct Expected {
  std::map<std::uint32_t, Tensor> sent, pushed, fetched;
};

// Node ids are in topological order: graphs are grown that way.
Expected interpret(const Graph& g, const std::vector<Tensor>& feeds, const std::map<std::string, Tensor>& arrivals) {
  Expected out;
  std::vector<std::vector<Tensor>> values(static_cast<std::size_t>(g.size()));
  for (int id = 0; id < g.size(); ++id) {
    const Node& n = g.node(id);
    std::vector<Tensor> inputs;
    for (const Endpoint& e : n.inputs)
      inputs.push_back(values[static_cast<std::size_t>(e.node)][static_cast<std::size_t>(e.index)].clone());
    const auto number = [&](const char* attribute) {
      return static_cast<std::uint32_t>(n.attributes.integer(attribute));
    };
    auto& value = values[static_cast<std::size_t>(id)];
    if (n.op->name == "Const")
      value = {n.attributes.tensor("value").clone()};
    else if (n.op->name == "Feed")
      value = {feeds[number("index")].clone()};
    else if (n.op->name == "Recv" || n.op->name == "Pull")
      value = {arrivals.at(n.name).clone()};
    else if (n.op->name == "Send")
      out.sent[number("edge")] = inputs[0];
    else if (n.op->name == "Push")
      out.pushed[number("slice")] = inputs[0];
    else if (n.op->name == "Fetch")
      out.fetched[number("index")] = inputs[0];
    else
      value = toy_evaluate(n.op->name, inputs);
  }
  return out;
}

void expect_same(const std::map<std::uint32_t, Tensor>& got, const std::map<std::uint32_t, Tensor>& wanted,
                 const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (const auto& [key, tensor] : wanted) EXPECT_TRUE(bitwise_equal(got.at(key), tensor)) << what << " " << key;
}

// Every node ran once, after all nodes and arrivals above it.
void expect_order(const Graph& g, const std::vector<std::string>& ran) {
  std::map<std::string, std::size_t> when;
  for (std::size_t i = 0; i < ran.size(); ++i)
    EXPECT_TRUE(when.emplace(ran[i], i + 1).second) << ran[i] << " ran twice";
  std::vector<std::size_t> latest(static_cast<std::size_t>(g.size()), 0);  // of the node and all above it
  for (int id = 0; id < g.size(); ++id) {
    const Node& n = g.node(id);
    std::size_t above = 0;
    for (const Endpoint& e : n.inputs) above = std::max(above, latest[static_cast<std::size_t>(e.node)]);
    for (int c : n.controls) above = std::max(above, latest[static_cast<std::size_t>(c)]);
    const auto it = when.find(n.name);
    const bool arrival = n.op->is_arrival();  // may come before what is above it
    if (it != when.end() && !arrival) {
      EXPECT_GT(it->second, above) << n.name;
    }
    latest[static_cast<std::size_t>(id)] = std::max(above, it == when.end() ? 0 : it->second);
  }
}

// One segment for each set of arrivals that some running node has above it: no more, no less.
std::size_t minimal_segments(const Graph& g) {
  std::vector<std::set<int>> above(static_cast<std::size_t>(g.size()));
  std::set<std::set<int>> sets;
  for (int id = 0; id < g.size(); ++id) {
    const Node& n = g.node(id);
    auto& own = above[static_cast<std::size_t>(id)];
    for (const Endpoint& e : n.inputs)
      own.insert(above[static_cast<std::size_t>(e.node)].begin(), above[static_cast<std::size_t>(e.node)].end());
    for (int c : n.controls)
      own.insert(above[static_cast<std::size_t>(c)].begin(), above[static_cast<std::size_t>(c)].end());
    if (n.op->is_arrival())
      own.insert(id);
    else if (n.op->name != "Const" && n.op->name != "Feed")
      sets.insert(own);
  }
  return sets.size();
}

struct Seen {
  int in_place = 0;
  int counted = 0;       // slots
  int side_by_side = 0;  // segments
  int planned = 0;       // slots
};

void run_one(std::uint32_t seed, int threads, Seen& seen) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Random random(seed);
  RandomGraph r;
  grow(r, random, 5 + static_cast<int>(random.below(60)));
  if (threads > 1) make_costly(r.graph);
  ToyTask task(*shuffled(r.graph, random), threads);
  EXPECT_EQ(task.plan().segments.size(), minimal_segments(r.graph));
  for (std::uint16_t uses : task.plan().slot_uses) seen.counted += uses > 0;
  seen.side_by_side += static_cast<int>(task.plan().orders.size());
  seen.planned += static_cast<int>(task.plan().memory.planned_slots);
  task.choose = [&](std::size_t n) { return random.below(n); };
  for (std::uint64_t step = 1; step <= 2; ++step) {  // the second one in the same frame
    std::vector<Tensor> feeds;
    for (int i = 0; i < r.feeds; ++i) feeds.push_back(values(random, 16));
    std::map<std::string, Tensor> arrivals;
    std::vector<std::string> order;
    for (const Arrival& a : task.plan().arrivals) {
      arrivals[a.name] = values(random, 16);
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(random.below(order.size() + 1)), a.name);
    }
    const Expected expected = interpret(r.graph, feeds, arrivals);
    const auto fed = [&] {
      std::vector<Tensor> copies;
      for (const Tensor& t : feeds) copies.push_back(t.clone());
      return copies;
    }();
    task.hooks.ran.clear();
    task.start(step, feeds);
    for (const std::string& name : order) {
      task.hooks.ran.push_back(name);
      task.arrive(step, name, std::exchange(arrivals[name], Tensor()));  // nobody else has it: may be written in place
    }
    ASSERT_TRUE(task.ended[step]) << "step " << step;
    ASSERT_FALSE(task.table.error(task.key(step))) << task.table.error(task.key(step)).message();
    expect_order(r.graph, task.hooks.ran);
    expect_same(task.out[step]->sent, expected.sent, "send");
    expect_same(task.out[step]->pushed, expected.pushed, "push");
    expect_same(task.finish(step), expected.fetched, "fetch");
    for (std::size_t i = 0; i < feeds.size(); ++i) EXPECT_TRUE(bitwise_equal(feeds[i], fed[i])) << "feed " << i;
  }
  seen.in_place += task.hooks.in_place;
}

// Steps on a device that records. Now and then something comes that no recording fits, and what has left is looked at
// when all steps are over.
void run_replayed(std::uint32_t seed, RecordingStats& seen) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Random random(seed);
  RandomGraph r;
  grow(r, random, 5 + static_cast<int>(random.below(60)));
  auto owned = std::make_unique<ReplayDevice>();
  ReplayDevice& device = *owned;
  ToyTask task(*shuffled(r.graph, random), std::move(owned), launching_kernels);
  task.choose = [&](std::size_t n) { return random.below(n); };
  std::vector<std::pair<Expected, Expected>> left;  // and what is expected of it
  for (std::uint64_t step = 1; step <= 8; ++step) {
    device.spoil();
    if (random.one_in(20)) device.failing_ends = 1;
    if (random.one_in(20)) device.failing_launches = 1;
    std::vector<Tensor> feeds;
    for (int i = 0; i < r.feeds; ++i) feeds.push_back(values(random, 16));
    std::map<std::string, Tensor> arrivals;
    std::vector<std::string> order;
    for (const Arrival& a : task.plan().arrivals) {
      arrivals[a.name] = values(random, 16);
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(random.below(order.size() + 1)), a.name);
    }
    Expected expected = interpret(r.graph, feeds, arrivals);
    task.start(step, feeds);
    for (const std::string& name : order) task.arrive(step, name, device.upload(arrivals[name]));
    ASSERT_TRUE(task.ended[step]) << "step " << step;
    ASSERT_FALSE(task.table.error(task.key(step))) << task.table.error(task.key(step)).message();
    Expected got{task.out[step]->sent, task.out[step]->pushed, task.finish(step)};
    left.emplace_back(std::move(got), std::move(expected));
  }
  for (auto& [got, expected] : left) {
    for (auto* part : {&got.sent, &got.pushed, &got.fetched})
      for (auto& [key, tensor] : *part) tensor = on_host(tensor);
    expect_same(got.sent, expected.sent, "send");
    expect_same(got.pushed, expected.pushed, "push");
    expect_same(got.fetched, expected.fetched, "fetch");
  }
  seen.recordings += device.stats.recordings;
  seen.launches += device.stats.launches;
  seen.refusals += device.stats.refusals;
}

TEST(RandomGraphs, GiveTheSameWhenTheyAreReplayed) {
  RecordingStats seen;
  for (std::uint32_t seed = 0; seed < 300 && !HasFailure(); ++seed) run_replayed(seed, seen);
  EXPECT_GT(seen.recordings, 200u);  // else the test proves nothing
  EXPECT_GT(seen.launches, 1000u);
  EXPECT_GT(seen.refusals, 10u);
}

TEST(RandomGraphs, GiveWhatAnInterpreterGives) {
  Seen seen;
  for (std::uint32_t seed = 0; seed < 300 && !HasFailure(); ++seed) run_one(seed, 1, seen);
  EXPECT_GT(seen.in_place, 600);  // else the test proves nothing
  EXPECT_GT(seen.counted, 300);
  EXPECT_GT(seen.planned, 1000);
}

TEST(RandomGraphs, GiveTheSameOnSeveralThreads) {
  Seen seen;
  for (std::uint32_t seed = 0; seed < 300 && !HasFailure(); ++seed) run_one(seed, 3, seen);
  EXPECT_GT(seen.side_by_side, 300);
  EXPECT_GT(seen.in_place, 300);
}

}  // namespace
}  // namespace troupe
