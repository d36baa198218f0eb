#include "troupe/messages/frames.hpp"

#include <troupe/messages/type_name.hpp>

namespace troupe {

Frame::Frame() = default;
Frame::Frame(const Frame& other) = default;
Frame::Frame(Frame&& other) noexcept = default;
Frame& Frame::operator=(const Frame& other) = default;
Frame& Frame::operator=(Frame&& other) noexcept = default;
Frame::~Frame() = default;

std::string_view kind_name(const Frame& frame) {
  return std::visit([]<class F>(const F&) { return type_name<F>(); }, frame);
}

}  // namespace troupe
