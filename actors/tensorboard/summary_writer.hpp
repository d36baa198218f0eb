// Summaries of a loop of one's own, to TensorBoard:
//
//   summary::Writer curves("/tmp/curves");
//   for (std::int64_t step = 0; step < 1000; ++step) {
//     const auto out = session.run(feeds, {loss, weights}, {train});
//     curves.scalar("loss", out[0].item<float>(), step);
//     if (step % 100 == 0) curves.histogram("weights", out[1], step);
//   }
//
// A layer or a program that `fit` trains has summaries in its graph: graph/builder/summary.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe::summary {

// Adds a file to the directory, which it creates if needed. Each call is visible to readers when it returns. Errors are
// those of FileSystem, and invalid_argument for other tensors. Not thread-safe.
class Writer {
 public:
  Writer(const std::string& directory, FileSystem& files);
  explicit Writer(const std::string& directory);  // files by the directory's scheme: file_system_of()
  ~Writer();
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;

  void scalar(const std::string& tag, double value, std::int64_t step);
  // Numbers of any shape; those that are not finite do not count.
  void histogram(const std::string& tag, const Tensor& values, std::int64_t step);
  // The first of [n, height, width, channels], u8 or floats in [0, 1]; 1 channel is grey, 2 grey and alpha, 3 RGB, 4
  // RGB and alpha.
  void image(const std::string& tag, const Tensor& images, std::int64_t step, int max_outputs = 3);
  void text(const std::string& tag, const std::string& markdown, std::int64_t step);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::summary
