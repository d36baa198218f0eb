#include "tests/fuzz/records_fuzz.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include <troupe/kernels/readers/example.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using testing::MemoryFileSystem;

constexpr int kRecordKinds = 3;
constexpr const char* kRecords = "/records";

void promise_of_records(bool kept, const char* what, const std::string& why) {
  if (kept) return;
  std::fprintf(stderr, "broken promise of a reader of records: %s: %s\n", what, why.c_str());
  std::abort();
}

// Checks an error that bytes may cause.
void check_damage(const Error& error) {
  promise_of_records(error.code() == Code::data_loss, "damage is data_loss", error.to_string());
  promise_of_records(error.message().starts_with(kRecords) && error.message().find("byte ") != std::string::npos,
                     "errors name the file and the offset", error.to_string());
}

// A value of each dtype, in each form.
const ExampleParser& wanted_features() {
  static const ExampleParser parser(
      {{.name = "f", .shape = {2}, .otherwise = Tensor::vector<float>({1, 2})},
       {.name = "i", .dtype = DType::i64, .shape = {kUnknown, 3}, .otherwise = Tensor(DType::i64, Shape{0, 3})},
       {.name = "s", .dtype = DType::string, .shape = {1}, .otherwise = Tensor::vector<std::string>({""})},
       {.name = "u", .dtype = DType::u8, .shape = {kUnknown}, .otherwise = Tensor(DType::u8, Shape{0})},
       {.name = "l", .dtype = DType::i64}});
  return parser;
}

const ExampleParser& fixed_features() {
  static const ExampleParser parser({{.name = "f", .shape = {2}, .otherwise = Tensor::vector<float>({1, 2})},
                                     {.name = "l", .dtype = DType::i64},
                                     {.name = "s", .dtype = DType::string, .shape = {1}},
                                     {.name = "u", .dtype = DType::u8, .shape = {3}}});
  return parser;
}

const ExampleParser& sparse_features() {
  static const ExampleParser parser(
      {}, {{.name = "v", .index_features = {"i"}, .value_feature = "f", .shape = {100}},
           {.name = "m", .index_features = {"i", "l"}, .value_feature = "s", .dtype = DType::string, .shape = {4, 5}}});
  return parser;
}

// Places of what is read ascend, inside of the shape.
void check_places(const Tensor& indices, const Tensor& values, const Tensor& shape) {
  const std::int64_t rank = shape.num_elements();
  const auto places = indices.values<std::int64_t>(), dims = shape.values<std::int64_t>();
  promise_of_records(std::ssize(places) == rank * values.num_elements(), "each value has a place", "another number");
  std::int64_t before = -1;
  for (std::int64_t i = 0; i < values.num_elements(); ++i) {
    std::int64_t place = 0;
    for (std::int64_t d = 0; d < rank; ++d) {
      const std::int64_t index = places[static_cast<std::size_t>(i * rank + d)];
      const std::int64_t size = dims[static_cast<std::size_t>(d)];
      promise_of_records(index >= 0 && index < size, "indices are inside of the shape", std::to_string(index));
      place = place * size + index;
    }
    promise_of_records(place > before, "places ascend", std::to_string(place));
    before = place;
  }
}

bool parse_example_of_stranger(std::string_view record, std::uint64_t offset) {
  const RecordPlace place{.file = kRecords, .offset = offset};
  try {
    std::vector<Tensor> row;
    for (const BatchComponent& c : fixed_features().schema()) row.push_back(Tensor::zeros(c.dtype, c.batch_shape(1)));
    fixed_features().parse(record, place, 0, row);
  } catch (const Error& error) {
    check_damage(error);
  }
  try {
    static_cast<void>(wanted_features().parse(record, place));
  } catch (const Error& error) {
    check_damage(error);
  }
  try {
    const std::vector<Tensor> parts = sparse_features().parse(record, place);
    check_places(parts[0], parts[1], parts[2]);
    check_places(parts[3], parts[4], parts[5]);
  } catch (const Error& error) {
    check_damage(error);
  }
  std::vector<NamedTensor> found;
  try {
    const std::vector<ExampleFeature> features = infer_example(record, place);
    if (features.empty()) return true;
    const std::vector<Tensor> tensors = ExampleParser(features).parse(record, place);
    for (std::size_t i = 0; i < features.size(); ++i) found.push_back({features[i].name, tensors[i]});
  } catch (const Error& error) {
    check_damage(error);
    return false;
  }
  try {
    const std::string again = example_of(found);
    const std::vector<Tensor> tensors = ExampleParser(infer_example(again, place)).parse(again, place);
    promise_of_records(tensors.size() == found.size(), "Examples are written and read", "another number of features");
    for (std::size_t i = 0; i < found.size(); ++i)
      promise_of_records(bitwise_equal(tensors[i], found[i].tensor), "Examples are written and read", found[i].name);
  } catch (const Error& error) {
    promise_of_records(false, "what is read can be written and read", error.to_string());
  }
  return true;
}

