#include "tools/bench/serving_child.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tools/bench/process_memory.hpp"

namespace troupe::bench {
namespace {

constexpr std::chrono::seconds kServingPatience{120};
constexpr std::size_t kMostSaid = 2000;

std::vector<std::string> serving_command(const std::vector<std::string>& options) {
  std::vector<std::string> out{
      build_directory() + "/bin/troupe-serve", "--json", "--rest-port", "0", "--grpc-port", "0"};
  out.insert(out.end(), options.begin(), options.end());
  return out;
}

// The end of the program's standard error.
std::string last_words(const std::string& log) {
  std::ifstream file(log);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() > kMostSaid) text.erase(0, text.size() - kMostSaid);
  return text;
}

}  // namespace

void ModelFolder::publish(const std::string& model, std::int64_t version, const SavedModel& what) const {
  std::filesystem::create_directories(path(model));
  save_model(posix_file_system(), fmt::format("{}/{}", path(model), version), what);
}

void ModelFolder::remove(const std::string& model, std::int64_t version) const {
  std::filesystem::remove_all(fmt::format("{}/{}", path(model), version));
}

std::string ModelFolder::configure(const std::vector<std::string>& models) const {
  const std::string at = files_.directory() + "/models.txt";
  std::string text = "model_config_list {\n";
  for (const std::string& model : models)
    text += fmt::format("  config {{ name: '{}' base_path: '{}' }}\n", model, path(model));
  std::ofstream file(at, std::ios::trunc);
  file << text << "}\n";
  if (!file.flush()) fail(Code::unavailable, "cannot write {}", at);
  return at;
}

ServingChild::ServingChild(const ModelFolder& folder, const std::vector<std::string>& options)
    : log_(folder.log()), child_(serving_command(options), log_) {
  try {
    const auto ready = nlohmann::json::parse(child_.read_line(kServingPatience));
    if (ready.at("event") != "ready") fail(Code::internal, "its first event is {}", ready.dump());
    rest_port_ = ready.at("rest_port").get<std::uint16_t>();
    grpc_port_ = ready.value<std::uint16_t>("grpc_port", 0);
  } catch (const std::exception& error) {
    fail(Code::unavailable, "troupe-serve did not start: {}\n{}", error.what(), last_words(log_));
  }
}

ServingChild::~ServingChild() { kill(child_.pid(), SIGTERM); }

std::uint16_t ServingChild::grpc_port() const {
  if (grpc_port_ == 0) fail(Code::unimplemented, "this troupe-serve has no gRPC");
  return grpc_port_;
}

void ServingChild::configure_again() const { kill(child_.pid(), SIGHUP); }

void ServingChild::await(const std::string& model, std::int64_t version, const std::string& state) {
  try {
    for (;;) {
      const auto event = nlohmann::json::parse(child_.read_line(kServingPatience));
      if (event.at("event") != "version" || event.at("model") != model || event.at("version") != version) continue;
      if (event.at("state") == state) return;
      if (event.contains("error")) fail(Code::unavailable, "{}", event.at("error").get<std::string>());
    }
  } catch (const std::exception& error) {
    fail(Code::unavailable, "{}/{} is not {}: {}\n{}", model, version, state, error.what(), last_words(log_));
  }
}

double ServingChild::resident_mib() const { return resident_kib("VmRSS:", std::to_string(child_.pid())) / 1024; }

}  // namespace troupe::bench
