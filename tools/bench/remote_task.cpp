#include "tools/bench/remote_task.hpp"

#include <iostream>

#include "tools/bench/children.hpp"
#include <troupe/actors/network/cluster_spec.hpp>

namespace troupe::bench {

RemoteTask::RemoteTask(const std::string& kind, std::chrono::seconds peer_timeout)
    : child_({own_path(), "--child", kind}),
      client_({.name = {"client", 0},
               .threads = 1,
               .gpus = {.count = 0},
               .networked = true,
               .network = {.peer_timeout = peer_timeout}}) {
  const auto port = static_cast<std::uint16_t>(std::stoi(child_.read_line()));
  // Both are in the cluster, as collectives require.
  const ClusterSpec cluster{
      "bench", "bench", {{{"client", 0}, {"127.0.0.1", client_.port()}}, {{"worker", 0}, {"127.0.0.1", port}}}};
  child_.write_line(in_one_line(cluster));
  client_.join(cluster, std::chrono::seconds(30));
}

void RemoteTask::serve(const std::function<void(Task&)>& work) {
  Task task({.name = {"worker", 0}, .threads = 1, .gpus = {.count = 0}, .networked = true});
  say(std::to_string(task.port()));
  std::string line;
  if (!std::getline(std::cin, line)) return;
  task.join(ClusterSpec::parse(line, "the parent"), std::chrono::seconds(30));
  work(task);
}

void RemoteTask::serve() {
  serve([](Task&) {
    std::string line;
    while (std::getline(std::cin, line)) continue;
  });
}

}  // namespace troupe::bench
