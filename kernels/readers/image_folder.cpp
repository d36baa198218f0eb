#include "troupe/kernels/readers/image_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::array<std::string_view, 3> kImageEndings = {".jpg", ".jpeg", ".png"};
constexpr std::uint64_t kMaxImageFile = std::uint64_t{1} << 30;

bool names_image(std::string_view name) {
  const auto same = [](char a, char b) { return a == b || (a >= 'A' && a <= 'Z' && a - 'A' + 'a' == b); };
  return std::ranges::any_of(kImageEndings, [&](std::string_view ending) {
    return name.size() > ending.size() && std::ranges::equal(name.substr(name.size() - ending.size()), ending, same);
  });
}

}  // namespace

ImageFolder::ImageFolder(const std::string& directory, const ImageFolderOptions& options)
    : files_(options.files ? *options.files : file_system_of(directory)),
      directory_(directory),
      options_{.channels = options.channels, .max_pixels = options.max_pixels},
      decode_(options.decode) {
  if (options.channels != 1 && options.channels != 3)
    invalid_argument("{}: images of a folder have 1 or 3 channels, not {}", directory, options.channels);
  for (const DirectoryEntry& entry : files_.list(directory)) {
    if (!entry.is_directory || entry.name.starts_with('.')) continue;
    const auto label = static_cast<std::int64_t>(classes_.size());
    classes_.push_back(entry.name);
    for (DirectoryEntry& file : files_.list(join_path(directory, entry.name)))
      if (!file.is_directory && !file.name.starts_with('.') && names_image(file.name))
        images_.push_back({label, std::move(file.name)});
  }
  if (images_.empty())
    fail(Code::not_found, "{}: no images in its {} folders: looked for CLASS/NAME with .jpg, .jpeg or .png", directory,
         classes_.size());
}

std::string ImageFolder::path(std::uint64_t index) const {
  const Image& image = images_.at(index);
  return join_path(join_path(directory_, classes_[static_cast<std::size_t>(image.label)]), image.file);
}

std::vector<Tensor> ImageFolder::read(std::uint64_t index) const {
  const std::string file = path(index);
  const std::string bytes = read_file(files_, file, kMaxImageFile);
  return {decode_ ? decode_image(bytes, file, options_) : Tensor::scalar(bytes), Tensor::scalar(label(index))};
}

BatchSchema ImageFolder::schema() const {
  BatchComponent image{"image", DType::string, Shape{}};
  if (decode_) image = {"image", DType::u8, Shape{kUnknown, kUnknown, options_.channels}};
  return {std::move(image), {"label", DType::i64, Shape{}}};
}

data::Pipeline data::image_folder(std::shared_ptr<const ImageFolder> folder) {
  const std::string name = fmt::format("images {}", folder->directory());
  BatchSchema schema = folder->schema();
  return from_source(name, std::move(schema), std::shared_ptr<const IndexedSource>(std::move(folder)));
}

data::Pipeline data::image_folder(const std::string& directory, const ImageFolderOptions& options) {
  return image_folder(std::make_shared<const ImageFolder>(directory, options));
}

}  // namespace troupe
