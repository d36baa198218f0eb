#include "troupe/actors/base/explainer.hpp"

#include <fmt/core.h>

namespace troupe {

std::optional<std::string> Explainer::operator()() {
  if (!why_) return "";
  const auto now = std::chrono::steady_clock::now();
  if (answer_.valid()) {
    const bool there = answer_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    if (!there) return now - asked_ < kPatience ? std::nullopt : std::optional<std::string>("");
    try {
      text_ = fmt::format("\n{}", answer_.get());
    } catch (...) {
      text_ = "";
    }
  }
  if (text_ && now - asked_ < kFresh) return text_;
  text_.reset();
  asked_ = now;
  answer_ = std::async(std::launch::async, why_);
  return std::nullopt;
}

void Explainer::stop() {
  why_ = nullptr;
  answer_ = {};
}

}  // namespace troupe
