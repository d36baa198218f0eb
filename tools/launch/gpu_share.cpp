#include "tools/launch/gpu_share.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>

#include <troupe/messages/error.hpp>

namespace troupe {

GpuShare::GpuShare(int per_worker, int workers, std::vector<std::string> visible)
    : per_worker_(per_worker), visible_(std::move(visible)) {
  if (static_cast<std::size_t>(per_worker) * static_cast<std::size_t>(workers) <= visible_.size()) return;
  std::string names;
  for (const std::string& gpu : visible_) names += (names.empty() ? ": " : ", ") + gpu;
  fail(Code::not_found,
       "{} workers with {} {} each need {}, but there {} {} (CUDA_VISIBLE_DEVICES, else /dev/nvidia*){}", workers,
       per_worker, per_worker == 1 ? "GPU" : "GPUs", per_worker * workers, visible_.size() == 1 ? "is" : "are",
       visible_.size(), names);
}

std::string GpuShare::of(const std::string& job, int index) const {
  std::string text;
  if (job != "worker") return text;
  for (int i = index * per_worker_; i < (index + 1) * per_worker_; ++i)
    text += (text.empty() ? "" : ",") + visible_[static_cast<std::size_t>(i)];
  return text;
}

std::vector<std::string> visible_gpus(const std::optional<std::string>& variable, const std::string& devices) {
  std::vector<std::string> gpus;
  if (variable) {
    std::istringstream names(*variable);
    for (std::string name; std::getline(names, name, ',');)
      if (!name.empty()) gpus.push_back(name);
    return gpus;
  }
  const std::string prefix = "nvidia";
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(devices, none)) {
    const std::string name = entry.path().filename().string();
    const bool is_gpu = name.starts_with(prefix) && name.size() > prefix.size() &&
                        std::all_of(name.begin() + static_cast<std::ptrdiff_t>(prefix.size()), name.end(),
                                    [](unsigned char c) { return std::isdigit(c); });
    if (is_gpu) gpus.push_back(std::to_string(gpus.size()));
  }
  return gpus;
}

}  // namespace troupe
