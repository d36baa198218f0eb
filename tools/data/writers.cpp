#include "tools/data/writers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tools/data/element_text.hpp"
#include <troupe/kernels/readers/array_writer.hpp>
#include <troupe/kernels/readers/example.hpp>
#include <troupe/kernels/readers/gzip_file.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>
#include <troupe/messages/element_types.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::data_tool {
namespace {

// The file that takes the place of another at the end.
class ReplacingFile {
 public:
  ReplacingFile(FileSystem& files, std::string path)
      : files_(files),
        path_(std::move(path)),
        temporary_(path_ + ".tmp-" + temporary_suffix()),
        file_(files.create(temporary_)) {
    if (without_compression(path_) != path_) gzip_ = std::make_unique<GzipFile>(*file_);
  }
  ~ReplacingFile() {
    if (done_) return;
    try {
      file_.reset();
      files_.remove(temporary_);
    } catch (const Error&) {  // what has failed before is told
    }
  }
  ReplacingFile(const ReplacingFile&) = delete;
  ReplacingFile& operator=(const ReplacingFile&) = delete;

  WritableFile& file() { return gzip_ ? *gzip_ : *file_; }
  void replace() {
    if (gzip_) gzip_->finish();
    file_->sync();
    file_->close();
    files_.rename(temporary_, path_);
    done_ = true;
    files_.sync_directory(parent_path(path_));
  }

 private:
  FileSystem& files_;
  const std::string path_, temporary_;
  std::unique_ptr<WritableFile> file_;
  std::unique_ptr<GzipFile> gzip_;
  bool done_ = false;
};

class ExamplesWriter final : public ElementWriter {
 public:
  ExamplesWriter(FileSystem& files, const std::string& path, BatchSchema schema)
      : file_(files, path), writer_(file_.file()), schema_(std::move(schema)) {}
  void write(const data::Element& element) override {
    std::vector<NamedTensor> features;
    for (std::size_t i = 0; i < schema_.size(); ++i) features.push_back({schema_[i].name, element[i]});
    writer_.append(example_of(features));
  }
  void finish() override {
    writer_.finish();
    file_.replace();
  }

 private:
  ReplacingFile file_;
  TfRecordWriter writer_;
  const BatchSchema schema_;
};

class TableWriter final : public ElementWriter {
 public:
  TableWriter(FileSystem& files, const std::string& path, const BatchSchema& schema, const CsvFormat& format)
      : file_(files, path), writer_(file_.file(), schema, format) {}
  void write(const data::Element& element) override {
    std::vector<Tensor> row;
    for (const Tensor& x : element) row.push_back(x.reshaped(Shape{1}.concatenated(x.shape())));
    writer_.write(row);
  }
  void finish() override { file_.replace(); }

 private:
  ReplacingFile file_;
  CsvWriter writer_;
};

// Lines of JSON, or of text.
class LinesWriter final : public ElementWriter {
 public:
  LinesWriter(FileSystem& files, const std::string& path, BatchSchema schema, bool json)
      : path_(path), file_(files, path), schema_(std::move(schema)), json_(json) {}
  void write(const data::Element& element) override {
    buffer_ += json_ ? json_line(element) : text_line(element);
    buffer_ += '\n';
    ++lines_;
    if (constexpr std::size_t kAtOnce = 64 << 10; buffer_.size() >= kAtOnce) flush();
  }
  void finish() override {
    flush();
    file_.replace();
  }

 private:
  std::string json_line(const data::Element& element) const {
    try {
      return element_json(schema_, element, true).dump();
    } catch (const nlohmann::ordered_json::exception&) {
      invalid_argument("'{}': element {} has a string that is no UTF-8: JSON has only text", path_, lines_);
    } catch (const Error& error) {
      throw error.within(fmt::format("'{}': element {}", path_, lines_));
    }
  }
  std::string text_line(const data::Element& element) const {
    const auto& line = element[0].item<std::string>();
    if (line.find_first_of("\r\n") != line.npos)
      invalid_argument("'{}': element {} has several lines: pass OUT.csv or OUT.jsonl", path_, lines_);
    return line;
  }
  void flush() {
    file_.file().append(std::as_bytes(std::span(buffer_)));
    buffer_.clear();
  }

  const std::string path_;
  ReplacingFile file_;
  const BatchSchema schema_;
  const bool json_;
  std::uint64_t lines_ = 0;
  std::string buffer_;
};

class RowsWriter final : public ElementWriter {
 public:
  RowsWriter(FileSystem& files, const std::string& path, ArrayFormat format, const BatchSchema& schema)
      : writer_(files, path, format, schema) {}
  void write(const data::Element& element) override { writer_.append(element); }
  void finish() override { writer_.finish(); }

