// Data sets read, parsed, shuffled and batched, beside tf.data.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <random>

#include "tools/bench/cases.hpp"
#include "tools/bench/mnist_contest.hpp"
#include <troupe/devices/storage/file_system.hpp>
#include <troupe/kernels/readers/digits.hpp>
#include <troupe/kernels/readers/example.hpp>
#include <troupe/kernels/readers/record_formats.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>
#include <troupe/scheduler/data/pipeline_source.hpp>

namespace troupe::bench {
namespace {

constexpr int kBatch = 128;

// Digits in the files that scripts read, and as Examples in a TFRecord file, data.tfrecord.
class DigitFiles {
 public:
  explicit DigitFiles(int count) : digits_(draw_digits({.train = count, .test = 10}).train), files_(digits_) {
    const std::string path = tfrecords();
    const auto file = posix_file_system().create(path);
    TfRecordWriter writer(*file);
    for (std::int64_t i = 0; i < digits_.size(); ++i) {
      const auto* pixels = reinterpret_cast<const char*>(digits_.images.raw()) + i * kPixels;
      const std::vector<NamedTensor> example = {
          {"image", Tensor::scalar(std::string(pixels, kPixels))},
          {"label", Tensor::scalar<std::int64_t>(digits_.labels.data<std::int32_t>()[i])}};
      const std::string record = example_of(example);
      record_bytes_ += record.size();
      writer.append(record);
    }
    writer.finish();
    file->close();
    for (std::int64_t i = 0; i < digits_.size(); ++i) labels_ += digits_.labels.data<std::int32_t>()[i];
  }
  const Dataset& digits() const { return digits_; }
  const std::string& directory() const { return files_.directory(); }
  std::string tfrecords() const { return directory() + "/data.tfrecord"; }
  std::uint64_t record_bytes() const { return record_bytes_; }
  // Throws internal unless this is the sum of all labels.
  void check(std::int64_t labels) const {
    if (labels != labels_) fail(Code::internal, "labels add up to {}, expected {}", labels, labels_);
  }

 private:
  static constexpr std::size_t kPixels = 28 * 28;
  Dataset digits_;
  ImageFiles files_;
  std::uint64_t record_bytes_ = 0;
  std::int64_t labels_ = 0;
};

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Examples per second of an epoch; the last component is the label.
double examples_per_second(BatchReader& reader, std::uint32_t epoch, const DigitFiles& files) {
  std::int64_t labels = 0, examples = 0;
  const double seconds = seconds_of([&] {
    for (std::uint64_t step = 0;; ++step) {
      const auto batch = reader.read(epoch, step, 0);
      if (!batch) break;
      examples += batch->examples;
      const Tensor& label = batch->components.back();
      for (std::int64_t i = 0; i < batch->examples; ++i)
        labels += label.dtype() == DType::i32 ? label.data<std::int32_t>()[i] : label.data<std::int64_t>()[i];
    }
  });
  files.check(labels);
  return static_cast<double>(examples) / seconds;
}

data::Pipeline in_memory(const DigitFiles& files) {
  return data::tensors({{"image", files.digits().images}, {"label", files.digits().labels}}).shuffle(1).batch(kBatch);
}

data::Pipeline of_examples(const DigitFiles& files) {
  const auto parser = std::make_shared<ExampleParser>(
      std::vector<ExampleFeature>{{.name = "image", .dtype = DType::u8, .shape = Shape{28, 28, 1}},
                                  {.name = "label", .dtype = DType::i64, .shape = Shape{}}});
  return data::records(files.tfrecords(), tfrecord_format(), parser).batch(kBatch);
}

Case pipeline_case(const char* name, const char* measures, const char* peer, double target,
                   data::Pipeline (*pipeline)(const DigitFiles&)) {
  return {.bench = "data",
          .name = name,
          .unit = "examples/s",
          .more_is_better = true,
          .measures = measures,
          .peer = peer,
          .ratio_target = target,
          .prepare = [=](const Settings& settings) -> Contest {
            const int count = settings.quick ? 1000 : 60'000;
            auto files = std::make_shared<DigitFiles>(count);
            auto source = std::make_shared<PipelineSource>(pipeline(*files));
            std::shared_ptr<BatchReader> reader = source->open({.batch = kBatch, .last = LastStep::keep});
            auto epoch = std::make_shared<std::uint32_t>(0);
            Contest contest{
                .troupe = [source, reader, epoch, files] { return examples_per_second(*reader, (*epoch)++, *files); },
                .peers = {}};
            if (auto tensorflow = script_peer({"data_tensorflow.py", {}}, {.model = name, .batch = kBatch, .epochs = 1},
                                              files->directory(), settings))
              contest.peers.push_back(std::move(*tensorflow));
            return contest;
          }};
}

// Numbers with up to 8 digits, in a CSV file of 40 columns.
class NumbersFile {
 public:
  explicit NumbersFile(std::int64_t rows)
      : files_(Dataset{Tensor(DType::u8, Shape{0}), Tensor(DType::i32, Shape{0})}), rows_(rows) {
    std::mt19937 random(5);
    std::array<char, 32> text;
    std::string header;
    for (int c = 0; c < kColumns; ++c) header += fmt::format("{}c{}", c == 0 ? "" : ",", c);
    text_.reserve(static_cast<std::size_t>(rows) * kColumns * 10);
    for (std::int64_t row = 0; row < rows; ++row)
      for (int c = 0; c < kColumns; ++c) {
        const float value = static_cast<float>(static_cast<int>(random() % 2'000'001) - 1'000'000) / 997;
        sum_ += static_cast<double>(value);
        text_.append(text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr);
        text_ += c + 1 < kColumns ? ',' : '\n';
      }
    std::ofstream out(path(), std::ios::binary);
    out << header << '\n' << text_;
    if (!out.flush()) fail(Code::unavailable, "cannot write to '{}'", path());
  }
  static constexpr int kColumns = 40;
  std::string path() const { return directory() + "/numbers.csv"; }
  const std::string& directory() const { return files_.directory(); }
  const std::string& text() const { return text_; }
  double rows() const { return static_cast<double>(rows_); }
  // Throws internal unless this is the sum of all numbers, but for rounding.
  void check(double sum) const {
    if (std::abs(sum - sum_) > 1e-3 * rows()) fail(Code::internal, "numbers add up to {}, expected {}", sum, sum_);
  }

