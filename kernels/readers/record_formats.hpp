// Formats of files of records, and pipelines of them.
//
//   const auto rows = data::csv("houses-*.csv", {.components = {{"x", DType::f32, {0, 1}}, {"y", DType::f32, {2}}}});
//   const auto users = data::records("users.jsonl", lines_format({.skip_empty = true}), json_parser);
#pragma once

#include <string>
#include <vector>

#include <troupe/kernels/readers/csv.hpp>
#include <troupe/kernels/readers/fixed_stream.hpp>
#include <troupe/kernels/readers/line_stream.hpp>
#include <troupe/kernels/readers/record_files.hpp>

namespace troupe {

RecordFormat tfrecord_format(RecordOptions options = {});
RecordFormat lines_format(const LineOptions& options = {});
RecordFormat fixed_format(const FixedOptions& options);

namespace data {

// The rows of CSV files. Without CsvOptions::columns they are those of the first file, inferred (infer_csv()). Throws
// data_loss for a file whose header has other names.
Pipeline csv(const std::string& pattern, CsvOptions options = {}, const FilesOptions& files = {});
// Those of these files, in this order.
Pipeline csv(const std::vector<std::string>& paths, CsvOptions options = {}, const FilesOptions& files = {});

}  // namespace data

}  // namespace troupe
