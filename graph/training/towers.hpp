// Training graphs: a model, its loss and its optimizer, for one or several slots at once.
//
//                  images s, labels s            (a micro-batch for each slot)
//                         |
//   variables --read--> tower s --> loss s --> gradients s     for s = 0 .. N-1, on device s mod D
//       ^                                          |
//       +------- Apply <-- (g_0 + g_1 + ...) / N <-+
//
// All towers share the variables. Random nodes of tower s draw what those of a graph with one slot draw in
// slot s: every node of the tower has the attribute "_slot" = s and, from slot 1 on (where names begin with
// "slot_<s>/"), "_original_name", its name in tower 0. With one slot there are no such attributes: the
// session says which it computes.
//
// Gradients are averaged as shards do it: summed from slot 0 on, then divided once by N (rows of sparse ones by the
// number of slots that have them, if asked for). Before that, each slot's may be clipped. Layers that take the
// statistics of a batch take those of their slot's (or micro-batch's), and running averages follow the mean of all
// (graph/optimizers/running_average.hpp).
//
// A slot may be computed in K micro-batches: K towers of a K-th of its examples, of which each starts when the one
// before has its gradients. These are added up from the first on and divided once by K. From the second on names begin
// with "micro_<k>/", behind that of the slot: random nodes draw other numbers in each.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/layers/losses.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>
#include <troupe/graph/training/sparse_mean.hpp>

namespace troupe {

struct TowerOptions {
  int slots = 1;
  // Tower s is on devices[s % size], the variables are on the first. Empty: anywhere.
  std::vector<std::string> devices{};
  std::int64_t batch = kUnknown;  // examples of one slot
  // A slot's batch is computed in so many equal parts, one after the other, for the memory of one of them.
  int micro_batches = 1;
  // Scales the loss of every slot; whether a step counts is decided on the mean gradients, so for all slots.
  std::optional<LossScaling> loss_scaling{};
  double clip_norm = 0;  // of each slot's gradients, before they are averaged (graph/training/clipping.hpp); 0: any
  SparseMean sparse_mean = SparseMean::all_slots;
  bool all_reduce =
      false;  // applied is the mean of the gradients of all ranks of a group (graph/training/all_reduce.hpp)
  bool on_shards = false;           // the graph is for shard_variables (see apply_scaled_gradients)
  const OpRegistry* ops = nullptr;  // what layers may be made of, which outlives the graph; null: standard_ops()
};

struct TrainingGraph {
  std::unique_ptr<Graph> graph{};

  // To be fed, for each slot: f32 [batch, input shape...] and i32 [batch].
  Outputs images{};
  Outputs labels{};
  // Of one step, over all slots; from before the update.
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

  // Of the model, in the order of the layers: what is trained, and running averages.
  std::vector<VariableRef> parameters{};
  std::optional<LossScale> loss_scale{};
};

// `input_shape` is that of one example. The only loss with labels of this kind is
// sparse_softmax_cross_entropy; others throw unimplemented. Throws invalid_argument for what cannot be built.
TrainingGraph build_training_graph(const Sequential& model, const Shape& input_shape, Loss loss,
                                   const Optimizer& optimizer, const TowerOptions& options = {});

}  // namespace troupe
