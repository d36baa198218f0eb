// Folders of images, one for each class, as a pipeline's source:
//
//   const auto folder = std::make_shared<const ImageFolder>("flowers");  // flowers/rose/1.jpg, flowers/tulip/7.png
//   const auto flowers = data::image_folder(folder);                     // image u8[?,?,3], label i64[]
//   folder->classes();                                                   // rose, tulip: labels 0, 1
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/graph/data/pipeline.hpp>
#include <troupe/kernels/readers/image.hpp>

namespace troupe {

struct ImageFolderOptions {
  FileSystem* files = nullptr;  // null: by the path's scheme (file_system_of()); outlives the source
  int channels = 3;             // 1: grey, 3: RGB
  bool decode = true;           // false: elements have the bytes of files instead
  std::int64_t max_pixels = ImageOptions{}.max_pixels;
};

// The images that a folder's folders had when this was made. A folder is a class, also one without images; classes and
// the images of each are in the order of their names, as bytes. Images are files that end in .jpg, .jpeg or .png, in
// upper or lower case; other files, folders within a class, and names that begin with '.' are passed over.
class ImageFolder final : public data::IndexedSource {
 public:
  // Throws what FileSystem throws, not_found if there are no images, and invalid_argument for other channels.
  explicit ImageFolder(const std::string& directory, const ImageFolderOptions& options = {});

  std::uint64_t size() const override { return images_.size(); }
  // The image, or its file's bytes, and its label. Throws what decode_image() and FileSystem throw, naming the file.
  std::vector<Tensor> read(std::uint64_t index) const override;

  BatchSchema schema() const;  // image u8[?,?,channels], or string[] of bytes; label i64[]
  // By label.
  const std::vector<std::string>& classes() const { return classes_; }
  std::string path(std::uint64_t index) const;
  std::int64_t label(std::uint64_t index) const { return images_.at(index).label; }
  const std::string& directory() const { return directory_; }

 private:
  struct Image {
    std::int64_t label;
    std::string file;
  };
  FileSystem& files_;
  std::string directory_;
  ImageOptions options_;
  bool decode_;
  std::vector<std::string> classes_;
  std::vector<Image> images_;
};

namespace data {

Pipeline image_folder(std::shared_ptr<const ImageFolder> folder);
Pipeline image_folder(const std::string& directory, const ImageFolderOptions& options = {});

}  // namespace data

}  // namespace troupe