struct FoundRecord {
  std::uint64_t position = 0;
  std::string data{};
};

// Up to the first damage, or without what is damaged.
std::vector<FoundRecord> found_records(MemoryFileSystem& files, bool skip_damaged) {
  TfRecordStream stream(files, kRecords, {.skip_damaged = skip_damaged, .most_bytes = 1 << 20});
  std::vector<FoundRecord> out;
  try {
    std::string_view record;
    for (std::uint64_t at = stream.position(); stream.next(record); at = stream.position())
      out.push_back({at, std::string(record)});
  } catch (const Error& error) {
    check_damage(error);
    promise_of_records(!skip_damaged, "damaged records are left out", error.to_string());
  }
  return out;
}

std::size_t read_tfrecords_of_stranger(std::string bytes) {
  MemoryFileSystem files;
  files.create(kRecords);
  files.content(kRecords) = std::move(bytes);
  const auto strict = found_records(files, false), all = found_records(files, true);
  promise_of_records(strict.size() <= all.size(), "damaged records are left out", "and good ones with them");
  for (std::size_t i = 0; i < strict.size(); ++i)
    promise_of_records(strict[i].data == all[i].data, "damaged records are left out", "in front of them, too");
  for (const FoundRecord& record : strict) static_cast<void>(parse_example_of_stranger(record.data, record.position));
  if (!strict.empty()) {
    TfRecordStream stream(files, kRecords);
    std::string_view record;
    stream.seek(strict.back().position);
    promise_of_records(stream.next(record) && record == strict.back().data, "records are found at their positions", "");
  }
  for (const bool gzip : {false, true}) {
    const auto file = files.create(kRecords);
    TfRecordWriter writer(*file, {.gzip = gzip});
    for (const FoundRecord& record : all) writer.append(record.data);
    writer.finish();
    const auto again = found_records(files, false);
    promise_of_records(again.size() == all.size(), "what is written is read", "another number of records");
    for (std::size_t i = 0; i < all.size(); ++i)
      promise_of_records(again[i].data == all[i].data, "what is written is read", "another record");
  }
  return all.size();
}

std::string with_right_checksums(std::string bytes) {
  const auto put_checksum = [&](std::size_t at, std::string_view of) {
    const std::uint32_t crc = masked_crc32c(of);
    std::memcpy(bytes.data() + at, &crc, sizeof crc);
  };
  for (std::size_t at = 0; bytes.size() - at >= 16;) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    put_checksum(at + 8, std::string_view(bytes).substr(at, 8));
    if (length > bytes.size() - at - 16) break;
    put_checksum(at + 12 + length, std::string_view(bytes).substr(at + 12, length));
    at += 16 + length;
  }
  return bytes;
}

}  // namespace

std::size_t read_records_of_stranger(std::string_view input) {
  if (input.empty()) return 0;
  const int kind = static_cast<unsigned char>(input[0]) % kRecordKinds;
  input.remove_prefix(1);
  if (kind == 2) return parse_example_of_stranger(input, 0) ? 1 : 0;
  return read_tfrecords_of_stranger(kind == 1 ? with_right_checksums(std::string(input)) : std::string(input));
}

std::vector<std::string> record_seeds() {
  const std::string example = example_of(
      std::vector<NamedTensor>{{"f", Tensor::vector<float>({0.5, -2})},
                               {"i", Tensor::vector<std::int64_t>({1, 300, -1, 0, 7, std::int64_t{1} << 62})},
                               {"l", Tensor::scalar<std::int64_t>(3)},
                               {"s", Tensor::vector<std::string>({"text"})},
                               {"u", Tensor::scalar<std::string>("abc")}});
  const std::string places = example_of(std::vector<NamedTensor>{{"f", Tensor::vector<float>({0.5, -2, 3})},
                                                                 {"i", Tensor::vector<std::int64_t>({3, 0, 1})},
                                                                 {"l", Tensor::vector<std::int64_t>({4, 2, 0})},
                                                                 {"s", Tensor::vector<std::string>({"a", "b", ""})}});
  const std::string unpacked("\x0a\x12\x0a\x10\x0a\x01l\x12\x0b\x1a\x09\x08\x05\x08\xac\x02\x0a\x02\x06\x07", 20);
  std::vector<std::string> out;
  for (const std::string& record : {example, unpacked, places}) out.push_back('\2' + record);
  for (const bool gzip : {false, true}) {
    MemoryFileSystem files;
    const auto file = files.create(kRecords);
    TfRecordWriter writer(*file, {.gzip = gzip});
    for (const std::string& record : {example, std::string(), unpacked}) writer.append(record);
    writer.finish();
    for (const char kind : {'\0', '\1'})
      if (!gzip || kind == 0) out.push_back(kind + files.content(kRecords));
  }
  return out;
}

}  // namespace troupe
