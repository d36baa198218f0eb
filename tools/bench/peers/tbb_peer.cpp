#include "tools/bench/peers/tbb_peer.hpp"

#include <tbb/flow_graph.h>
#include <tbb/task_arena.h>

#include <deque>

namespace troupe::bench {

using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

struct TbbGraph::Impl {
  explicit Impl(int threads) : arena(threads) {}
  tbb::task_arena arena;
  std::unique_ptr<tbb::flow::graph> graph;  // runs in the arena where it was made
  std::deque<Node> nodes;
};

TbbGraph::TbbGraph(const std::vector<std::vector<int>>& predecessors, int threads, std::function<void()> body)
    : impl_(std::make_unique<Impl>(threads)) {
  impl_->arena.execute([&] {
    impl_->graph = std::make_unique<tbb::flow::graph>();
    for (const auto& before : predecessors) {
      Node& node = impl_->nodes.emplace_back(*impl_->graph, [body](const tbb::flow::continue_msg&) { body(); });
      for (int p : before) tbb::flow::make_edge(impl_->nodes[static_cast<std::size_t>(p)], node);
    }
  });
}

TbbGraph::~TbbGraph() = default;
TbbGraph::TbbGraph(TbbGraph&&) noexcept = default;

void TbbGraph::run() {
  impl_->arena.execute([&] {
    impl_->nodes.front().try_put(tbb::flow::continue_msg());
    impl_->graph->wait_for_all();
  });
}

}  // namespace troupe::bench
