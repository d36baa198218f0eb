// What troupe-serve tells: people on stderr, programs on stdout with --json.
#pragma once

#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include <troupe/scheduler/serving/servable_manager.hpp>

namespace troupe {

inline constexpr const char* kServeProgram = "troupe-serve";

// Thread-safe.
class ServeReport {
 public:
  explicit ServeReport(bool json) : json_(json) {}

  void note(const std::string& text);
  // A version's state has changed.
  void state(const ServableManager::Status& status);
  // The first line of JSON; those that came before it follow.
  void ready(const nlohmann::json& event);
  void event(const nlohmann::json& event);

 private:
  static void print(const std::string& line);

  const bool json_;
  std::mutex mutex_;
  bool ready_ = false;
  std::vector<std::string> later_;
};

}  // namespace troupe
