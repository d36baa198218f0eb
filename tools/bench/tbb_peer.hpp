// The same graphs of nodes as TBB flow graphs, made once and run again and again.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace troupe::bench {

class TbbGraph {
 public:
  // Node i runs `body` after the nodes in predecessors[i], all smaller than i. Node 0 alone has none.
  TbbGraph(const std::vector<std::vector<int>>& predecessors, int threads, std::function<void()> body);
  ~TbbGraph();
  TbbGraph(TbbGraph&&) noexcept;
  void run();  // all nodes, once

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::bench
