#include "tests/chaos/tagged_records.hpp"

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/chaos/table_model.hpp"
#include <troupe/kernels/readers/example.hpp>
#include <troupe/kernels/readers/record_formats.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>

namespace troupe::chaos {
namespace {

constexpr std::int64_t kFiles = 5;

// Lives as long as the process: pipelines refer to it.
FileSystem& files_of(std::int64_t examples) {
  static testing::MemoryFileSystem files;
  const TensorDataset all = tagged_examples(examples);
  for (std::int64_t file = 0; file < kFiles; ++file) {
    const auto out = files.create(fmt::format("/tags-{}.tfrecord", file));
    TfRecordWriter writer(*out);
    for (std::int64_t i = file * examples / kFiles; i < (file + 1) * examples / kFiles; ++i) {
      std::vector<NamedTensor> example;
      for (std::size_t c = 0; c < all.tensors().size(); ++c) {
        const Shape& shape = all.schema()[c].shape;
        example.push_back({all.schema()[c].name, all.tensors()[c].rows(i, i + 1).reshaped(shape)});
      }
      writer.append(example_of(example));
    }
    writer.finish();
    out->close();
  }
  return files;
}

}  // namespace

PipelineSource tagged_records(std::int64_t examples, DataKind kind) {
  std::vector<ExampleFeature> features;
  const BatchSchema schema = tagged_examples(1).schema();
  for (const BatchComponent& component : schema)
    features.push_back({.name = component.name, .dtype = component.dtype, .shape = component.shape});
  const auto parser = std::make_shared<ExampleParser>(std::move(features));
  const data::Pipeline pipeline =
      data::records("/tags-*.tfrecord", tfrecord_format(), parser,
                    {.files = &files_of(examples), .addressable = kind == DataKind::records, .splits = {.cycle = 3}});
  if (kind == DataKind::records) return PipelineSource(pipeline.shuffle(5));
  const data::Pipeline even =
      pipeline.filter("even", [](const data::Element& e) { return e[1].item<std::int64_t>() % 2 == 0; });
  const data::Pipeline odd =
      pipeline.filter("odd", [](const data::Element& e) { return e[1].item<std::int64_t>() % 2 == 1; });
  return PipelineSource(even.shuffle(5, {.buffer = 100}).concatenate(odd).shuffle(6, {.buffer = 300}));
}

}  // namespace troupe::chaos
