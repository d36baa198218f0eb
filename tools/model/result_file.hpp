// Results of batches as a file of rows, one per example, written as they come.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tools/data/writers.hpp"
#include <troupe/actors/model/batch_inference.hpp>

namespace troupe::model_tool {

class ResultFile {
 public:
  // Any format that troupe-data writes; its ending says which. Throws invalid_argument for another.
  ResultFile(FileSystem& files, std::string path);

  // Batches in the order of their examples. Throws invalid_argument, naming the output, for one without a row for each
  // example or with rows of another shape than those before, and for what the format cannot hold.
  void append(PredictedBatch&& batch);
  // Writes the file durably and atomically; until then nothing is at the path. Throws invalid_argument without a batch.
  void finish();

  // Of a row.
  const BatchSchema& schema() const { return rows_; }
  std::uint64_t rows() const { return written_; }

 private:
  void begin(const PredictedBatch& first);

  FileSystem& files_;
  const std::string path_;
  data_tool::Format format_;
  BatchSchema rows_, in_file_;
  std::unique_ptr<data_tool::ElementWriter> writer_;
  std::uint64_t written_ = 0;
};

}  // namespace troupe::model_tool
