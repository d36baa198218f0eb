// The figures of an epoch as users see them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/graph/training/program.hpp>
#include <troupe/messages/epoch_done.hpp>

namespace troupe {

// Scalar figures by name, in the program's order: "loss", "accuracy"; those of an evaluation begin with "val_".
using Figures = std::vector<std::pair<std::string, double>>;

struct EpochLogs {
  std::uint32_t epoch = 0;  // from 0
  Figures figures{};
  double examples_per_second = 0;  // excluding evaluation
  std::uint64_t steps = 0;         // so far
  double seconds = 0;              // so far, excluding evaluation in modes local and allreduce

  // Throws not_found, naming the figures there are.
  double operator[](std::string_view figure) const;
};

// How far this task is in an epoch.
struct StepProgress {
  std::uint32_t epoch = 0;  // from 0
  std::uint64_t step = 0;   // complete ones of the epoch
  std::uint64_t steps = 0;  // of the epoch; 0: unknown
  bool chief = false;       // this task reports to the user
  // Of the batches of the epoch that this task has computed.
  const NamedSums& sums;
  const std::map<std::string, FigureResult>& results;

  // The means so far. Computed when called.
  Figures figures() const;
};

// Throws not_found.
double find_figure(const Figures& figures, std::string_view name);

// The scalars among the results of these sums.
Figures figures_of(const NamedSums& sums, const std::map<std::string, FigureResult>& results,
                   std::string_view prefix = {});
// The others: vectors, matrices.
std::map<std::string, Tensor> tensors_of(const NamedSums& sums, const std::map<std::string, FigureResult>& results);
// The mean loss of a step: of the first objective, whose sums come first.
double mean_loss(const NamedSums& sums);
EpochLogs logs_of(const EpochDone& epoch, const std::map<std::string, FigureResult>& results);

}  // namespace troupe
