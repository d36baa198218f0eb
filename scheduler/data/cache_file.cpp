#include "troupe/scheduler/data/cache_file.hpp"

#include <cstring>
#include <mutex>
#include <random>
#include <utility>

#include <troupe/devices/storage/crc32c.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/messages/body_codec.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/scheduler/data/element_stream.hpp>

namespace troupe::data {
namespace {

constexpr std::string_view kCacheMagic = "TRPCACHE", kCacheEnd = "TRPC.END";
constexpr std::uint32_t kCacheVersion = 1;
constexpr std::size_t kCacheHead = 8 + 4 + 4 + 8, kCacheTail = 8 + 8 + 4 + 8, kListEntry = 8 + 4;
constexpr std::uint64_t kMostDescription = 1 << 20;
constexpr std::size_t kWritten = 1 << 20;  // bytes at a time

std::string encoded(const Element& element) {
  std::string out;
  for (const Tensor& tensor : element) {
    for (const std::int64_t dim : tensor.shape().dims()) append_little_endian(out, static_cast<std::uint64_t>(dim));
    if (tensor.dtype() != DType::string) {
      out.append(reinterpret_cast<const char*>(tensor.raw()), tensor.num_bytes());
      continue;
    }
    for (const std::string& text : tensor.values<std::string>()) {
      append_little_endian(out, static_cast<std::uint64_t>(text.size()));
      out += text;
    }
  }
  return out;
}

// Takes an element apart; every size is checked against the bytes that are left.
class Decoder {
 public:
  Decoder(std::string_view bytes, const BatchSchema& schema) : rest_(bytes), schema_(schema) {}
  Element element() {
    Element out;
    for (const BatchComponent& component : schema_) out.push_back(tensor(component));
    if (!rest_.empty()) fail(Code::data_loss, "{} bytes behind its components", rest_.size());
    return out;
  }

 private:
  std::string_view take(std::uint64_t bytes, const BatchComponent& of) {
    if (bytes > rest_.size())
      fail(Code::data_loss, "'{}' needs {} bytes, but {} are left", of.name, bytes, rest_.size());
    const std::string_view out = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return out;
  }
  std::uint64_t number(const BatchComponent& of) { return read_little_endian<std::uint64_t>(take(8, of).data()); }

  Tensor tensor(const BatchComponent& component) {
    const bool text = component.dtype == DType::string;
    const std::uint64_t width = text ? 8 : size_of(component.dtype);  // the fewest bytes of an element
    Shape shape = component.shape;
    std::uint64_t most = rest_.size() / width;
    for (int d = 0; d < shape.rank(); ++d) {
      const std::uint64_t dim = number(component);
      if (dim > most) fail(Code::data_loss, "dimension {} of '{}' is {}", d, component.name, dim);
      if (dim > 0) most /= dim;
      shape.set_dim(d, static_cast<std::int64_t>(dim));
    }
    const auto elements = static_cast<std::uint64_t>(shape.num_elements());
    if (!text) {
      const std::string_view bytes = take(elements * width, component);
      if (component.dtype == DType::boolean && bytes.find_first_not_of(std::string_view("\0\1", 2)) != bytes.npos)
        fail(Code::data_loss, "'{}' has a boolean that is neither 0 nor 1", component.name);
      Tensor out(component.dtype, shape);
      if (!bytes.empty()) std::memcpy(out.mutable_raw(), bytes.data(), bytes.size());
      return out;
    }
    Tensor out(component.dtype, shape);
    for (std::uint64_t i = 0; i < elements; ++i)
      out.mutable_data<std::string>()[i] = take(number(component), component);
    return out;
  }

