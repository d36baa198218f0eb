// The command line of troupe-mnist. Its options set the fields of training's structs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apps/training_trace.hpp"
#include <troupe/actors/cluster/membership.hpp>
#include <troupe/actors/model/model.hpp>
#include <troupe/kernels/readers/digits.hpp>
#include <troupe/messages/command_line.hpp>

namespace troupe {

enum class MnistModel : std::uint8_t { mlp, cnn };
std::string_view name(MnistModel model);

struct MnistOptions {
  std::string data;  // a directory; empty: the built-in digits
  DigitOptions digits{.train = 12000, .test = 2000};
  MnistModel model = MnistModel::mlp;
  Schedule learning_rate = 1e-3;
  ModelOptions compiled;
  TrainingOptions training{.staleness = 1};
  TaskOptions task;
  TrainingTrace::Options trace;  // path "": none
  bool log_placement = false;
  std::string save;  // a directory; empty: nowhere
  bool json = false;
  bool in_cluster = false;
  Membership membership;  // its task, if in_cluster

  // The initial chief reports to the user.
  bool speaks() const { return !in_cluster || (membership.job == "worker" && membership.index == 0); }
};

// `launched`: this process was started by troupe-launch. Without --mode, a cluster trains in mode sync. Conflicting
// options are wrong usage.
std::variant<MnistOptions, EarlyExit> parse_mnist_options(const std::vector<std::string>& arguments, bool launched);

// Why the cluster cannot train, as a message for users; none if it can.
std::optional<std::string> cluster_problem(const ClusterSpec& cluster, JobMode mode);

}  // namespace troupe
