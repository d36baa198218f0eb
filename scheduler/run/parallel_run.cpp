// Runs the nodes of a segment on several threads: a node is ready when its predecessors have run. A thread that makes
// nodes ready continues with one of them and queues the others.
#include <mutex>

#include <troupe/scheduler/run/node_context.hpp>

namespace troupe {
namespace {

class SideBySide final : public DynamicWork {
 public:
  SideBySide(PlanFrame& frame, const Segment& segment, const NodeOrder& order, const Surroundings& around)
      : frame_(frame),
        nodes_(frame.plan().nodes.data() + segment.first_node),
        order_(order),
        around_(around),
        waits_(order.predecessors),
        left_(segment.num_nodes) {
    ready_.reserve(segment.num_nodes);
    for (std::uint32_t i = segment.num_nodes; i-- > 0;)
      if (waits_[i] == 0) ready_.push_back(i);
    num_ready_ = ready_.size();
  }

  bool ready() const override { return num_ready_.load(std::memory_order_relaxed) > 0 && !stopped(); }
  bool finished() const override {
    if (running_.load(std::memory_order_acquire) > 0) return false;
    return left_.load(std::memory_order_acquire) == 0 || stopped();
  }

  bool run_some() override {
    running_.fetch_add(1, std::memory_order_acq_rel);
    NodeContext context(frame_, around_.device, true);
    std::uint32_t node = pop();
    const bool any = node != kNone;
    while (node != kNone && !stopped()) {
      if (!run(node, context)) break;
      node = released_by(node);
    }
    running_.fetch_sub(1, std::memory_order_acq_rel);
    if (finished()) around_.device.parallelism().wake();
    return any;
  }

  Error result() {
    if (frame_.aborted.load(std::memory_order_relaxed) && !error_)
      return Error(Code::cancelled, "the step was aborted");
    return std::move(error_);
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffu;

  bool stopped() const {
    return failed_.load(std::memory_order_relaxed) || frame_.aborted.load(std::memory_order_relaxed);
  }

  std::uint32_t pop() {
    std::lock_guard lock(mutex_);
    if (ready_.empty()) return kNone;
    const std::uint32_t node = ready_.back();
    ready_.pop_back();
    num_ready_.store(ready_.size(), std::memory_order_relaxed);
    return node;
  }

  bool run(std::uint32_t index, NodeContext& context) {
    const PlanNode& node = nodes_[index];
    frame_.current_node.store(static_cast<std::uint32_t>(&node - frame_.plan().nodes.data()),
                              std::memory_order_relaxed);
    context.enter(node);
    try {
      if (traced_) [[unlikely]]
        run_node_traced(frame_, node, context, around_, *traced_);
      else
        run_node(frame_, node, context, around_);
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!error_) error_ = node_error(frame_.plan(), node);
      failed_.store(true, std::memory_order_relaxed);
      return false;
    }
    context.leave();
    return true;
  }

  // Counts a node as run. Returns a node that is ready now, and queues the others for any thread.
  std::uint32_t released_by(std::uint32_t node) {
    std::uint32_t next = kNone;
    std::size_t others = 0;
    for (std::uint32_t i = order_.first_successor[node]; i < order_.first_successor[node + 1]; ++i) {
      const std::uint32_t after = order_.successors[i];
      if (std::atomic_ref(waits_[after]).fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
      if (next == kNone) {
        next = after;
        continue;
      }
      std::lock_guard lock(mutex_);
      ready_.push_back(after);
      num_ready_.store(ready_.size(), std::memory_order_relaxed);
      ++others;
    }
    left_.fetch_sub(1, std::memory_order_acq_rel);
    if (others > 0) around_.device.parallelism().wake();
    return next == kNone ? pop() : next;
  }

  PlanFrame& frame_;
  const PlanNode* nodes_;
  const NodeOrder& order_;
  const Surroundings& around_;
  const TraceSlice* const traced_ = TraceSlice::current();  // of the thread that began the run
  std::vector<std::uint32_t> waits_;                        // predecessors left, by node; atomic during the run
  std::mutex mutex_;
  std::vector<std::uint32_t> ready_;
  std::atomic<std::size_t> num_ready_{0};
  std::atomic<std::uint32_t> left_;
  std::atomic<int> running_{0};
  std::atomic<bool> failed_{false};
  Error error_;
};

}  // namespace

Error run_side_by_side(PlanFrame& frame, const Segment& segment, const NodeOrder& order, const Surroundings& around) {
  SideBySide work(frame, segment, order, around);
  around.device.parallelism().run(work);
  return work.result();
}

}  // namespace troupe
