#include "troupe/kernels/readers/record_files.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include <troupe/devices/storage/file_pattern.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/kernels/readers/record_index.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

std::vector<Tensor> element_of_record(std::string_view record, const RecordPlace& place, const RecordParser* parser) {
  if (parser) return parser->parse(record, place);
  return {Tensor::scalar(std::string(record))};
}

}  // namespace

class RecordFiles::Cursor final : public data::ElementCursor {
 public:
  Cursor(const RecordFiles& all, std::size_t file)
      : all_(all), shown_(all.shown_.at(file)), stream_(all.format_.open(all.files_, all.paths_.at(file))) {}

  bool next(std::vector<Tensor>& element) override {
    std::string_view record;
    RecordPlace place{shown_};
    while (take(record, place))
      if (parsed([&] { element = element_of_record(record, place, all_.parser_.get()); })) return true;
    return false;
  }
  bool next_row(std::int64_t row, std::span<Tensor> out) override {
    if (!all_.parser_) return ElementCursor::next_row(row, out);
    std::string_view record;
    RecordPlace place{shown_};
    while (take(record, place))
      if (parsed([&] { all_.parser_->parse(record, place, row, out); })) return true;
    return false;
  }
  std::unique_ptr<const data::UnmadeElement> next_unmade() override {
    if (!all_.parser_ || leaves_out()) return ElementCursor::next_unmade();
    std::string_view record;
    RecordPlace place{shown_};
    if (!take(record, place)) return nullptr;
    return std::make_unique<const Unparsed>(*all_.parser_, record, place);
  }
  bool skip() override {
    if (leaves_out()) return ElementCursor::skip();
    std::string_view record;
    RecordPlace place;
    return take(record, place);
  }
  std::uint64_t position() const override { return stream_->position(); }
  void seek(std::uint64_t position) override { stream_->seek(position); }

 private:
  class Unparsed final : public data::UnmadeElement {
   public:
    Unparsed(const RecordParser& parser, std::string_view record, const RecordPlace& place)
        : parser_(parser), record_(record), place_(place) {}
    std::vector<Tensor> make() const override { return parser_.parse(record_, place_); }
    void make_row(std::int64_t row, std::span<Tensor> out) const override { parser_.parse(record_, place_, row, out); }
    std::size_t num_bytes() const override { return record_.size(); }

   private:
    const RecordParser& parser_;
    const std::string record_;
    const RecordPlace place_;  // the path is the source's
  };

  // Whether it takes parsing to know if a record is an element.
  bool leaves_out() const { return all_.parser_ && all_.format_.records.skip_damaged; }

  // Calls `parse`. False: the record is damaged, and left out.
  template <class Parse>
  bool parsed(Parse&& parse) {
    try {
      parse();
      return true;
    } catch (const Error& error) {
      if (!leaves_out() || error.code() != Code::data_loss) throw;
      all_.skipped_.fetch_add(1, std::memory_order_relaxed);
      if (all_.format_.records.on_damage) all_.format_.records.on_damage(error);
      return false;
    }
  }

  bool take(std::string_view& record, RecordPlace& place) {
    place.offset = stream_->position();
    const bool found = stream_->next(record);
    if (const std::uint64_t skipped = stream_->skipped(); skipped != skipped_)
      all_.skipped_.fetch_add(skipped - std::exchange(skipped_, skipped), std::memory_order_relaxed);
    return found;
  }

  const RecordFiles& all_;
  const std::string& shown_;
  const std::unique_ptr<RecordStream> stream_;
  std::uint64_t skipped_ = 0;
};

RecordFiles::RecordFiles(FileSystem& files, std::vector<std::string> paths, RecordFormat format,
                         std::shared_ptr<const RecordParser> parser)
    : files_(files), paths_(std::move(paths)), format_(std::move(format)), parser_(std::move(parser)) {
  for (const std::string& path : paths_) shown_.push_back(shown_path(path));
}

std::unique_ptr<data::ElementCursor> RecordFiles::open(std::uint64_t split) const {
  return std::make_unique<Cursor>(*this, static_cast<std::size_t>(split));
}

// A file with its index. Streams that nobody reads from are kept, one for each thread that ever read at a time.
class IndexedRecords::Indexed {
 public:
  Indexed(FileSystem& files, std::string path, const RecordFormat& format)
      : files_(files),
        path_(std::move(path)),
        shown_(shown_path(path_)),
        format_(format),
        index_(index_of_records(files, path_, format)) {}

