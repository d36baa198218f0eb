// The commands of troupe-model. Each prints its result to stdout and returns the exit code. They throw Error for models
// and files that they cannot read, write or run.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <troupe/actors/network/network_options.hpp>
#include <troupe/devices/storage/file_system.hpp>

namespace troupe::model_tool {

struct Options {
  std::string command{};
  std::vector<std::string> paths{};
  std::string signature{};          // "": the only one, "predict" or "serving_default"
  std::string inputs{}, outputs{};  // files of tensors
  std::string to{};                 // a format: troupe, tensorflow or onnx; "": as the path says
  double tolerance = 1e-4;
  std::int64_t batch = 0;  // 0: that of the command
  std::int64_t size = 8;   // of dimensions that are not known, but the first
  int threads = 1;
  std::vector<std::string> op_libraries;
  double seconds = 3;
  bool again = false;  // tests run what is read back of a model that was written
  bool json = false;
  // Of publish.
  std::map<std::string, double> figures{};
  std::vector<std::string> gates{};  // conditions on them (actors/model/publication.hpp)
  double most_changed = 1;
  bool promote = false, any_signature = false;
  // Of run, on the workers of a cluster.
  std::string cluster{};  // its file
  std::chrono::seconds join_timeout{60}, rejoin_timeout{60};
  NetworkOptions network{};
};

// What a model offers and is made of.
int info(FileSystem& files, const Options& options);
// Its nodes as text.
int graph(FileSystem& files, const Options& options);
// Whether it can be run: all that is missing, at once.
int check(FileSystem& files, const Options& options);
// One signature, once.
int run(FileSystem& files, const Options& options);
// Into another format, and whether it still computes the same.
int convert(FileSystem& files, const Options& options);
// The passes for inference, and a directory of what they leave.
int optimize(FileSystem& files, const Options& options);
// Latency and throughput.
int bench(FileSystem& files, const Options& options);
// The ops of other formats that are read, and those of ours that are written to them.
int ops(FileSystem& files, const Options& options);
// A model as the next version of a directory for servers; what becomes of versions; those that there are.
int publish(FileSystem& files, const Options& options);
int promote(FileSystem& files, const Options& options);
int rollback(FileSystem& files, const Options& options);
int versions(FileSystem& files, const Options& options);
// Models in folders of the layout of ONNX's tests, whose outputs are compared.
int test(FileSystem& files, const Options& options);

}  // namespace troupe::model_tool
