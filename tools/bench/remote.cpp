// Steps on another task, in another process, over local sockets.
#include "tools/bench/cases.hpp"
#include "tools/bench/pipeline.hpp"
#include "tools/bench/remote_task.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe::bench {
namespace {

// A client, a task in a child process, and a registered one-node graph on it: a NoOp, or, with tensors, the negative of
// the client's feed, fetched back.
class RemoteNode {
 public:
  explicit RemoteNode(bool tensors) : tensors_(tensors) {
    const auto remote = graph_.on_device(RemoteTask::kName);
    if (tensors) {
      const Output x = placeholder(graph_, DType::f32, Shape{}, "x"), y = -x;
      session_ = std::make_unique<Session>(remote_.client(), graph_);
      callable_ = session_->callable({x}, {y});
    } else {
      const Output nothing = group(graph_, {});
      session_ = std::make_unique<Session>(remote_.client(), graph_);
      callable_ = session_->callable({}, {}, {nothing});
    }
  }

  double blocking_per_second(double seconds) const {
    return 1 / seconds_per_call(seconds, [this] {
             if (tensors_ && callable_({Tensor::scalar(1.0f)})[0].item<float>() != -1.0f)
               fail(Code::internal, "the remote task did not compute -1");
             if (!tensors_) callable_({});
           });
  }
  double pipelined_per_second(double seconds) const {
    return bench::pipelined_per_second(callable_, tensors_, seconds);
  }

 private:
  bool tensors_;
  RemoteTask remote_;
  Graph graph_;
  std::unique_ptr<Session> session_;
  Callable callable_;
};

Case remote_case(const std::string& name, bool tensors, bool pipelined) {
  return {.bench = "step",
          .name = name,
          .unit = "steps/s",
          .more_is_better = true,
          .measures = fmt::format("a registered graph of one node ({}) on a task in another process over sockets, {}",
                                  tensors ? "Neg of a scalar that the client feeds and fetches" : "NoOp",
                                  pipelined ? "up to 1,024 steps in flight" : "blocking calls"),
          .value_target = tensors     ? std::nullopt
                          : pipelined ? std::optional(100000.0)
                                      : std::optional(10000.0),
          .prepare = [=](const Settings& settings) -> Contest {
            auto remote = std::make_shared<RemoteNode>(tensors);
            const double slice = settings.slice_seconds();
            return {.troupe =
                        [=] {
                          return pipelined ? remote->pipelined_per_second(slice) : remote->blocking_per_second(slice);
                        },
                    .peers = {}};
          }};
}

}  // namespace

void add_remote_cases(std::vector<Case>& cases) {
  for (bool tensors : {false, true})
    for (bool pipelined : {false, true})
      cases.push_back(
          remote_case(fmt::format("remote-{}{}", pipelined ? "pipelined" : "blocking", tensors ? "-tensors" : ""),
                      tensors, pipelined));
}

}  // namespace troupe::bench
