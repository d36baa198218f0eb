// Data pipelines in Python: sources in files, and functions of images and texts that are C++.
#include <nanobind/stl/pair.h>

#include "apps/python/pipelines.hpp"
#include <troupe/graph/data/texts.hpp>
#include <troupe/kernels/images/transformations.hpp>
#include <troupe/kernels/readers/array_files.hpp>
#include <troupe/kernels/readers/example.hpp>
#include <troupe/kernels/readers/image_folder.hpp>
#include <troupe/kernels/readers/json_lines.hpp>
#include <troupe/kernels/readers/record_formats.hpp>
#include <troupe/scheduler/data/vocabulary.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;
using released = nb::call_guard<nb::gil_scoped_release>;

// Files are found and their first rows read when a pipeline is made.
struct FileOptions {
  bool addressable = false, skip_damaged = false;
  data::FilesOptions files() const { return {.addressable = addressable}; }
  RecordOptions records() const { return {.skip_damaged = skip_damaged}; }
};
using Paths = std::vector<std::string>;

// One path may be a pattern.
PyPipeline records(const Paths& paths, const RecordFormat& format, std::shared_ptr<const RecordParser> parser,
                   const FileOptions& options) {
  if (paths.size() == 1) return PyPipeline(data::records(paths[0], format, std::move(parser), options.files()));
  return PyPipeline(data::records(paths, format, std::move(parser), options.files()));
}

// (name, dtype, shape, in place of a missing value)
using Features = std::vector<std::tuple<std::string, std::string, Dims, std::optional<Tensor>>>;
// (name, index features, value feature, dtype, shape)
using SparseFeatures =
    std::vector<std::tuple<std::string, std::vector<std::string>, std::string, std::string, std::vector<std::int64_t>>>;
std::shared_ptr<const RecordParser> example_parser(const std::optional<Features>& features,
                                                   const SparseFeatures& sparse) {
  if (!features) return nullptr;
  std::vector<ExampleFeature> out;
  for (const auto& [name, dtype, dims, otherwise] : *features)
    out.push_back({name, dtype_named(dtype), shape_of_dims(dims), otherwise.value_or(Tensor())});
  std::vector<ExampleSparseFeature> sparse_out;
  for (const auto& [name, indices, values, dtype, dims] : sparse)
    sparse_out.push_back({name, indices, values, dtype_named(dtype), Shape(std::span<const std::int64_t>(dims))});
  return std::make_shared<const ExampleParser>(std::move(out), std::move(sparse_out));
}

PyPipeline tfrecord(const Paths& paths, const std::optional<Features>& features, const SparseFeatures& sparse,
                    bool addressable, bool skip_damaged) {
  const FileOptions options{addressable, skip_damaged};
  return records(paths, tfrecord_format(options.records()), example_parser(features, sparse), options);
}

using Fields = std::vector<std::tuple<std::string, std::string, Dims, std::optional<std::string>>>;
PyPipeline json_lines(const Paths& paths, const Fields& fields, bool addressable, bool skip_damaged) {
  const FileOptions options{addressable, skip_damaged};
  std::vector<JsonField> out;
  for (const auto& [name, dtype, dims, fallback] : fields)
    out.push_back({name, dtype_named(dtype), shape_of_dims(dims), fallback});
  return records(paths, lines_format({.records = options.records(), .skip_empty = true}),
                 std::make_shared<const JsonLinesParser>(std::move(out)), options);
}

PyPipeline text_lines(const Paths& paths, bool skip_empty, bool addressable) {
  return records(paths, lines_format({.skip_empty = skip_empty}), nullptr, {.addressable = addressable});
}

PyPipeline fixed_records(const Paths& paths, std::uint64_t record_bytes, std::uint64_t header_bytes,
                         std::uint64_t footer_bytes, bool addressable) {
  return records(
      paths, fixed_format({.record_bytes = record_bytes, .header_bytes = header_bytes, .footer_bytes = footer_bytes}),
      nullptr, {.addressable = addressable});
}

PyPipeline csv(const Paths& paths, const std::string& separator, bool quotes, bool header,
               const std::optional<std::vector<std::pair<std::string, std::string>>>& columns, bool addressable,
               bool skip_damaged) {
  if (separator.size() != 1) invalid_argument("csv: a separator is one character, not '{}'", separator);
  const FileOptions options{addressable, skip_damaged};
  CsvOptions csv{.format = {.separator = separator[0], .quote = quotes ? '"' : '\0', .header = header},
                 .records = options.records()};
  if (columns)
    for (const auto& [name, dtype] : *columns)
      csv.columns.push_back({name, dtype.empty() ? DType::invalid : dtype_named(dtype), std::nullopt});
  if (paths.size() == 1) return PyPipeline(data::csv(paths[0], std::move(csv), options.files()));
  return PyPipeline(data::csv(paths, std::move(csv), options.files()));
}

PyPipeline image_folder(const std::string& directory, int channels, bool decode) {
  return PyPipeline(data::image_folder(directory, {.channels = channels, .decode = decode}));
}

std::vector<std::string> image_classes(const std::string& directory) { return ImageFolder(directory).classes(); }

images::Interpolation interpolation_named(const std::string& text) {
  using images::Interpolation;
  for (const auto i : {Interpolation::nearest, Interpolation::bilinear, Interpolation::area})
    if (name(i) == text) return i;
  invalid_argument("'{}' is no interpolation: use nearest, bilinear or area", text);
}

using PySize = std::pair<std::int64_t, std::int64_t>;
images::Size size_of(const PySize& size) { return {size.first, size.second}; }
images::ResizeOptions resize_options(const std::string& interpolation, bool antialias) {
  return {.interpolation = interpolation_named(interpolation), .antialias = antialias};
}

