#include "troupe/kernels/readers/record_files.hpp"

#include <utility>

#include <troupe/devices/storage/file_pattern.hpp>

namespace troupe {

class RecordFiles::Cursor final : public data::ElementCursor {
 public:
  Cursor(const RecordFiles& all, const std::string& path)
      : all_(all), path_(path), stream_(all.open_(all.files_, path)) {}

  bool next(std::vector<Tensor>& element) override {
    const std::uint64_t offset = stream_->position();
    std::string_view record;
    const bool found = stream_->next(record);
    all_.skipped_.fetch_add(stream_->skipped() - std::exchange(skipped_, stream_->skipped()),
                            std::memory_order_relaxed);
    if (!found) return false;
    if (all_.parser_)
      element = all_.parser_->parse(record, {path_, offset});
    else
      element = {Tensor::scalar(std::string(record))};
    return true;
  }
  std::uint64_t position() const override { return stream_->position(); }
  void seek(std::uint64_t position) override { stream_->seek(position); }

 private:
  const RecordFiles& all_;
  const std::string& path_;
  const std::unique_ptr<RecordStream> stream_;
  std::uint64_t skipped_ = 0;
};

RecordFiles::RecordFiles(FileSystem& files, std::vector<std::string> paths, OpenRecords open,
                         std::shared_ptr<const RecordParser> parser)
    : files_(files), paths_(std::move(paths)), open_(std::move(open)), parser_(std::move(parser)) {}

std::unique_ptr<data::ElementCursor> RecordFiles::open(std::uint64_t split) const {
  return std::make_unique<Cursor>(*this, paths_.at(split));
}

data::Pipeline data::records(const std::string& name, const std::string& pattern, OpenRecords open,
                             std::shared_ptr<const RecordParser> parser, const FilesOptions& options) {
  FileSystem& files = options.files ? *options.files : posix_file_system();
  BatchSchema schema = parser ? parser->schema() : BatchSchema{{"record", DType::string, Shape{}}};
  return from_source(
      name, std::move(schema),
      std::make_shared<RecordFiles>(files, files_matching(files, pattern), std::move(open), std::move(parser)),
      options.splits);
}

}  // namespace troupe
