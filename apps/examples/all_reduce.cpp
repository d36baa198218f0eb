// Collectives between the tasks of a cluster, without a model: each task has some numbers, and all compute the mean.
//   troupe-launch --workers 3 -- example_all_reduce
#include <fmt/core.h>

#include <vector>

#include <troupe/troupe.hpp>

int main(int argc, char** argv) {
  using namespace troupe;
  try {
    const auto task = Task::from_command_line(argc, argv);
    if (task->cluster().tasks.empty()) {
      fmt::print(stderr, "needs a cluster: troupe-launch --workers 3 -- {}\n", argv[0]);
      return 2;
    }
    std::vector<TaskName> members;
    for (int i = 0; i < task->cluster().count("worker"); ++i) members.push_back({"worker", i});
    CollectiveGroup group(*task, "statistics", members);  // every rank makes the same calls in the same order

    const auto mine = static_cast<double>(group.rank());
    const Tensor sum = group.all_reduce(Tensor::vector<double>({1, mine, mine * mine}), Reduction::sum, "sum");
    const double n = sum.values<double>()[0], mean = sum.values<double>()[1] / n;
    const double variance = sum.values<double>()[2] / n - mean * mean;
    group.barrier("end");
    if (group.rank() == 0) fmt::print("{} numbers: mean {:.2f}, variance {:.2f}\n", n, mean, variance);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.to_string());
    return 1;
  }
}
