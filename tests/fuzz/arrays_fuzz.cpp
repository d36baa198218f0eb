#include "tests/fuzz/arrays_fuzz.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/kernels/readers/compressed.hpp"
#include <troupe/kernels/readers/array_files.hpp>
#include <troupe/kernels/readers/npy.hpp>
#include <troupe/kernels/readers/npz.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using testing::MemoryFileSystem;
using Element = std::vector<Tensor>;

constexpr int kArrayKinds = 3;
constexpr const char* kArrays = "/arrays";
constexpr std::uint64_t kMostArrayRows = 500;  // a compressed file may have many

void promise_of_arrays(bool kept, const char* what, const std::string& why) {
  if (kept) return;
  std::fprintf(stderr, "broken promise of a reader of arrays: %s: %s\n", what, why.c_str());
  std::abort();
}

// Errors that bytes may cause.
void check_array_error(const Error& error) {
  const Code code = error.code();
  promise_of_arrays(code == Code::data_loss || code == Code::unimplemented || code == Code::resource_exhausted ||
                        code == Code::invalid_argument,
                    "errors are of four codes", error.to_string());
  promise_of_arrays(!error.message().empty(), "errors say what is wrong", "");
}

data::Pipeline open_arrays(MemoryFileSystem& files, int kind) {
  const data::ArrayOptions options{.files = &files};
  if (kind == 0) return data::npy(kArrays, options);
  if (kind == 1) return data::npz(kArrays, options);
  return data::idx({{"x", kArrays}}, options);
}

// The array as a whole, as the reader of tensors has it; invalid: it is not read so.
Tensor whole_array(MemoryFileSystem& files, int kind, const std::string& name) {
  try {
    if (kind == 0) return read_npy(files, kArrays);
    if (kind == 1) return NpzFile(files, kArrays).read(name);
  } catch (const Error&) {
  }
  return {};
}

std::vector<Element> rows_of_stranger(const data::Pipeline& pipeline) {
  std::vector<Element> rows;
  if (pipeline.addressable()) {
    const auto& source = *std::get<data::IndexedStage>(pipeline.stage()->kind).source;
    for (std::uint64_t i = 0; i < std::min(source.size(), kMostArrayRows); ++i) rows.push_back(source.read(i));
    if (!rows.empty()) {
      const Element again = source.read(rows.size() / 2);
      for (std::size_t i = 0; i < again.size(); ++i)
        promise_of_arrays(bitwise_equal(again[i], rows[rows.size() / 2][i]), "rows have numbers", "");
    }
    return rows;
  }
  const auto& source = *std::get<data::SplitsStage>(pipeline.stage()->kind).source;
  const auto cursor = source.open(0);
  Element element;
  while (rows.size() < kMostArrayRows && cursor->next(element)) rows.push_back(element);
  if (rows.empty()) return rows;
  cursor->seek(rows.size() / 2);
  promise_of_arrays(cursor->next(element), "cursors go to positions", "it has ended");
  for (std::size_t i = 0; i < element.size(); ++i)
    promise_of_arrays(bitwise_equal(element[i], rows[rows.size() / 2][i]), "cursors go to positions", "");
  return rows;
}

}  // namespace

std::size_t read_arrays_of_stranger(std::string_view input) {
  if (input.empty()) return 0;
  const int kind = static_cast<unsigned char>(input[0]) % kArrayKinds;
  MemoryFileSystem files;
  files.create(kArrays);
  files.content(kArrays) = input.substr(1);
  std::vector<Element> rows;
  BatchSchema schema;
  try {
    const data::Pipeline pipeline = open_arrays(files, kind);
    schema = pipeline.schema();
    rows = rows_of_stranger(pipeline);
  } catch (const Error& error) {
    check_array_error(error);
    return 0;
  }
  for (std::size_t c = 0; c < schema.size(); ++c) {
    const Tensor whole = whole_array(files, kind, schema[c].name);
    if (!whole.valid()) continue;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      promise_of_arrays(bitwise_equal(whole.rows(row, row + 1).reshaped(schema[c].shape), rows[i][c]),
                        "rows are those of the array", schema[c].name);
    }
  }
  return rows.size();
}

std::vector<std::string> array_seeds() {
  const std::vector<NamedTensor> tensors = {{"x", Tensor::of<float>(Shape{2, 3}, {1, 2, 3, 4, 5, 6})},
                                            {"bits", Tensor::vector<bool>({true, false})}};
  MemoryFileSystem files;
  std::vector<std::string> out;
  write_npy(files, kArrays, tensors[0].tensor);
  out.push_back('\0' + files.content(kArrays));
  out.push_back('\0' + testing::gzip(files.content(kArrays)));
  std::string columns = out[0];
  columns.replace(columns.find("False"), 5, "True ");
  columns.replace(columns.find('<'), 1, ">");
  out.push_back(columns);
  for (const bool compress : {false, true}) {
    write_npz(files, kArrays, tensors, {.compress = compress});
    out.push_back('\1' + files.content(kArrays));
  }
  const std::string idx("\0\0\x0b\2\0\0\0\2\0\0\0\2\1\2\3\4\5\6\7\x08", 20);
  out.push_back('\2' + idx);
  out.push_back('\2' + testing::gzip(idx));
  out.push_back('\2' + testing::zstd(idx));
  return out;
}

}  // namespace troupe
