// Training graphs: a model, its loss and its optimizer, for one or several slots at once.
//
//                       batch s                  (a micro-batch for each slot)
//                         |
//   variables --read--> tower s --> loss s --> gradients s     for s = 0 .. N-1, on device s mod D
//       ^                                          |
//       +------- Apply <-- (g_0 + g_1 + ...) / N <-+
//
// A program with several objectives makes a phase of each: the loss, gradients and updates of each phase are fetched
// and run by themselves, one phase after the other.
//
// All towers share the variables. Random nodes of tower s draw the same numbers as those of a one-slot graph in slot s:
// every node of the tower has the attribute "_slot" = s and, from slot 1 on (whose names begin with "slot_<s>/"),
// "_original_name", its name in tower 0. With one slot there are no such attributes: the session states the slot.
//
// Gradients are averaged as on shards: summed from slot 0 on, then divided once by N (rows of sparse ones by the number
// of slots that have them, if requested). Each slot's may be clipped first. Layers that use batch statistics take those
// of their slot (or micro-batch), and running averages follow the mean of all (graph/optimizers/running_average.hpp).
//
// A slot may be computed in K micro-batches: K towers with 1/K of its examples each, every one starting when the
// previous one has its gradients. These are summed from the first on and divided once by K. From the second on, names
// begin with "micro_<k>/", after the slot's prefix: random nodes draw other numbers in each.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/graph/builder/summary.hpp>
#include <troupe/graph/training/clipping.hpp>
#include <troupe/graph/training/program.hpp>
#include <troupe/graph/training/sparse_mean.hpp>

namespace troupe {

struct TowerOptions {
  int slots = 1;
  // Tower s is on devices[s % size], the variables are on the first. Empty: anywhere.
  std::vector<std::string> devices{};
  std::int64_t batch = kUnknown;  // examples of one slot
  // A slot's batch is computed in this many equal parts, one after the other, with the memory of one.
  int micro_batches = 1;
  // Computes all objectives on the same values: a step has one phase.
  bool simultaneous = false;
  // Scales the loss of every slot; the mean gradients decide whether a step counts, so for all slots alike.
  std::optional<LossScaling> loss_scaling{};
  Clipping clipping{};  // of each slot's gradients, before averaging
  SparseMean sparse_mean = SparseMean::all_slots;
  // Applies the mean of the gradients of all ranks of a group (graph/training/all_reduce.hpp).
  bool all_reduce = false;
  bool scalable_rates = false;      // makes TrainingGraph::rate_scale
  bool on_shards = false;           // the graph is for shard_variables (see apply_scaled_gradients)
  const OpRegistry* ops = nullptr;  // ops that layers may use; must outlive the graph; null: standard_ops()
};

// A phase of a step.
struct TrainingPhase {
  std::string name{};  // of its objective; of the first, if all are simultaneous
  // By slot: the figures of the batch, as one flat f64 tensor, computed before the update.
  Outputs figures{};
  FigureLayout layout{};
  Output train{};                      // target: the update
  std::vector<VariableRef> updated{};  // trained variables, running averages, averages of weights; by name
};

struct TrainingGraph {
  std::unique_ptr<Graph> graph{};

  // To be fed, by slot: the components of the batch in the schema's order.
  std::vector<Outputs> batches{};
  std::vector<TrainingPhase> phases{};
  std::vector<Optimizer> optimizers{};  // by objective
  Output initializer{};                 // target: sets all variables to their initial values
  Output rate_scale{};                  // f64, 1: to be fed with a factor of all learning rates; invalid: there is none

  // Evaluation, of any number of examples: the program not in training. All figures as one flat f64 tensor.
  Outputs eval_batch{};
  Output eval_figures{};
  FigureLayout eval_layout{};
  std::map<std::string, Output> predictions{};
  std::map<std::string, FigureResult> results{};  // of all figures, by name

  // Of the first slot and micro-batch, in training. None in a graph that only evaluates.
  std::vector<SummaryOutput> summaries{};

  // Of the program, in order of creation: trained ones, running averages, and those that nothing updates.
  std::vector<VariableRef> parameters{};
  std::vector<VariableRef> frozen{};  // of these, those that nothing updates
  std::optional<LossScale> loss_scale{};
};

// Throws invalid_argument for options that cannot be built, and for a program without objectives, with two figures of
// one name, or with a variable that two objectives train.
TrainingGraph build_training_graph(const Program& program, const BatchSchema& schema, const TowerOptions& options = {});
// Only what evaluates; the program may have no objectives. `ops`: TowerOptions::ops.
TrainingGraph build_inference_graph(const Program& program, const BatchSchema& schema, const OpRegistry* ops = nullptr);

}  // namespace troupe
