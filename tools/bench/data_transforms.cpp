// Images and texts of files made ready for a model, beside tf.data and the library that decodes.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>
#include <utility>
// After <cstdio>, which it needs.
#include <jpeglib.h>

#include "tools/bench/cases.hpp"
#include "tools/bench/mnist_contest.hpp"
#include <troupe/devices/storage/file_system.hpp>
#include <troupe/graph/data/texts.hpp>
#include <troupe/kernels/images/transformations.hpp>
#include <troupe/kernels/readers/record_formats.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>
#include <troupe/scheduler/data/pipeline_source.hpp>
#include <troupe/scheduler/data/vocabulary.hpp>

namespace troupe::bench {
namespace {

constexpr int kImageBatch = 32, kTextBatch = 128;
constexpr std::int64_t kCompared = 8;  // batches that the script compares with its own, at most

// A folder of its own, removed in the end.
class Folder {
 public:
  Folder() : files_(Dataset{Tensor(DType::u8, Shape{0}), Tensor(DType::i32, Shape{0})}) {}
  const std::string& directory() const { return files_.directory(); }
  std::string path(const char* name) const { return directory() + "/" + name; }
  // What a pipeline's first batches have as component 0, one after the other.
  void write_expected(const data::Pipeline& pipeline, int batch) const {
    const PipelineSource source(pipeline);
    const auto reader = source.open({.batch = batch, .last = LastStep::keep});
    std::ofstream out(path("expected.bin"), std::ios::binary);
    for (std::uint64_t step = 0; step < kCompared; ++step)
      if (const auto made = reader->read(0, step, 0))
        out.write(reinterpret_cast<const char*>(made->components[0].raw()),
                  static_cast<std::streamsize>(made->components[0].num_bytes()));
    if (!out.flush()) fail(Code::unavailable, "cannot write to '{}'", directory());
  }

 private:
  ImageFiles files_;
};

// Elements per second of a pipeline, on this thread.
std::function<double()> elements_per_second(std::shared_ptr<const void> files, const data::Pipeline& pipeline,
                                            int batch, std::int64_t elements) {
  auto source = std::make_shared<PipelineSource>(pipeline);
  std::shared_ptr<BatchReader> reader = source->open({.batch = batch, .last = LastStep::keep});
  return [files = std::move(files), source, reader, elements, epoch = std::uint32_t{0}]() mutable {
    std::int64_t done = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t step = 0; const auto made = reader->read(epoch, step, 0); ++step) done += made->examples;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    ++epoch;
    if (done != elements) fail(Code::internal, "{} elements, expected {}", done, elements);
    return static_cast<double>(done) / seconds.count();
  };
}

// ---- Images

struct JpegErrors : jpeg_error_mgr {
  JpegErrors() {
    jpeg_std_error(this);
    error_exit = [](j_common_ptr) { std::abort(); };  // of files that this program wrote
  }
};

// Waves of colour with a grain: 375 rows of 500 pixels, about 80 KB at quality 90, as photographs have.
std::string drawn_jpeg(std::mt19937& random) {
  constexpr int kHeight = 375, kWidth = 500;
  std::uniform_real_distribution<float> uniform(0, 1);
  struct Wave {
    float y, x, phase, strength;
  };
  std::vector<Wave> waves;
  for (int i = 0; i < 8; ++i) {
    const float frequency = std::exp2(6 * uniform(random)) * 0.01f, angle = 6.28f * uniform(random);
    waves.push_back({frequency * std::sin(angle), frequency * std::cos(angle), 6.28f * uniform(random),
                     0.6f / (1 + 10 * frequency)});
  }
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < kWidth; ++x)
      for (int c = 0; c < 3; ++c) {
        float value = 128 + 40 * (uniform(random) - 0.5f);
        for (const Wave& w : waves)
          value +=
              100 * w.strength *
              std::sin(w.y * static_cast<float>(y) + w.x * static_cast<float>(x) + w.phase + static_cast<float>(c));
        pixels.push_back(static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f)));
      }
  JpegErrors errors;
  jpeg_compress_struct jpeg{};
  jpeg.err = &errors;
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_height = kHeight;
  jpeg.image_width = kWidth;
  jpeg.in_color_space = JCS_RGB;
  jpeg.input_components = 3;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 90, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  for (int y = 0; y < kHeight; ++y) {
    JSAMPROW row = pixels.data() + std::size_t{3} * kWidth * static_cast<unsigned>(y);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string out(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&jpeg);
  std::free(bytes);
  return out;
}

