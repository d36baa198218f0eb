#include "troupe/actors/tensorboard/summary_writer.hpp"

#include <chrono>

#include <troupe/actors/tensorboard/event_file.hpp>
#include <troupe/actors/tensorboard/summary_values.hpp>
#include <troupe/devices/storage/file_systems.hpp>

namespace troupe::summary {
namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

class Writer::Impl {
 public:
  Impl(FileSystem& files, const std::string& directory) : file_(files, directory, seconds_since_1970()) {}

  template <class Fill>
  void write(std::int64_t step, const Fill& fill) {
    proto::tensorboard::Event event;
    event.set_wall_time(seconds_since_1970());
    event.set_step(step);
    fill(*event.mutable_summary());
    file_.write(event);
  }

 private:
  EventFile file_;
};

Writer::Writer(const std::string& directory, FileSystem& files) : impl_(std::make_unique<Impl>(files, directory)) {}
Writer::Writer(const std::string& directory) : Writer(directory, file_system_of(directory)) {}
Writer::~Writer() = default;
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;

void Writer::scalar(const std::string& tag, double value, std::int64_t step) {
  impl_->write(step, [&](auto& summary) { add_scalar(summary, tag, value); });
}
void Writer::histogram(const std::string& tag, const Tensor& values, std::int64_t step) {
  impl_->write(step, [&](auto& summary) { add_histogram(summary, tag, values); });
}
void Writer::image(const std::string& tag, const Tensor& images, std::int64_t step, int max_outputs) {
  impl_->write(step, [&](auto& summary) { add_images(summary, tag, images, max_outputs); });
}
void Writer::text(const std::string& tag, const std::string& markdown, std::int64_t step) {
  impl_->write(step, [&](auto& summary) { add_text(summary, tag, markdown); });
}

}  // namespace troupe::summary
