// Files of records as a pipeline's source: each file is a split, each record an element.
//
//   const auto lines = data::records("lines", "train-*.txt.gz", open_lines);
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/graph/data/pipeline.hpp>
#include <troupe/kernels/readers/record_parser.hpp>
#include <troupe/kernels/readers/record_stream.hpp>

namespace troupe {

// Opens the records of a file. Thread-safe.
using OpenRecords = std::function<std::unique_ptr<RecordStream>(FileSystem& files, const std::string& path)>;

class RecordFiles final : public data::ElementSource {
 public:
  // No parser: elements are the records themselves, a string each.
  RecordFiles(FileSystem& files, std::vector<std::string> paths, OpenRecords open,
              std::shared_ptr<const RecordParser> parser = nullptr);

  std::uint64_t splits() const override { return paths_.size(); }
  std::string name(std::uint64_t split) const override { return paths_.at(split); }
  std::unique_ptr<data::ElementCursor> open(std::uint64_t split) const override;

  // Damaged records that all cursors so far have left out (RecordOptions::skip_damaged). Any thread.
  std::uint64_t skipped() const { return skipped_.load(std::memory_order_relaxed); }

 private:
  class Cursor;
  FileSystem& files_;
  std::vector<std::string> paths_;
  OpenRecords open_;
  std::shared_ptr<const RecordParser> parser_;
  mutable std::atomic<std::uint64_t> skipped_{0};
};

namespace data {

struct FilesOptions {
  FileSystem* files = nullptr;  // null: those of this machine; outlives the pipeline
  SplitsOptions splits{};
};

// The records of the files that match (devices/storage/file_pattern.hpp), which are found now, in the order of their
// names. Without a parser they have one component, the string "record". Throws not_found if no file matches.
Pipeline records(const std::string& name, const std::string& pattern, OpenRecords open,
                 std::shared_ptr<const RecordParser> parser = nullptr, const FilesOptions& options = {});

}  // namespace data

}  // namespace troupe