// JPEG images, in memory and as the records of a TFRecord file.
class Photos : public Folder {
 public:
  explicit Photos(int count) {
    std::mt19937 random(11);
    const auto file = posix_file_system().create(path("images.tfrecord"));
    TfRecordWriter writer(*file);
    std::vector<std::string> drawn;
    for (int i = 0; i < std::min(count, kDrawn); ++i) drawn.push_back(drawn_jpeg(random));
    for (int i = 0; i < count; ++i) {
      images_.push_back(drawn[static_cast<std::size_t>(i % kDrawn)]);
      writer.append(images_.back());
    }
    writer.finish();
    file->close();
  }
  const std::vector<std::string>& images() const { return images_; }
  data::Pipeline ready(double flips) const {
    return data::records(path("images.tfrecord"), tfrecord_format())
        .map(images::decode_and_resize("record", {224, 224}))
        .map(images::random_flip_left_right("record", 1, flips))
        .map(images::normalize("record", {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}))
        .batch(kImageBatch);
  }

 private:
  static constexpr int kDrawn = 32;  // different ones, again and again
  std::vector<std::string> images_;
};

// Images per second that libjpeg decodes to one buffer.
double decoded_alone(const Photos& photos) {
  std::vector<std::uint8_t> pixels;
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& image : photos.images()) {
    JpegErrors errors;
    jpeg_decompress_struct jpeg{};
    jpeg.err = &errors;
    jpeg_create_decompress(&jpeg);
    jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(image.data()), image.size());
    jpeg_read_header(&jpeg, TRUE);
    jpeg.out_color_space = JCS_RGB;
    jpeg_start_decompress(&jpeg);
    const std::size_t row_bytes = std::size_t{3} * jpeg.output_width;
    pixels.resize(row_bytes * jpeg.output_height);
    while (jpeg.output_scanline < jpeg.output_height) {
      JSAMPROW row = pixels.data() + row_bytes * jpeg.output_scanline;
      jpeg_read_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_decompress(&jpeg);
    jpeg_destroy_decompress(&jpeg);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(photos.images().size()) / seconds.count();
}

Case jpeg_case(bool alone) {
  return {
      .bench = "data",
      .name = alone ? "jpeg-decode" : "jpeg",
      .unit = "images/s",
      .more_is_better = true,
      .measures =
          "JPEG images of 500 x 375, 80 KB each, in a TFRecord file: read, decoded, resized to 224 x 224 (bilinear), "
          "flipped at random, normalised, in batches f32 [32, 224, 224, 3], on one thread",
      .peer = alone ? "libjpeg-turbo, only decoding of the same images in memory to one buffer"
                    : "tf.data: TFRecordDataset, decode_jpeg, resize, random_flip_left_right, batch; one thread",
      .ratio_target = alone ? 0.9 : 1.3,
      .prepare = [=](const Settings& settings) -> Contest {
        const int count = settings.quick ? 4 : 512;
        auto photos = std::make_shared<Photos>(count);
        Contest contest{.troupe = elements_per_second(photos, photos->ready(0.5), kImageBatch, count), .peers = {}};
        if (alone) {
          contest.peers.push_back({"libjpeg-turbo", [photos] { return decoded_alone(*photos); }});
          return contest;
        }
        photos->write_expected(photos->ready(0), kImageBatch);
        if (auto tensorflow =
                script_peer({"data_tensorflow.py", {}}, {.model = "jpeg", .batch = kImageBatch, .epochs = 1},
                            photos->directory(), settings))
          contest.peers.push_back(std::move(*tensorflow));
        return contest;
      }};
}

