#include "tests/fuzz/tensor_files_fuzz.hpp"

#include <cstdio>
#include <cstdlib>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include <troupe/kernels/readers/npy.hpp>
#include <troupe/kernels/readers/npz.hpp>
#include <troupe/kernels/readers/safetensors.hpp>

namespace troupe {
namespace {

using testing::MemoryFileSystem;

constexpr char kFormats = 3;
constexpr const char* kPath = "/f";

void promise_of_readers(bool kept, const char* what, const std::string& why) {
  if (kept) return;
  std::fprintf(stderr, "broken promise of a reader of tensors: %s: %s\n", what, why.c_str());
  std::abort();
}

std::vector<NamedTensor> read_tensors_as(MemoryFileSystem& files, int format) {
  std::vector<NamedTensor> out;
  const auto read_each = [&](auto& file) {
    for (const TensorInfo& info : file.tensors()) out.push_back({info.name, file.read(info.name)});
  };
  if (format == 0) {
    SafetensorsFile file(files, kPath);
    read_each(file);
  } else if (format == 1) {
    NpzFile file(files, kPath);
    read_each(file);
  } else {
    out.push_back({"", read_npy(files, kPath)});
  }
  return out;
}

void write_tensors_as(MemoryFileSystem& files, int format, const std::vector<NamedTensor>& tensors) {
  if (format == 0) {
    write_safetensors(files, kPath, tensors);
  } else if (format == 1) {
    write_npz(files, kPath, tensors);
  } else {
    write_npy(files, kPath, tensors[0].tensor);
  }
}

bool is_error_of_reader(Code code) {
  return code == Code::data_loss || code == Code::unimplemented || code == Code::resource_exhausted;
}

}  // namespace

std::size_t read_tensors_of_stranger(std::string_view input) {
  if (input.empty()) return 0;
  const int format = static_cast<unsigned char>(input[0]) % kFormats;
  MemoryFileSystem files;
  files.create(kPath);
  files.content(kPath) = input.substr(1);
  std::vector<NamedTensor> tensors;
  try {
    tensors = read_tensors_as(files, format);
  } catch (const Error& error) {
    promise_of_readers(is_error_of_reader(error.code()), "errors are of three codes", error.to_string());
    promise_of_readers(!error.message().empty(), "errors say what is wrong", "");
    return 0;
  }
  try {
    write_tensors_as(files, format, tensors);
    const std::vector<NamedTensor> again = read_tensors_as(files, format);
    promise_of_readers(again.size() == tensors.size(), "what is written is read", "another number of tensors");
    for (const NamedTensor& t : again)
      promise_of_readers(
          std::any_of(tensors.begin(), tensors.end(),
                      [&](const NamedTensor& u) { return u.name == t.name && bitwise_equal(u.tensor, t.tensor); }),
          "what is written is read", t.name);
  } catch (const Error& error) {
    promise_of_readers(false, "tensors that are read can be written and read", error.to_string());
  }
  return tensors.size();
}

std::vector<std::string> tensor_file_seeds() {
  std::vector<std::string> out;
  const std::vector<NamedTensor> tensors = {{"weights", Tensor::of<float>(Shape{2, 3}, {1, 2, 3, 4, 5, 6})},
                                            {"bits", Tensor::vector<bool>({true, false})},
                                            {"count", Tensor::scalar<std::int64_t>(7)}};
  const auto seed = [&](char format, auto&& write) {
    MemoryFileSystem files;
    write(files);
    out.push_back(std::string(1, format) + files.content(kPath));
  };
  seed(0, [&](FileSystem& files) { write_safetensors(files, kPath, tensors, {{"format", "pt"}}); });
  for (const bool compress : {false, true})
    for (const bool zip64 : {false, true})
      seed(1, [&](FileSystem& files) { write_npz(files, kPath, tensors, {.compress = compress, .zip64 = zip64}); });
  seed(2, [&](FileSystem& files) { write_npy(files, kPath, tensors[0].tensor); });
  return out;
}

}  // namespace troupe
