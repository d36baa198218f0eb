// The options that all programs have that train a model, alone or as a task of a cluster. They set the fields of
// training's structs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/training_trace.hpp"
#include <troupe/actors/cluster/membership.hpp>
#include <troupe/actors/model/model.hpp>
#include <troupe/messages/command_line.hpp>

namespace troupe {

struct TrainingAppOptions {
  Schedule learning_rate = 1e-3;
  ModelOptions compiled;  // precision and clipping; the rest is the app's
  TrainingOptions training;
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

// A program and its own options, which come first.
struct TrainingCommand {
  std::string program{};
  std::string purpose{};   // the first lines of its help
  std::string examples{};  // of one process; those of clusters follow
  std::vector<CommandOption> own{};
  // The learning rate without --lr; null: that of the options.
  std::function<double()> rate{};
  // Why its own options conflict; null: they never do.
  std::function<std::optional<std::string>(const CommandLine&)> problem{};
};

// Sets `options`, to which rows of `command` may also lead. Returns nothing if the program should run. `launched`: this
// process was started by troupe-launch. Without --mode, a cluster trains in mode sync. Conflicting options are wrong
// usage.
std::optional<EarlyExit> parse_training_options(const TrainingCommand& command, TrainingAppOptions& options,
                                                const std::vector<std::string>& arguments, bool launched);

// Why the cluster cannot train, as a message for users; none if it can.
std::optional<std::string> cluster_problem(const std::string& program, const ClusterSpec& cluster, const JobMode& mode);

}  // namespace troupe