void bind_image_transformations(nb::module_& m) {
  using Text = const std::string&;
  m.def("images_decode", [](Text c, int channels) { return images::decode(c, {.channels = channels}); });
  m.def("images_decode_and_resize", [](Text c, PySize size, Text interpolation, bool antialias, int channels) {
    return images::decode_and_resize(c, size_of(size), resize_options(interpolation, antialias),
                                     {.channels = channels});
  });
  m.def("images_resize", [](Text c, PySize size, Text interpolation, bool antialias) {
    return images::resize(c, size_of(size), resize_options(interpolation, antialias));
  });
  m.def("images_center_crop", [](Text c, PySize size) { return images::center_crop(c, size_of(size)); });
  m.def("images_pad",
        [](Text c, std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right, float value) {
          return images::pad(c, {.top = top, .bottom = bottom, .left = left, .right = right}, value);
        });
  m.def("images_rgb_to_grayscale", [](Text c) { return images::rgb_to_grayscale(c); });
  m.def("images_normalize", [](Text c, const std::vector<float>& mean, const std::vector<float>& std) {
    return images::normalize(c, mean, std);
  });
  m.def("images_random_crop",
        [](Text c, PySize size, std::uint64_t seed) { return images::random_crop(c, size_of(size), seed); });
  m.def("images_random_resized_crop", [](Text c, PySize size, std::uint64_t seed, std::pair<double, double> area,
                                         std::pair<double, double> aspect, Text interpolation, bool antialias) {
    return images::random_resized_crop(c, size_of(size), seed,
                                       {.least_area = area.first,
                                        .most_area = area.second,
                                        .least_aspect = aspect.first,
                                        .most_aspect = aspect.second,
                                        .resize = resize_options(interpolation, antialias)});
  });
  m.def("images_random_flip_left_right", &images::random_flip_left_right);
  m.def("images_random_flip_up_down", &images::random_flip_up_down);
  m.def("images_random_rotation", &images::random_rotation);
  m.def("images_random_brightness", &images::random_brightness);
  m.def("images_random_hue", &images::random_hue);
  m.def("images_random_contrast", &images::random_contrast);
  m.def("images_random_saturation", &images::random_saturation);
}

texts::WordOptions word_options(bool lower, bool strip_punctuation, const std::string& separator, bool characters,
                                std::int64_t ngrams) {
  return {.lower = lower,
          .strip_punctuation = strip_punctuation,
          .separator = separator,
          .characters = characters,
          .ngrams = ngrams};
}

texts::VectorOutput vector_output(const std::string& text) {
  if (text == "ids") return texts::VectorOutput::ids;
  if (text == "multi_hot") return texts::VectorOutput::multi_hot;
  if (text == "count") return texts::VectorOutput::count;
  invalid_argument("'{}' is no output of vectorize: use ids, multi_hot or count", text);
}

void bind_text_transformations(nb::module_& m) {
  using Text = const std::string&;
  m.def("texts_standardize", [](Text c, bool lower, bool strip) {
    return texts::standardize(c, {.lower = lower, .strip_punctuation = strip});
  });
  m.def("texts_split", [](Text c, bool lower, bool strip, Text separator, bool characters, std::int64_t ngrams) {
    return texts::split(c, word_options(lower, strip, separator, characters, ngrams));
  });
  m.def("texts_lookup", &texts::lookup);
  m.def("texts_vectorize", [](Text c, const texts::Vocabulary& words, Text output, std::int64_t length, bool lower,
                              bool strip, Text separator, bool characters, std::int64_t ngrams) {
    return texts::vectorize(c, words,
                            {.output = vector_output(output),
                             .length = length,
                             .lower = lower,
                             .strip_punctuation = strip,
                             .separator = separator,
                             .characters = characters,
                             .ngrams = ngrams});
  });
  m.def(
      "texts_learn_vocabulary",
      [](const PyPipeline& p, Text c, std::size_t most, bool lower, bool strip, Text separator, bool characters,
         std::int64_t ngrams) {
        return texts::learn_vocabulary(
            p.pipeline, c, {.most = most, .words = word_options(lower, strip, separator, characters, ngrams)});
      },
      released());
}

}  // namespace

void bind_data_files(nb::module_& m) {
  m.def("pipeline_tfrecord", &tfrecord, "paths"_a, "features"_a.none(), "sparse"_a, "addressable"_a, "skip_damaged"_a,
        released());
  m.def("pipeline_json_lines", &json_lines, released());
  m.def("pipeline_text_lines", &text_lines, released());
  m.def("pipeline_fixed_records", &fixed_records, released());
  m.def("pipeline_csv", &csv, "paths"_a, "separator"_a, "quotes"_a, "header"_a, "columns"_a.none(), "addressable"_a,
        "skip_damaged"_a, released());
  m.def(
      "pipeline_npy",
      [](const std::string& pattern, const std::string& component) {
        return PyPipeline(data::npy(pattern, {.component = component}));
      },
      released());
  m.def(
      "pipeline_npz",
      [](const std::string& pattern, const std::vector<std::string>& arrays) {
        return PyPipeline(data::npz(pattern, {.arrays = arrays}));
      },
      released());
  m.def(
      "pipeline_idx",
      [](const std::vector<std::pair<std::string, std::string>>& components) {
        return PyPipeline(data::idx(components));
      },
      released());
  m.def("pipeline_image_folder", &image_folder, released());
  m.def("image_classes", &image_classes, released());
  bind_image_transformations(m);
  bind_text_transformations(m);
}

}  // namespace troupe::python
