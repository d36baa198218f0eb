// Training graphs: a model, its loss and its optimizer, for one or several slots at once.
//
//                  images s, labels s            (a micro-batch for each slot)
//                         |
//   variables --read--> tower s --> loss s --> gradients s     for s = 0 .. N-1, on device s mod D
//       ^                                          |
//       +------- Apply <-- (g_0 + g_1 + ...) / N <-+
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

#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/layers/losses.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>
#include <troupe/graph/training/clipping.hpp>
#include <troupe/graph/training/sparse_mean.hpp>

namespace troupe {

struct TowerOptions {
  int slots = 1;
  // Tower s is on devices[s % size], the variables are on the first. Empty: anywhere.
  std::vector<std::string> devices{};
  std::int64_t batch = kUnknown;  // examples of one slot
  // A slot's batch is computed in this many equal parts, one after the other, with the memory of one.
  int micro_batches = 1;
  // Scales the loss of every slot; the mean gradients decide whether a step counts, so for all slots alike.
  std::optional<LossScaling> loss_scaling{};
  Clipping clipping{};  // of each slot's gradients, before averaging
  SparseMean sparse_mean = SparseMean::all_slots;
  // Applies the mean of the gradients of all ranks of a group (graph/training/all_reduce.hpp).
  bool all_reduce = false;
  bool on_shards = false;           // the graph is for shard_variables (see apply_scaled_gradients)
  const OpRegistry* ops = nullptr;  // ops that layers may use; must outlive the graph; null: standard_ops()
};

struct TrainingGraph {
  std::unique_ptr<Graph> graph{};

  // To be fed, per slot: f32 [batch, input shape...] and i32 [batch].
  Outputs images{};
  Outputs labels{};
  // For one step, over all slots; computed before the update.
  Output loss_sum{};     // f32 scalar: the sum of the losses of the examples
  Output correct{};      // i64 scalar
  Output examples{};     // i64 scalar
  Output train{};        // target: one step
  Output initializer{};  // target: sets all variables to their initial values

  // Evaluation, of any number of examples, without dropout.
  Output eval_images{};
  Output eval_labels{};
  Output eval_loss_sum{};
  Output eval_correct{};
  Output predictions{};  // [n, classes]: probabilities for eval_images

  // Of the model, in layer order: trained variables and running averages.
  std::vector<VariableRef> parameters{};
  std::optional<LossScale> loss_scale{};
};

// `input_shape` is that of one example. The only loss for these labels is sparse_softmax_cross_entropy; others throw
// unimplemented. Throws invalid_argument for options that cannot be built.
TrainingGraph build_training_graph(const Sequential& model, const Shape& input_shape, Loss loss,
                                   const Optimizer& optimizer, const TowerOptions& options = {});

}  // namespace troupe
