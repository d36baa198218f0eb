#include "troupe/kernels/readers/npz.hpp"

#include <set>

#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/kernels/readers/npy.hpp>
#include <troupe/kernels/readers/zip.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::string_view kEnding = ".npy";

std::string member_name(const std::string& path, const std::string& member) { return path + ":" + member; }

}  // namespace

NpzFile::NpzFile(FileSystem& files, const std::string& path) : NpzFile(files.open(path), shown_path(path)) {}

NpzFile::NpzFile(std::unique_ptr<ReadableFile> file, std::string path)
    : path_(std::move(path)), file_(std::move(file)) {
  std::set<std::string> names;
  for (ZipEntry& entry : read_zip_directory(*file_, path_)) {
    if (!entry.name.ends_with(kEnding)) continue;
    if (!names.insert(entry.name).second)
      fail(Code::data_loss, "'{}': zip archive: '{}' comes twice", path_, entry.name);
    ZipMember member(*file_, entry, path_);
    const auto read = [&](std::span<std::byte> out) { member.read(out); };
    TensorInfo info = read_npy_header(read, entry.size, member_name(path_, entry.name)).info;
    info.name = entry.name.substr(0, entry.name.size() - kEnding.size());
    infos_.push_back(std::move(info));
    entries_.push_back(std::move(entry));
  }
}

NpzFile::NpzFile(NpzFile&&) noexcept = default;
NpzFile& NpzFile::operator=(NpzFile&&) noexcept = default;
NpzFile::~NpzFile() = default;

Tensor NpzFile::read(std::string_view name) {
  const ZipEntry& entry = entries_[index_of(infos_, name, path_)];
  const std::string what = member_name(path_, entry.name);
  ZipMember member(*file_, entry, path_);
  const auto read = [&](std::span<std::byte> out) { member.read(out); };
  const NpyHeader header = read_npy_header(read, entry.size, what);
  Tensor tensor = read_npy_elements(header, read, what);
  member.finish();
  return tensor;
}

void write_npz(FileSystem& files, const std::string& path, const TensorSource& source, NpzOptions options) {
  check_names(source.infos, path);
  std::vector<std::string> headers;
  for (const TensorInfo& info : source.infos) headers.push_back(npy_header(info, path));
  const auto write = [&](WritableFile& file) {
    ZipWriter zip(file, path, {.compress = options.compress, .wide = options.zip64});
    for (std::size_t i = 0; i < headers.size(); ++i) {
      const Tensor tensor = taken_from(source, i, path);
      zip.add(source.infos[i].name + std::string(kEnding), std::as_bytes(std::span(headers[i])),
              {tensor.raw(), tensor.num_bytes()});
    }
    zip.finish();
  };
  replace_file(files, path, write, temporary_suffix());
}

void write_npz(FileSystem& files, const std::string& path, std::span<const NamedTensor> tensors, NpzOptions options) {
  write_npz(files, path, TensorSource::of(tensors), options);
}

}  // namespace troupe