  std::string_view rest_;
  const BatchSchema& schema_;
};

std::string suffix_of_writer() {
  std::random_device random;
  const auto high = static_cast<unsigned>(random());
  return fmt::format("{:08x}{:08x}", high, static_cast<unsigned>(random()));
}

void write_cache(const Pipeline& pipeline, FileSystem& files, const std::string& path) {
  const std::string description = pipeline.describe();
  if (description.size() > kMostDescription)
    invalid_argument("stage 'cache_file {}': the description has {} bytes", path, description.size());
  const auto write = [&](WritableFile& file) {
    std::string waiting, list;
    std::uint64_t written = 0;
    const auto flush = [&] {
      file.append(std::as_bytes(std::span(waiting)));
      written += waiting.size();
      waiting.clear();
    };
    waiting = kCacheMagic;
    append_little_endian(waiting, kCacheVersion);
    append_little_endian(waiting, crc32c(description));
    append_little_endian(waiting, static_cast<std::uint64_t>(description.size()));
    waiting += description;
    const auto stream = open_stream(pipeline.stage());
    stream->start(0);
    while (const auto element = stream->next()) {
      const std::string bytes = encoded(*element);
      append_little_endian(list, written + waiting.size());
      append_little_endian(list, crc32c(bytes));
      waiting += bytes;
      if (waiting.size() >= kWritten) flush();
    }
    const std::uint64_t list_at = written + waiting.size();
    waiting += list;
    append_little_endian(waiting, list_at);
    append_little_endian(waiting, static_cast<std::uint64_t>(list.size() / kListEntry));
    append_little_endian(waiting, crc32c(list));
    waiting += kCacheEnd;
    flush();
  };
  replace_file(files, path, write, suffix_of_writer());
}

class CachedElements final : public IndexedSource {
 public:
  CachedElements(FileSystem& files, std::string path, BatchSchema schema, const std::string& description)
      : files_(files), path_(std::move(path)), schema_(std::move(schema)) {
    auto file = files_.open(path_);
    const std::uint64_t bytes = file->size();
    const auto damaged = [&](std::uint64_t at, std::string_view why) {
      fail(Code::data_loss, "{}: byte {}: {}: remove the file, and it is made again", path_, at, why);
    };
    if (bytes < kCacheHead + kCacheTail) damaged(0, "too short for a cache of elements");
    const std::string head = part(*file, 0, kCacheHead);
    if (!head.starts_with(kCacheMagic)) damaged(0, "not a cache of elements");
    if (const auto version = read_little_endian<std::uint32_t>(head.data() + 8); version != kCacheVersion)
      damaged(8, fmt::format("version {}, expected {}", version, kCacheVersion));
    const auto length = read_little_endian<std::uint64_t>(head.data() + 16);
    if (length > kMostDescription || length > bytes - kCacheHead - kCacheTail) damaged(16, "the length cannot be");
    const std::string written = part(*file, kCacheHead, length);
    if (crc32c(written) != read_little_endian<std::uint32_t>(head.data() + 12)) damaged(12, "a wrong checksum");
    if (written != description)
      fail(Code::failed_precondition,
           "{} keeps elements of another pipeline: remove it, or choose another path. It was\n{}and now is\n{}", path_,
           written, description);
    const std::uint64_t tail_at = bytes - kCacheTail;
    const std::string tail = part(*file, tail_at, kCacheTail);
    if (!tail.ends_with(kCacheEnd)) damaged(tail_at, "the end is missing");
    list_at_ = read_little_endian<std::uint64_t>(tail.data());
    size_ = read_little_endian<std::uint64_t>(tail.data() + 8);
    const std::uint64_t begin = kCacheHead + length;
    if (list_at_ < begin || list_at_ > tail_at || size_ != (tail_at - list_at_) / kListEntry ||
        (tail_at - list_at_) % kListEntry != 0)
      damaged(tail_at, "the list of elements cannot be there");
    list_ = part(*file, list_at_, tail_at - list_at_);
    if (crc32c(list_) != read_little_endian<std::uint32_t>(tail.data() + 16)) damaged(tail_at + 16, "a wrong checksum");
    std::uint64_t before = begin;
    for (std::uint64_t i = 0; i <= size_; before = offset(i++))
      if (offset(i) < before) damaged(list_at_ + i * kListEntry, "offsets must ascend");
    free_.push_back(std::move(file));
  }

  std::uint64_t size() const override { return size_; }
  Element read(std::uint64_t index) const override {
    std::unique_ptr<ReadableFile> file = take();
    const std::string bytes = part(*file, offset(index), offset(index + 1) - offset(index));
    {
      const std::lock_guard lock(mutex_);
      free_.push_back(std::move(file));
    }
    try {
      if (crc32c(bytes) != read_little_endian<std::uint32_t>(list_.data() + index * kListEntry + 8))
        fail(Code::data_loss, "a wrong checksum");
      return Decoder(bytes, schema_).element();
    } catch (const Error& error) {
      throw error.within(fmt::format("{}: byte {}, element {}", path_, offset(index), index));
    }
  }

 private:
  static std::string part(ReadableFile& file, std::uint64_t at, std::uint64_t bytes) {
    std::string out(bytes, '\0');
    file.read(at, std::as_writable_bytes(std::span(out)));
    return out;
  }
  std::uint64_t offset(std::uint64_t index) const {
    return index == size_ ? list_at_ : read_little_endian<std::uint64_t>(list_.data() + index * kListEntry);
  }
  // A file is read by one thread at a time.
  std::unique_ptr<ReadableFile> take() const {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return files_.open(path_);
    auto file = std::move(free_.back());
    free_.pop_back();
    return file;
  }

  FileSystem& files_;
  const std::string path_;
  const BatchSchema schema_;
  std::uint64_t list_at_ = 0, size_ = 0;
  std::string list_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<ReadableFile>> free_;
};

}  // namespace

Pipeline cache_file(const Pipeline& pipeline, const std::string& path, const CacheFileOptions& options) {
  FileSystem& files = options.files ? *options.files : file_system_of(path);
  if (!files.exists(path)) write_cache(pipeline, files, path);
  return from_source(fmt::format("cache_file {}", path), pipeline.schema(),
                     std::make_shared<const CachedElements>(files, path, pipeline.schema(), pipeline.describe()));
}

}  // namespace troupe::data
