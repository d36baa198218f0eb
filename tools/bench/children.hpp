// This program's roles as a child of itself: troupe-bench --child NAME.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace troupe::bench {

inline constexpr const char* kServe = "serve";                 // a task that runs parts of a client's graphs
inline constexpr const char* kReduce = "reduce";               // the second rank of an all-reduce
inline constexpr const char* kTcp = "tcp";                     // the other end of a TcpPeer
inline constexpr const char* kSharedMemory = "shared-memory";  // the other end of a SharedMemoryPeer
inline constexpr const char* kShard = "shard";                 // a parameter shard
inline constexpr const char* kTrain = "train";                 // a task of a training job
inline constexpr const char* kEmbedding = "embedding";         // a task of a job with a table
inline constexpr const char* kBeats = "beats";                 // the end of a wire that times heartbeats
inline constexpr const char* kBounce = "bounce";               // the other side of a Bounce
inline constexpr const char* kLoadModel = "load-model";        // peak memory of a model
inline constexpr const char* kFirstStep = "first-step";        // one step of a small graph
inline constexpr const char* kHttpEcho = "http-echo";          // peers/echo_peer.hpp
inline constexpr const char* kGrpcCallbackEcho = "grpc-callback-echo";
inline constexpr const char* kGrpcQueueEcho = "grpc-queue-echo";

void reduce_as_child();

// Runs the child role if the arguments ask for one, and returns its exit code.
std::optional<int> run_as_child(const std::vector<std::string>& arguments);

// Prints a line for the parent.
void say(const std::string& line);

}  // namespace troupe::bench