 private:
  ArrayWriter writer_;
};

[[noreturn]] void refuse(const std::string& path, Format format, const BatchComponent& c, std::string_view why) {
  invalid_argument("cannot write '{}': component '{}' is {}{}, but {} {}; --components leaves components out", path,
                   c.name, name(c.dtype), c.shape.to_string(), name(format), why);
}

DType written_dtype(Format format, const BatchComponent& c, bool f32, const std::string& path) {
  const bool wide_float = c.dtype == DType::f64 || c.dtype == DType::f16 || c.dtype == DType::bf16;
  if (f32 && wide_float) return DType::f32;
  const bool narrow_integer = is_integer(c.dtype) && c.dtype != DType::u64;
  switch (format) {
    case Format::tfrecord:
      if (wide_float) refuse(path, format, c, "keeps f32 only: pass --f32");
      if (c.dtype == DType::u64) refuse(path, format, c, "keeps i64");
      return c.dtype;
    case Format::csv:
    case Format::tsv:
      if (c.dtype == DType::f16 || c.dtype == DType::bf16) return DType::f32;
      if (c.dtype == DType::u64) refuse(path, format, c, "is written with integers up to i64");
      return narrow_integer && c.dtype != DType::u8 && c.dtype != DType::i32 ? DType::i64 : c.dtype;
    case Format::npy:
    case Format::npz:
      if (c.dtype == DType::string) refuse(path, format, c, "has numbers only");
      if (c.dtype == DType::bf16) refuse(path, format, c, "has no bf16: pass --f32");
      return c.dtype;
    case Format::idx:
      if (c.dtype == DType::boolean) return DType::u8;
      return c.dtype;  // ArrayWriter says which there are
    case Format::text:
      if (c.dtype != DType::string || !c.shape.is_scalar()) refuse(path, format, c, "has lines: one string each");
      return c.dtype;
    default:
      return c.dtype;
  }
}

template <class To>
Tensor cast_to(const Tensor& x) {
  Tensor out(dtype_of<To>, x.shape());
  dispatch(DataTypes{}, x.dtype(), [&]<class From>() {
    std::ranges::transform(x.values<From>(), out.mutable_data<To>(),
                           [](From v) { return static_cast<To>(static_cast<Compute<From>>(v)); });
  });
  return out;
}

// Whether elements of the component must have one shape. Examples keep lists: other shapes must be known to read them
// again.
bool needs_one_shape(Format format, const BatchComponent& c) {
  if (format == Format::tfrecord) return c.shape.rank() > 1;
  return format != Format::jsonl;
}

}  // namespace

BatchSchema fixed_schema(Format format, const BatchSchema& schema, const data::Element* first,
                         const std::string& path) {
  if ((format == Format::text || format == Format::npy || format == Format::idx) && schema.size() != 1)
    invalid_argument("cannot write '{}': {} holds one component, not {}: {}; pick one with --components", path,
                     name(format), schema.size(), schema_text(schema));
  BatchSchema out = schema;
  for (std::size_t i = 0; i < out.size(); ++i) {
    BatchComponent& c = out[i];
    if (c.shape.fully_known() || !needs_one_shape(format, c)) continue;
    if (first == nullptr) refuse(path, format, c, "has fixed shapes, and there is no element to take them from");
    c.shape = (*first)[i].shape();
  }
  return out;
}

BatchSchema written_schema(Format format, const BatchSchema& fixed, bool f32, const std::string& path) {
  BatchSchema out = fixed;
  for (BatchComponent& c : out) {
    c.dtype = written_dtype(format, c, f32, path);
    // The bytes of an image, as TensorFlow's own data sets have them.
    if (format == Format::tfrecord && c.dtype == DType::u8 && c.shape.rank() > 0) c = {c.name, DType::string, {}};
  }
  return out;
}

std::unique_ptr<ElementWriter> open_writer(FileSystem& files, const std::string& path, Format format,
                                           const BatchSchema& schema) {
  const std::string bare = without_compression(path);
  const bool arrays = format == Format::npy || format == Format::npz || format == Format::idx;
  if (bare != path && (arrays || !(path.ends_with(".gz") || path.ends_with(".gzip"))))
    invalid_argument("cannot write '{}': {} is written {}", path, name(format),
                     arrays ? "without compression" : "plain or as .gz");
  switch (format) {
    case Format::tfrecord:
      return std::make_unique<ExamplesWriter>(files, path, schema);
    case Format::csv:
      return std::make_unique<TableWriter>(files, path, schema, CsvFormat{});
    case Format::tsv:
      return std::make_unique<TableWriter>(files, path, schema, CsvFormat{.separator = '\t', .quote = '\0'});
    case Format::jsonl:
    case Format::text:
      return std::make_unique<LinesWriter>(files, path, schema, format == Format::jsonl);
    case Format::npy:
      return std::make_unique<RowsWriter>(files, path, ArrayFormat::npy, schema);
    case Format::npz:
      return std::make_unique<RowsWriter>(files, path, ArrayFormat::npz, schema);
    case Format::idx:
      return std::make_unique<RowsWriter>(files, path, ArrayFormat::idx, schema);
    default:
      invalid_argument("cannot write '{}': {} is only read: pass tfrecord, csv, tsv, jsonl, text, npy, npz or idx",
                       path, name(format));
  }
}

data::Element converted(const BatchSchema& fixed, const BatchSchema& to, data::Element&& element,
                        const std::string& path, std::uint64_t number) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    Tensor& x = element[i];
    if (!x.shape().compatible_with(fixed[i].shape))
      invalid_argument("'{}': '{}' of element {} is {}{}, but those before are {}: this format has rows of one shape",
                       path, to[i].name, number, name(x.dtype()), x.shape().to_string(), fixed[i].shape.to_string());
    if (x.dtype() == to[i].dtype) continue;
    if (to[i].dtype == DType::string)
      x = Tensor::scalar(std::string(reinterpret_cast<const char*>(x.raw()), x.num_bytes()));
    else if (to[i].dtype == DType::f32)
      x = cast_to<float>(x);
    else if (to[i].dtype == DType::u8)
      x = cast_to<std::uint8_t>(x);
    else
      x = cast_to<std::int64_t>(x);
  }
  return std::move(element);
}

}  // namespace troupe::data_tool
