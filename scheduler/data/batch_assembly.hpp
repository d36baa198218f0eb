// Batches of elements: each component gets a leading dimension.
#pragma once

#include <span>
#include <vector>

#include <troupe/devices/allocator.hpp>
#include <troupe/graph/data/pipeline.hpp>

namespace troupe {

// The tensors of a batch of these elements of a schema; of BatchStage::uneven sparse and ragged those of
// data::uneven_schema(). With Uneven::refuse all shapes of a component must be alike: throws data_loss, naming the
// stage and the component, if they are not, and for sparse elements whose parts do not fit together. `memory`: of the
// tensors, on the host; null: anywhere.
std::vector<Tensor> assemble_batch(const data::BatchStage& batch, const std::string& stage, const BatchSchema& schema,
                                   std::span<const data::Element> elements, Allocator* memory = nullptr);

}  // namespace troupe