 private:
  ImageFiles files_;  // empty ones, in a folder of its own
  std::int64_t rows_;
  std::string text_;  // without the header
  double sum_ = 0;
};

double sum_of(std::span<const float> numbers) {
  double sum = 0;
  for (const float number : numbers) sum += static_cast<double>(number);
  return sum;
}

// Rows per second of the file in batches.
std::function<double()> rows_per_second(const std::shared_ptr<NumbersFile>& file) {
  CsvOptions options{.columns = infer_csv(posix_file_system(), file->path()), .components = {{"x"}}};
  for (std::size_t c = 0; c < options.columns.size(); ++c) options.components[0].columns.push_back(c);
  const auto source = std::make_shared<PipelineSource>(data::csv(file->path(), std::move(options)));
  return [file, source] {
    const auto reader = source->open({.batch = kBatch, .last = LastStep::keep});
    double sum = 0;
    const double seconds = seconds_of([&] {
      for (std::uint64_t step = 0; auto batch = reader->read(0, step, 0); ++step)
        sum += sum_of(batch->components[0].values<float>());
    });
    file->check(sum);
    return file->rows() / seconds;
  };
}

// All numbers of the text.
double parsed_alone(const NumbersFile& file) {
  const char* at = file.text().data();
  const char* const end = at + file.text().size();
  double sum = 0;
  const double seconds = seconds_of([&] {
    for (float number = 0; at < end; ++at) {  // over the separator
      at = std::from_chars(at, end, number).ptr;
      sum += static_cast<double>(number);
    }
  });
  file.check(sum);
  return file.rows() / seconds;
}

Case csv_case(bool alone) {
  return {.bench = "data",
          .name = alone ? "csv-digits" : "csv",
          .unit = "rows/s",
          .more_is_better = true,
          .measures = "a CSV file of 10^6 rows of 40 numbers, in batches f32 [128, 40], on one thread",
          .peer = alone ? "std::from_chars on the same digits in memory, nothing else (libstdc++'s is fast_float)"
                        : "tf.data: CsvDataset, batch; one thread",
          .ratio_target = alone ? 0.5 : 5,
          .prepare = [=](const Settings& settings) -> Contest {
            auto file = std::make_shared<NumbersFile>(settings.quick ? 1000 : 1'000'000);
            Contest contest{.troupe = rows_per_second(file), .peers = {}, .rounds = 1};
            if (alone) {
              contest.peers.push_back({"from_chars", [file] { return parsed_alone(*file); }});
            } else if (auto tensorflow =
                           script_peer({"data_tensorflow.py", {}}, {.model = "csv", .batch = kBatch, .epochs = 1},
                                       file->directory(), settings)) {
              contest.peers.push_back(std::move(*tensorflow));
            }
            return contest;
          }};
}

// All bytes of a file, in pieces.
double read_all(const std::string& path) {
  std::array<char, 256 << 10> buffer;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(Code::unavailable, "cannot read '{}'", path);
  double bytes = 0;
  for (ssize_t n = 0; (n = read(file, buffer.data(), buffer.size())) > 0;) bytes += static_cast<double>(n);
  close(file);
  return bytes;
}

Case records_case() {
  return {.bench = "data",
          .name = "records",
          .unit = "GB/s",
          .more_is_better = true,
          .measures = "records of a TFRecord file in the page cache, with their checksums, not parsed",
          .peer = "`read` of the same bytes, 256 KiB at a time",
          .ratio_target = 0.7,
          .prepare = [](const Settings& settings) -> Contest {
            auto files = std::make_shared<DigitFiles>(settings.quick ? 1000 : 60'000);
            return {.troupe =
                        [=] {
                          TfRecordStream stream(posix_file_system(), files->tfrecords());
                          std::uint64_t bytes = 0;
                          const double seconds = seconds_of([&] {
                            for (std::string_view record; stream.next(record);) bytes += record.size();
                          });
                          if (bytes != files->record_bytes()) fail(Code::internal, "{} bytes of records", bytes);
                          return static_cast<double>(stream.position()) / 1e9 / seconds;
                        },
                    .peers = {{"read", [=] {
                                 double bytes = 0;
                                 const double seconds = seconds_of([&] { bytes = read_all(files->tfrecords()); });
                                 return bytes / 1e9 / seconds;
                               }}}};
          }};
}

}  // namespace

void add_data_cases(std::vector<Case>& cases) {
  cases.push_back(pipeline_case("memory", "60,000 digits in memory, shuffled, in batches of 128, on one thread",
                                "tf.data: from_tensor_slices, shuffle, batch; one thread", 8, in_memory));
  cases.push_back(pipeline_case("tfrecord",
                                "60,000 tf.train.Examples of a TFRecord file, parsed, in batches of 128, on one thread",
                                "tf.data: TFRecordDataset, batch, parse_example; one thread", 2.5, of_examples));
  for (const bool alone : {false, true}) cases.push_back(csv_case(alone));
  cases.push_back(records_case());
}

}  // namespace troupe::bench
