#include "tools/bench/children.hpp"

#include <fmt/core.h>

#include <cstdio>

#include "tools/bench/bounce.hpp"
#include "tools/bench/embedding.hpp"
#include "tools/bench/load_model.hpp"
#include "tools/bench/peers/echo_peer.hpp"
#include "tools/bench/peers/shared_memory_peer.hpp"
#include "tools/bench/peers/tcp_peer.hpp"
#include "tools/bench/pipeline.hpp"
#include "tools/bench/remote_shard.hpp"
#include "tools/bench/remote_task.hpp"
#include "tools/bench/stress.hpp"
#include "tools/bench/training_cluster.hpp"

namespace troupe::bench {
namespace {

void first_step() {
  const OneNode graph({});
  graph.run_one();
  say("done");
}

}  // namespace

void say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

std::optional<int> run_as_child(const std::vector<std::string>& arguments) {
  if (arguments.size() != 2 || arguments[0] != "--child") return std::nullopt;
  try {
    if (arguments[1] == kServe)
      RemoteTask::serve();
    else if (arguments[1] == kReduce)
      reduce_as_child();
    else if (arguments[1] == kTcp)
      TcpPeer::serve();
    else if (arguments[1] == kSharedMemory)
      SharedMemoryPeer::serve();
    else if (arguments[1] == kShard)
      RemoteShard::serve();
    else if (arguments[1] == kTrain)
      train_as_child();
    else if (arguments[1] == kEmbedding)
      train_embedding_as_child();
    else if (arguments[1] == kBeats)
      listen_to_beats();
    else if (arguments[1] == kBounce)
      Bounce::serve();
    else if (arguments[1] == kFirstStep)
      first_step();
    else if (arguments[1] == kLoadModel)
      load_model_as_child();
    else if (arguments[1] == kHttpEcho)
      echo_http();
    else if (arguments[1] == kGrpcCallbackEcho)
      echo_grpc_by_callbacks();
    else if (arguments[1] == kGrpcQueueEcho)
      echo_grpc_by_queues();
    else
      return 2;
    return 0;
  } catch (...) {
    fmt::print(stderr, "troupe-bench --child {}: {}\n", arguments[1], current_error().message());
    return 1;
  }
}

}  // namespace troupe::bench
