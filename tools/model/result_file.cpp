#include "tools/model/result_file.hpp"

#include <utility>

#include <troupe/actors/model/batch_run.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::model_tool {

ResultFile::ResultFile(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {
  const auto format = data_tool::format_of_name(path_);
  if (!format)
    invalid_argument("'{}': the ending says no format: pass .npz, .npy, .csv, .jsonl, .tfrecord or .safetensors",
                     path_);
  format_ = *format;
}

void ResultFile::begin(const PredictedBatch& first) {
  for (const auto& [name, value] : first.outputs)
    rows_.push_back({name, value.dtype(), value.shape().sub(1, value.shape().rank())});
  in_file_ = data_tool::written_schema(format_, rows_, false, path_);
  writer_ = data_tool::open_writer(files_, path_, format_, in_file_);
}

void ResultFile::append(PredictedBatch&& batch) {
  check_rows(batch);
  if (!writer_) begin(batch);
  for (std::int64_t row = 0; row < batch.examples; ++row) {
    data::Element element;
    for (const auto& [name, value] : batch.outputs)
      element.push_back(value.rows(row, row + 1).reshaped(value.shape().sub(1, value.shape().rank())));
    writer_->write(data_tool::converted(rows_, in_file_, std::move(element), path_, written_++));
  }
}

void ResultFile::finish() {
  if (!writer_) invalid_argument("the source has no examples to predict from");
  writer_->finish();
}

}  // namespace troupe::model_tool