// ---- Texts

// Lines of 3 to 12 words with capitals and punctuation, words drawn as in English: the nth as 1 / n.
class Lines : public Folder {
 public:
  static constexpr std::int64_t kLength = 20;

  Lines(int count, const std::string& texts) {
    texts.empty() ? draw(count) : copy(texts);
    vocabulary_ = texts::learn_vocabulary(lines(), "record", {.most = 10'000});
    std::ofstream list(path("vocabulary.txt"), std::ios::binary);
    for (const std::string& word : vocabulary_) list << word << '\n';
    if (!list.flush()) fail(Code::unavailable, "cannot write to '{}'", directory());
  }
  int count() const { return count_; }
  data::Pipeline ready() const {
    return lines().map(texts::vectorize("record", vocabulary_, {.length = kLength})).batch(kTextBatch);
  }

 private:
  void copy(const std::string& texts) {
    std::ifstream in(texts, std::ios::binary);
    std::ofstream out(path("lines.txt"), std::ios::binary);
    for (std::string line; std::getline(in, line); ++count_) out << line << '\n';
    if (count_ == 0) fail(Code::not_found, "--texts: '{}' has no lines", texts);
    if (!out.flush()) fail(Code::unavailable, "cannot write to '{}'", directory());
  }
  void draw(int count) {
    count_ = count;
    std::mt19937 random(17);
    std::vector<std::string> words;
    std::vector<double> weights;
    for (int i = 0; i < 20'000; ++i) {
      std::string word;
      for (unsigned n = 2 + random() % 8; n > 0; --n) word += static_cast<char>('a' + random() % 26);
      words.push_back(word);
      weights.push_back(1.0 / (i + 1));
    }
    std::discrete_distribution<std::size_t> rank(weights.begin(), weights.end());
    std::ofstream out(path("lines.txt"), std::ios::binary);
    for (int i = 0; i < count; ++i) {
      std::string line;
      for (unsigned n = 3 + random() % 10; n > 0; --n)
        line += words[rank(random)] + (n == 1 ? "." : random() % 8 == 0 ? ", " : " ");
      line[0] = static_cast<char>(line[0] - 'a' + 'A');
      out << line << '\n';
    }
    if (!out.flush()) fail(Code::unavailable, "cannot write to '{}'", directory());
  }
  data::Pipeline lines() const { return data::records(path("lines.txt"), lines_format()); }

  int count_ = 0;
  std::vector<std::string> vocabulary_;
};

Case text_case() {
  return {.bench = "data",
          .name = "text",
          .unit = "texts/s",
          .more_is_better = true,
          .measures =
              "lines of 7 words in a file: read, lower case, without punctuation, split, looked up in 10,000 "
              "words, in batches i64 [128, 20], on one thread",
          .peer = "tf.data: TextLineDataset, batch, keras.layers.TextVectorization; one thread",
          .ratio_target = 4,
          .prepare = [](const Settings& settings) -> Contest {
            auto lines = std::make_shared<Lines>(settings.quick ? 1000 : 100'000, settings.texts);
            lines->write_expected(lines->ready(), kTextBatch);
            Contest contest{.troupe = elements_per_second(lines, lines->ready(), kTextBatch, lines->count()),
                            .peers = {}};
            if (auto tensorflow =
                    script_peer({"data_tensorflow.py", {}}, {.model = "text", .batch = kTextBatch, .epochs = 1},
                                lines->directory(), settings))
              contest.peers.push_back(std::move(*tensorflow));
            return contest;
          }};
}

}  // namespace

void add_data_transform_cases(std::vector<Case>& cases) {
  for (const bool alone : {false, true}) cases.push_back(jpeg_case(alone));
  cases.push_back(text_case());
}

}  // namespace troupe::bench
