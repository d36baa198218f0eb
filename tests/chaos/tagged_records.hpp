// The examples of table_model.hpp as tf.train.Examples in TFRecord files, which each task makes in its memory.
#pragma once

#include <cstdint>

#include <troupe/scheduler/data/pipeline_source.hpp>

namespace troupe::chaos {

enum class DataKind : std::uint8_t {
  memory,
  records,  // by number, in an order drawn for each epoch
  stream    // in order: files in turn, shuffled by blocks; each example is once in two, and put together again
};

PipelineSource tagged_records(std::int64_t examples, DataKind kind);

}  // namespace troupe::chaos
