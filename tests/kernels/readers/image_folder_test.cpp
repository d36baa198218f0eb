// Folders of images as sources of pipelines.
#include "troupe/kernels/readers/image_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include "tests/kernels/readers/image_files.hpp"
#include <troupe/scheduler/data/element_stream.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

class ImageFolderTest : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& bytes) {
    make_directories(files_, parent_path(path));
    files_.create(path);
    files_.content(path) = bytes;
  }
  // A grey image of one value.
  void put_png(const std::string& path, unsigned value, unsigned height = 2, unsigned width = 3) {
    put(path, png_file(std::vector<unsigned>(height * width, value), height, width, {.type = PNG_COLOR_TYPE_GRAY}));
  }

  MemoryFileSystem files_;
};

TEST_F(ImageFolderTest, FoldersAreClassesInTheOrderOfTheirNames) {
  put_png("/d/rose/b.PNG", 10);
  put_png("/d/rose/a.png", 20, 5, 4);
  put("/d/aster/x.JpEg", jpeg_file(std::vector<std::uint8_t>(12, 30), 2, 2));
  put_png("/d/tulip/1.png", 40);
  make_directories(files_, "/d/empty");
  put("/d/rose/notes.txt", "none");
  put_png("/d/rose/.hidden.png", 1);
  put_png("/d/rose/deeper/c.png", 1);
  put_png("/d/.cache/c.png", 1);
  put_png("/d/top.png", 1);
  const ImageFolder folder("/d", {.files = &files_});
  EXPECT_THAT(folder.classes(), ElementsAre("aster", "empty", "rose", "tulip"));
  ASSERT_EQ(folder.size(), 4u);
  EXPECT_EQ(folder.path(0), "/d/aster/x.JpEg");
  const std::vector<std::int64_t> labels = {0, 2, 2, 3};
  const std::vector<int> values = {30, 20, 10, 40};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::vector<Tensor> element = folder.read(i);
    ASSERT_EQ(element.size(), 2u);
    EXPECT_EQ(element[0].shape()[2], 3);
    for (const std::uint8_t x : element[0].values<std::uint8_t>()) EXPECT_EQ(x, values[i]);
    EXPECT_EQ(element[1].item<std::int64_t>(), labels[i]);
  }
  EXPECT_EQ(folder.read(1)[0].shape(), (Shape{5, 4, 3}));
}

TEST_F(ImageFolderTest, ItIsAnAddressablePipeline) {
  put_png("/d/a/1.png", 10);
  const data::Pipeline images = data::image_folder("/d", {.files = &files_, .channels = 1});
  EXPECT_TRUE(images.addressable());
  EXPECT_EQ(images.size(), 1u);
  EXPECT_EQ(to_string(images.schema()), "image u8[?,?,1], label i64[]");
  EXPECT_NO_THROW(data::check_element(*images.stage(), ImageFolder("/d", {.files = &files_, .channels = 1}).read(0)));
}

TEST_F(ImageFolderTest, BytesMayStayAsTheyAre) {
  put("/d/a/1.png", "not decoded");
  const data::Pipeline bytes = data::image_folder("/d", {.files = &files_, .decode = false});
  EXPECT_EQ(to_string(bytes.schema()), "image string[], label i64[]");
  EXPECT_EQ(ImageFolder("/d", {.files = &files_, .decode = false}).read(0)[0].item<std::string>(), "not decoded");
}

TEST_F(ImageFolderTest, ErrorsNameTheFile) {
  put("/d/a/1.png", "\x89PNG\r\n\x1a\n");
  put_png("/d/a/2.png", 1, 20, 20);
  const ImageFolder folder("/d", {.files = &files_, .max_pixels = 399});
  EXPECT_EQ(error_of([&] { folder.read(0); }).to_string(),
            "data_loss: /d/a/1.png: a damaged PNG image: the file ends early");
  EXPECT_THAT(error_of([&] { folder.read(1); }).to_string(), StartsWith("resource_exhausted: /d/a/2.png: "));
  EXPECT_EQ(error_of([&] { ImageFolder("/d", {.files = &files_, .channels = 0}); }).code(), Code::invalid_argument);
  EXPECT_EQ(error_of([&] { ImageFolder("/gone", {.files = &files_}); }).code(), Code::not_found);
}

TEST_F(ImageFolderTest, DamagedImagesAreLeftOutIfAskedFor) {
  put_png("/d/a/1.png", 10);
  put("/d/a/2.png", "\x89PNG\r\n\x1a\n");
  put_png("/d/b/3.png", 30);
  const auto stream = open_stream(data::image_folder("/d", {.files = &files_}).skip_damaged().stage());
  stream->start(0);
  EXPECT_EQ((*stream->next())[1].item<std::int64_t>(), 0);
  EXPECT_EQ((*stream->next())[1].item<std::int64_t>(), 1);
  EXPECT_FALSE(stream->next());
}

TEST_F(ImageFolderTest, WithoutImagesItSaysWhatItLookedFor) {
  put("/d/a/notes.txt", "none");
  put_png("/d/1.png", 1);
  EXPECT_EQ(error_of([&] { data::image_folder("/d", {.files = &files_}); }).to_string(),
            "not_found: /d: no images in its 1 folders: looked for CLASS/NAME with .jpg, .jpeg or .png");
}

}  // namespace
}  // namespace troupe::testing
