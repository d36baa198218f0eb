// The same node graphs as TBB flow graphs, made once and run repeatedly.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace troupe::bench {

class TbbGraph {
 public:
  // Node i runs `body` after the nodes in predecessors[i], all smaller than i. Only node 0 has none.
  TbbGraph(const std::vector<std::vector<int>>& predecessors, int threads, std::function<void()> body);
  ~TbbGraph();
  TbbGraph(TbbGraph&&) noexcept;
  void run();  // all nodes, once

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::bench
