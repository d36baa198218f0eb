// All-reduce between two processes over the loopback address, compared with plain TCP in both directions at once.
#include <iostream>
#include <sstream>

#include "tools/bench/cases.hpp"
#include "tools/bench/children.hpp"
#include "tools/bench/peers/tcp_peer.hpp"
#include "tools/bench/remote_task.hpp"
#include <troupe/actors/session/group.hpp>

namespace troupe::bench {
namespace {

const std::vector<TaskName> kRanks = {{"client", 0}, {"worker", 0}};

// One rank, with a tensor made once.
class Rank {
 public:
  explicit Rank(Task& task) : group_(task, "bench", kRanks) {}

  void reduce(std::size_t bytes, int count) {
    const Shape shape{static_cast<std::int64_t>(bytes / sizeof(float))};
    if (!tensor_.valid() || !(tensor_.shape() == shape)) {
      tensor_ = Tensor(DType::f32, shape);
      for (float& value : tensor_.mutable_values<float>()) value = static_cast<float>(group_.rank() + 1);
    }
    for (int i = 0; i < count; ++i) {
      const Tensor sum = group_.all_reduce(tensor_, Reduction::sum, "x");
      if (sum.data<float>()[0] != 3 || sum.values<float>().back() != 3) fail(Code::internal, "1 + 2 is not 3");
    }
  }

 private:
  CollectiveGroup group_;
  Tensor tensor_;
};

class TwoRanks {
 public:
  TwoRanks() : other_(kReduce), rank_(other_.client()) {}
  void reduce(std::size_t bytes, int count) {
    other_.tell(fmt::format("{} {}", bytes, count));
    rank_.reduce(bytes, count);
  }

 private:
  RemoteTask other_;
  Rank rank_;
};

Case all_reduce_case(const std::string& name, std::size_t bytes, int in_a_row, std::optional<double> ratio,
                     std::optional<double> most) {
  return {.bench = "allreduce",
          .name = name,
          .unit = "us",
          .measures = fmt::format("all-reduce sum of one tensor between two processes, {} times in a row", in_a_row),
          .peer = "the same number of bytes over plain TCP, both ways at once, two threads in each process",
          .ratio_target = ratio,
          .value_target = most,
          .prepare = [=](const Settings& settings) -> Contest {
            const std::size_t size = settings.quick ? std::min<std::size_t>(bytes, 1 << 20) : bytes;
            const int count = settings.quick ? 1 : in_a_row;
            auto ranks = std::make_shared<TwoRanks>();
            auto tcp = std::make_shared<TcpPeer>();
            const double slice = settings.slice_seconds();
            return {
                .troupe = [=] { return 1e6 / count * seconds_per_call(slice, [&] { ranks->reduce(size, count); }); },
                .peers = {{"raw TCP", [=] {
                             return 1e6 / count * seconds_per_call(slice, [&] { tcp->exchange(size, count); });
                           }}}};
          }};
}

}  // namespace

void reduce_as_child() {
  RemoteTask::serve([](Task& task) {
    Rank rank(task);
    std::string line;
    while (std::getline(std::cin, line)) {
      std::istringstream words(line);
      std::size_t bytes = 0;
      int count = 0;
      words >> bytes >> count;
      rank.reduce(bytes, count);
    }
  });
}

void add_all_reduce_cases(std::vector<Case>& cases) {
  cases.push_back(all_reduce_case("4B", 4, 100, std::nullopt, 60.0));
  cases.push_back(all_reduce_case("4MiB", 4 << 20, 4, 0.7, std::nullopt));
  cases.push_back(all_reduce_case("64MiB", 64 << 20, 2, 0.7, std::nullopt));
}

}  // namespace troupe::bench
