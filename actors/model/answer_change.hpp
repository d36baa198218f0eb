// How a new version of a model answers requests that were recorded, beside the version before.
#pragma once

#include <cstddef>
#include <span>

#include <troupe/actors/model/recorded_requests.hpp>
#include <troupe/actors/model/saved_model.hpp>

namespace troupe {

struct AnswerChange {
  std::size_t requests = 0;
  // Rows of the outputs. One is changed if its largest element is at another place; of outputs with one element in a
  // row, if |a - b| > 0.05 (1 + |b|), and of whole numbers and strings, if it differs at all.
  std::size_t rows = 0, changed = 0;
  double share() const { return rows == 0 ? 0 : static_cast<double>(changed) / static_cast<double>(rows); }
};

// Runs both models. Throws, naming the request: failed_precondition if the new one fails where the other does not, or
// answers with another shape or dtype, or with numbers that are not finite where the other's are.
AnswerChange answer_change(const SavedModel& before, const SavedModel& after,
                           std::span<const RecordedRequest> requests);

}  // namespace troupe
