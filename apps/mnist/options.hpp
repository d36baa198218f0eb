// The command line of troupe-mnist.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apps/early_exit.hpp"
#include <troupe/actors/cluster/gpu_options.hpp>
#include <troupe/actors/cluster/membership.hpp>
#include <troupe/actors/training/job.hpp>
#include <troupe/graph/optimizers/schedules.hpp>

namespace troupe {

enum class MnistModel : std::uint8_t { mlp, cnn };
std::string_view name(MnistModel model);

struct MnistOptions {
  std::string data;          // a directory; empty: the built-in digits,
  int train_digits = 12000;  // so many of them
  int test_digits = 2000;
  MnistModel model = MnistModel::mlp;
  JobMode mode = JobMode::local;
  int epochs = 5;
  int batch = 32;
  Schedule learning_rate = 1e-3;
  DType precision = DType::f32;  // of products: f32, bf16 or f16
  double clip_norm = 0;          // 0: gradients are not clipped
  std::uint64_t seed = 0;
  int micro_batches = 1;
  int replicas = 0;  // 0: what TrainingOptions::slots makes of it
  int backups = 0;
  int staleness = 1;  // of mode ssp
  int aggregate = 1;  // of mode async, as the next
  bool staleness_aware = false;
  int threads = 0;  // 0: a share of the cores
  int devices = 1;
  std::uint64_t memory_limit = 0;  // bytes, of each device; 0: none
  GpuOptions gpus;
  bool log_placement = false;
  std::string save;                    // a directory; empty: nowhere
  std::string checkpoint;              // likewise
  std::uint64_t checkpoint_every = 0;  // steps; 0: an epoch's
  int checkpoints_kept = 3;
  std::string provenance;                 // a directory; empty: nowhere
  std::string replay;                     // a file of commits; empty: none
  std::string tensorboard;                // a directory; empty: nowhere
  std::uint64_t tensorboard_every = 100;  // steps
  std::string trace;                      // a file; empty: none
  std::uint64_t trace_steps = 10;
  bool json = false;
  std::chrono::seconds step_timeout{600};  // TrainingOptions::step_timeout
  int min_workers = 0;                     // 0: see TrainingOptions::min_workers
  TrainingOptions::OnLoss on_loss = TrainingOptions::OnLoss::shrink;
  std::chrono::seconds rejoin_timeout{10};
  bool in_cluster = false;
  Membership membership;  // if in_cluster

  // The chief, at least at the start: who talks to the user.
  bool speaks() const { return !in_cluster || (membership.job == "worker" && membership.index == 0); }
};

// `launched`: this process is a task of troupe-launch. Without --mode, a cluster trains in sync. Options that
// contradict each other, or ask for what is not built, are wrong usage.
std::variant<MnistOptions, EarlyExit> parse_mnist_options(const std::vector<std::string>& arguments, bool launched);

// Why a cluster cannot train, for people; none if it can.
std::optional<std::string> cluster_problem(const ClusterSpec& cluster, JobMode mode);

}  // namespace troupe
