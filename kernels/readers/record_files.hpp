// Files of records as a pipeline's source: each record is an element.
//
// record_formats.hpp has the formats:
//
//   const auto digits = data::records("train-*.tfrecord", tfrecord_format(), parser);                     // in order
//   const auto any = data::records("train-*.tfrecord", tfrecord_format(), parser, {.addressable = true});  // by number
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/graph/data/pipeline.hpp>
#include <troupe/kernels/readers/record_parser.hpp>
#include <troupe/kernels/readers/record_stream.hpp>

namespace troupe {

struct RecordFormat {
  std::string name{};  // "tfrecord": equal formats give equal records
  // Opens the records of a file. Thread-safe.
  std::function<std::unique_ptr<RecordStream>(FileSystem& files, const std::string& path)> open{};
  // How `open` treats damaged records: in order, those that a parser finds damaged are treated alike.
  RecordOptions records{};
};

// In order: each file is a split.
class RecordFiles final : public data::ElementSource {
 public:
  // No parser: elements are the records themselves, a string each.
  RecordFiles(FileSystem& files, std::vector<std::string> paths, RecordFormat format,
              std::shared_ptr<const RecordParser> parser = nullptr);

  std::uint64_t splits() const override { return paths_.size(); }
  std::unique_ptr<data::ElementCursor> open(std::uint64_t split) const override;

  // Damaged records that all cursors so far have left out (RecordOptions::skip_damaged). Any thread.
  std::uint64_t skipped() const override { return skipped_.load(std::memory_order_relaxed); }

 private:
  class Cursor;
  FileSystem& files_;
  std::vector<std::string> paths_, shown_;  // as errors show them
  RecordFormat format_;
  std::shared_ptr<const RecordParser> parser_;
  mutable std::atomic<std::uint64_t> skipped_{0};
};

// By number: first those of the first file, then those of the second, and so on. Makes an index beside each file that
// has none (record_index.hpp).
class IndexedRecords final : public data::IndexedSource {
 public:
  IndexedRecords(FileSystem& files, std::vector<std::string> paths, RecordFormat format,
                 std::shared_ptr<const RecordParser> parser = nullptr);
  ~IndexedRecords() override;
  std::uint64_t size() const override;
  std::vector<Tensor> read(std::uint64_t index) const override;
  void read_row(std::uint64_t index, std::int64_t row, std::span<Tensor> out) const override;

 private:
  class Indexed;
  std::pair<const Indexed*, std::uint64_t> find(std::uint64_t index) const;
  std::shared_ptr<const RecordParser> parser_;
  std::vector<std::unique_ptr<Indexed>> files_;
  std::vector<std::uint64_t> ends_;  // of each file: the number of the first record behind it
};

// The files that match (devices/storage/file_pattern.hpp), without the indices of others among them. Throws not_found
// if there are none.
std::vector<std::string> data_files_matching(FileSystem& files, const std::string& pattern);

namespace data {

struct FilesOptions {
  FileSystem* files = nullptr;  // null: by the paths' scheme (file_system_of()); outlives the pipeline
  bool addressable = false;     // any record by number, through an index beside each file that is made once
  SplitsOptions splits{};       // unless addressable
};

// The records of the files that match (data_files_matching()), which are found now, in the order of their names.
// Without a parser they have one component, the string "record". Throws not_found if no file matches, and what
// index_of_records() throws.
Pipeline records(const std::string& pattern, const RecordFormat& format,
                 std::shared_ptr<const RecordParser> parser = nullptr, const FilesOptions& options = {});
// Those of these files, in this order; no patterns. Files are opened when they are read.
Pipeline records(const std::vector<std::string>& paths, const RecordFormat& format,
                 std::shared_ptr<const RecordParser> parser = nullptr, const FilesOptions& options = {});

}  // namespace data

}  // namespace troupe