  std::uint64_t records() const { return index_.offsets.size(); }
  // Calls `use` with the record and its place.
  template <class Use>
  void read(std::uint64_t number, Use&& use) const {
    std::unique_ptr<RecordStream> stream = take();
    const RecordPlace place{shown_, index_.offsets[number]};
    stream->seek(place.offset);
    std::string_view record;
    if (!stream->next(record))
      fail(Code::data_loss, "{}: has no record at byte {}, unlike its index", shown_, place.offset);
    use(record, place);
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(stream));
  }

 private:
  std::unique_ptr<RecordStream> take() const {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return format_.open(files_, path_);
    std::unique_ptr<RecordStream> stream = std::move(free_.back());
    free_.pop_back();
    return stream;
  }

  FileSystem& files_;
  const std::string path_, shown_;
  const RecordFormat format_;
  const RecordIndex index_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<RecordStream>> free_;
};

IndexedRecords::IndexedRecords(FileSystem& files, std::vector<std::string> paths, RecordFormat format,
                               std::shared_ptr<const RecordParser> parser)
    : parser_(std::move(parser)) {
  for (std::string& path : paths) {
    files_.push_back(std::make_unique<Indexed>(files, std::move(path), format));
    ends_.push_back(size() + files_.back()->records());
  }
}
IndexedRecords::~IndexedRecords() = default;

std::uint64_t IndexedRecords::size() const { return ends_.empty() ? 0 : ends_.back(); }

// The file of a record, and the record's number there.
std::pair<const IndexedRecords::Indexed*, std::uint64_t> IndexedRecords::find(std::uint64_t index) const {
  const auto file = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
  return {files_.at(file).get(), index - (file == 0 ? 0 : ends_[file - 1])};
}

std::vector<Tensor> IndexedRecords::read(std::uint64_t index) const {
  const auto [file, number] = find(index);
  std::vector<Tensor> element;
  file->read(number, [&](std::string_view record, const RecordPlace& place) {
    element = element_of_record(record, place, parser_.get());
  });
  return element;
}

void IndexedRecords::read_row(std::uint64_t index, std::int64_t row, std::span<Tensor> out) const {
  if (!parser_) return IndexedSource::read_row(index, row, out);
  const auto [file, number] = find(index);
  file->read(number,
             [&](std::string_view record, const RecordPlace& place) { parser_->parse(record, place, row, out); });
}

std::vector<std::string> data_files_matching(FileSystem& files, const std::string& pattern) {
  const std::vector<std::string> all = files_matching(files, pattern);
  std::vector<std::string> out = all;
  const auto is_index = [&](const std::string& path) {
    return std::ranges::any_of(all, [&](const std::string& other) { return path == index_path(other); });
  };
  std::erase_if(out, is_index);
  return out;
}

namespace data {
namespace {

Pipeline records_of(std::string name, FileSystem& files, std::vector<std::string> paths, const RecordFormat& format,
                    std::shared_ptr<const RecordParser> parser, const FilesOptions& options) {
  BatchSchema schema = parser ? parser->schema() : BatchSchema{{"record", DType::string, Shape{}}};
  if (options.addressable)
    return from_source(std::move(name), std::move(schema),
                       std::make_shared<const IndexedRecords>(files, std::move(paths), format, std::move(parser)));
  return from_source(std::move(name), std::move(schema),
                     std::make_shared<const RecordFiles>(files, std::move(paths), format, std::move(parser)),
                     options.splits);
}

}  // namespace

Pipeline records(const std::string& pattern, const RecordFormat& format, std::shared_ptr<const RecordParser> parser,
                 const FilesOptions& options) {
  FileSystem& files = options.files ? *options.files : file_system_of(pattern);
  return records_of(fmt::format("{} {}", format.name, shown_path(pattern)), files, data_files_matching(files, pattern),
                    format, std::move(parser), options);
}

Pipeline records(const std::vector<std::string>& paths, const RecordFormat& format,
                 std::shared_ptr<const RecordParser> parser, const FilesOptions& options) {
  FileSystem& files = options.files ? *options.files : all_file_systems();
  if (paths.empty()) invalid_argument("no files are named");
  const std::string others = paths.size() > 1 ? fmt::format(" and {} more", paths.size() - 1) : "";
  return records_of(fmt::format("{} {}{}", format.name, shown_path(paths[0]), others), files, paths, format,
                    std::move(parser), options);
}

}  // namespace data

}  // namespace troupe
