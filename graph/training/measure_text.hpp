// Losses and metrics by name, with options as text (graph/formats/text_call.hpp), for programs whose language is not
// C++ and for configurations:
//
//   huber(delta=2)    sparse_softmax_cross_entropy    auc(curve=pr, from_logits=true)    top_k_accuracy(k=3)
//
// Options are the fields of LossOptions (graph/layers/losses.hpp) and of the metrics' structs (graph/metrics), by their
// names. Every loss is also a metric: its mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <troupe/graph/formats/text_call.hpp>
#include <troupe/graph/training/network_program.hpp>

namespace troupe {

// Throw invalid_argument for text that is no call and for unknown or wrong options, naming them and those that there
// are; not_found, listing what there is, for an unknown name.
LossFunction parse_loss(std::string_view text);
Metric parse_metric(std::string_view text);
// The same of a call that has been read.
LossFunction loss_of(const TextCall& call);
Metric metric_of(const TextCall& call);

// In alphabetical order.
std::vector<std::string> loss_names();
std::vector<std::string> metric_names();  // with the losses

}  // namespace troupe
