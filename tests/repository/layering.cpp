#include "tests/repository/layering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <regex>
#include <sstream>

namespace troupe::repository {
namespace {

// A file includes its own folder and folders of lower rank.
const std::map<std::string, int, std::less<>> kRanks = {
    {"messages", 0}, {"graph", 1},      {"devices", 1}, {"scheduler", 2}, {"kernels", 2},
    {"actors", 3},   {"troupe.hpp", 4}, {"apps", 5},    {"tools", 5},     {"tests", 6}};

// The rooms of a folder by floors, the lowest first: a file includes its own room and rooms of lower floors. "" is what
// lies in the folder itself.
using Floors = std::vector<std::vector<std::string>>;
const std::map<std::string, Floors, std::less<>> kFloors = {
    {"messages", {{""}, {"caf"}}},
    {"graph",
     {{""},
      {"builder", "data", "formats", "placement"},
      {"gradients"},
      {"optimizers"},
      {"ops"},
      {"formats/onnx", "formats/saved_model", "layers", "passes"},
      {"metrics"},
      {"training"}}},
    {"devices", {{""}, {"collective", "cpu", "storage"}, {"cuda"}}},
    {"scheduler", {{"resources"}, {"data", "plan", "trace", "waits"}, {"collective", "run", "serving", "training"}}},
    {"kernels", {{"common", "readers"}, {"cpu", "cuda", "images"}, {""}}},
    {"actors",
     {{"base", "wire"},
      {"checkpoint", "data", "network", "steps"},
      {"collective", "http", "tensorboard"},
      {"trace"},
      {"introspection"},
      {"cluster"},
      {"session"},
      {"eager"},
      {"training"},
      {"model"},
      {"serving"},
      {""}}},
    {"apps", {{""}, {"c", "examples", "language", "mnist", "node", "python", "recommend", "serve", "tags"}}},
    {"tools", {{"bench", "checkpoint", "data", "launch", "onnx", "top"}, {"model"}}},
};

struct Pattern : std::regex {
  Pattern(const char* text) : std::regex(text, optimize) {}  // NOLINT(google-explicit-constructor)
};

struct Library {
  std::string name;
  Pattern headers;                   // matches the whole text between < and >
  std::vector<std::string> allowed;  // path prefixes; tests may use everything
};

const std::vector<Library> kLibraries = {
    {"fmt", "fmt/.*", {""}},
    {"protobuf", R"(google/protobuf/.*|.*\.pb\.h)", {"messages/", "graph/", "actors/", "apps/serve/", "tools/bench/"}},
    {"gRPC", R"(grpc(pp)?/.*|.*\.grpc\.pb\.h)", {"apps/serve/", "tools/bench/"}},
    {"Abseil", "absl/.*", {"apps/serve/"}},
    {"CAF", "caf/.*", {"messages/caf/protocol.hpp", "messages/caf/", "actors/", "apps/", "tools/"}},
    {"Eigen", "(unsupported/)?Eigen/.*", {"kernels/", "tools/bench/"}},
    {"oneDNN", R"((oneapi/dnnl/)?dnnl.*\.h(pp)?)", {"kernels/", "tools/bench/"}},
    // Only to keep oneDNN's runtime in bounds; the compiler's own header would be another runtime's.
    {"OpenMP", R"(devices/cpu/openmp\.hpp)", {"devices/cpu/", "kernels/cpu/", "tools/bench/"}},
    {"the compiler's OpenMP", R"(omp\.h)", {}},
    {"nanobind", "nanobind/.*", {"apps/python/"}},
    {"RE2", R"(re2/.*)", {"kernels/"}},
    {"zlib", R"(zlib\.h)", {"kernels/readers/", "actors/tensorboard/"}},
    {"zstd", R"(zstd\.h)", {"kernels/readers/"}},
    {"libjpeg", R"((jpeglib|jerror)\.h)", {"kernels/readers/", "tools/bench/"}},
    {"libpng", R"(png\.h)", {"kernels/readers/"}},
    {"CUDA", R"((cuda|cooperative_groups|nv).*\.h|cuda/.*)", {"devices/cuda/", "kernels/cuda/", "tools/bench/cuda/"}},
    {"NCCL", R"(nccl.*\.h)", {"devices/cuda/"}},
    {"cuBLAS, cuDNN, CUB", R"((cublas|cudnn).*\.h|(cub|thrust)/.*)", {"kernels/cuda/", "tools/bench/cuda/"}},
    {"OpenSSL", "openssl/.*", {"actors/", "devices/storage/remote/"}},
    {"libcurl", "curl/.*", {"devices/storage/remote/"}},
    {"ISA-L", R"(isa-l.*\.h)", {"devices/storage/"}},
    {"cpp-httplib", R"(httplib\.h)", {"actors/http/"}},
    {"libmicrohttpd", R"(microhttpd\.h|gnutls/.*)", {"actors/http/"}},
    {"nlohmann-json", "nlohmann/.*", {"actors/", "apps/", "kernels/readers/", "tools/"}},
    {"simdjson", R"(simdjson\.h)", {"apps/serve/"}},
    {"ncurses", R"(n?curses\.h)", {"tools/"}},
    {"Google Benchmark", "benchmark/.*", {"tools/"}},
    {"oneTBB", "(tbb|oneapi/tbb).*", {"tools/"}},
    {"GoogleTest", "(gtest|gmock)/.*", {}},
};

// Which of our headers may reach a library that takes long to compile: include it, or what includes it. Everyone who
// includes one of these pays for it.
const std::vector<Library> kReach = {
    {"CAF",
     "caf/.*",
     {"messages/caf/protocol.hpp",
      "messages/caf/",
      "actors/checkpoint/writer_actor.hpp",
      "actors/network/control.hpp",
      "actors/cluster/cluster_peers.hpp",
      "actors/cluster/local_devices.hpp",
      "actors/cluster/node_actor.hpp",
      "actors/cluster/peer_actor.hpp",
      "actors/cluster/task_actors.hpp",
      "actors/collective/collective_actor.hpp",
      "actors/data/batch_feed.hpp",
      "actors/data/feed_actor.hpp",
      "actors/data/input_actor.hpp",
      "actors/data/reader_actor.hpp",
      "actors/training/training_feed.hpp",
      "actors/base/counted.hpp",
      "actors/base/spawn.hpp",
      "actors/introspection/introspector_actor.hpp",
      "actors/serving/batcher_actor.hpp",
      "actors/serving/loaded_servable.hpp",
      "actors/serving/loader_actor.hpp",
      "actors/serving/manager_actor.hpp",
      "actors/serving/replica_actor.hpp",
      "actors/serving/router_actor.hpp",
      "actors/serving/serving_protocol.hpp",
      "actors/serving/source_actor.hpp",
      "actors/session/callable_state.hpp",
      "actors/steps/borrowed_thread.hpp",
      "actors/steps/client_gate.hpp",
      "actors/steps/device_actor.hpp",
      "actors/steps/direct_step.hpp",
      "actors/steps/partition_actor.hpp",
      "actors/steps/rendezvous_actor.hpp",
      "actors/steps/scheduler_actor.hpp",
      "actors/steps/segment_work.hpp",
      "actors/steps/step.hpp",
      "actors/training/checkpoint_keeper.hpp",
      "actors/training/cluster_job.hpp",
      "actors/training/coordinator_actor.hpp",
      "actors/training/job_links.hpp",
      "actors/training/session_checkpoints.hpp",
      "actors/training/shard_actor.hpp",
      "actors/training/shard_keeper.hpp",
      "actors/training/worker_actor.hpp",
      "tools/bench/remote_shard.hpp"}},
    {"protobuf",
     R"(google/protobuf/.*|.*\.pb\.h)",
     {"graph/formats/serialize_proto.hpp", "graph/layers/network_proto.hpp", "actors/cluster/cluster_peers.hpp",
      "actors/cluster/node_actor.hpp", "actors/session/compile.hpp", "actors/tensorboard/",
      "apps/serve/arena_messages.hpp"}},
    {"nlohmann-json", "nlohmann/(?!json_fwd).*", {"actors/http/json_text.hpp"}},
    {"simdjson", R"(simdjson\.h)", {"apps/serve/json_document.hpp", "apps/serve/json_values.hpp"}},
    {"cpp-httplib", "httplib.*", {}},
    {"libmicrohttpd", R"(microhttpd\.h|gnutls/.*)", {}},
    {"OpenSSL", "openssl/.*", {}},
    {"libcurl", "curl/.*", {}},
    {"Eigen", "(unsupported/)?Eigen/.*", {}},
    {"oneDNN", R"((oneapi/dnnl/)?dnnl.*\.h(pp)?)", {"kernels/cpu/onednn.hpp", "kernels/cpu/quantized.hpp"}},
    {"gRPC",
     R"(grpc(pp)?/.*|.*\.grpc\.pb\.h)",
     {"apps/serve/arena_messages.hpp", "apps/serve/grpc_call.hpp", "apps/serve/grpc_service.hpp"}},
    {"std::regex", "regex", {}},
};

// Headers of the C++ standard library have no dot; these come with the system.
const std::regex kSystemHeader(
    R"([a-z_]+|(sys|net|netinet|arpa|linux|asm)/[a-z_0-9]+\.h|)"
    R"((cxxabi|dirent|dlfcn|errno|execinfo|fcntl|ifaddrs|immintrin|malloc|netdb|poll|pthread|sched|semaphore|)"
    R"(signal|spawn|stdbool|stddef|stdint|termios|time|ucontext|unistd)\.h)");

std::string top_folder(std::string_view path) { return std::string(path.substr(0, path.find('/'))); }

bool starts_with_any(std::string_view path, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& p) { return path.starts_with(p); });
}

std::optional<std::string> library_violation(std::string_view path, const std::string& header) {
  if (path.starts_with("tests/")) return std::nullopt;
  for (const Library& library : kLibraries) {
    if (!std::regex_match(header, library.headers)) continue;
    if (starts_with_any(path, library.allowed)) return std::nullopt;
    return fmt::format("<{}> is {}, which this folder must not use", header, library.name);
  }
  if (std::regex_match(header, kSystemHeader)) return std::nullopt;
  return fmt::format("<{}> belongs to no library that tests/repository/layering.cpp knows", header);
}

// Headers of the library are <troupe/...> to everyone: a folder "graph" of its user's own is not in the way.
bool is_in_library(std::string_view header) {
  const auto rank = kRanks.find(top_folder(header));
  return rank != kRanks.end() && rank->second < kRanks.find("apps")->second;
}

// Whether a header of ours is generated for a library, or declares one's functions: the library's rule is its rule too.
bool stands_for_library(const std::string& header) {
  return header.ends_with(".pb.h") || header == "devices/cpu/openmp.hpp";
}

// Rooms within rooms that have a floor of their own.
constexpr std::array<std::string_view, 2> kInnerRooms = {"formats/onnx", "formats/saved_model"};

// "session" of "actors/session/step.hpp", "" of "graph/op.hpp".
std::string room_of(std::string_view path) {
  const std::string_view inside = path.substr(path.find('/') + 1);
  for (const std::string_view room : kInnerRooms)
    if (inside.starts_with(room) && inside.substr(room.size()).starts_with('/')) return std::string(room);
  const std::size_t end = inside.find('/');
  return end == inside.npos ? "" : std::string(inside.substr(0, end));
}

std::optional<std::size_t> floor_of(const Floors& floors, const std::string& room) {
  for (std::size_t floor = 0; floor < floors.size(); ++floor)
    if (std::ranges::find(floors[floor], room) != floors[floor].end()) return floor;
  return std::nullopt;
}

// Between two files of one folder.
std::optional<std::string> room_violation(std::string_view path, const std::string& header) {
  const auto floors = kFloors.find(top_folder(path));
  const std::string own = room_of(path), included = room_of(header);
  if (floors == kFloors.end() || own == included || header.ends_with(".pb.h")) return std::nullopt;
  const auto from = floor_of(floors->second, own), to = floor_of(floors->second, included);
  if (!from || !to)
    return fmt::format("{}/{} has no floor: give it one in tests/repository/layering.cpp", floors->first,
                       from ? included : own);
  if (*to < *from) return std::nullopt;
  return fmt::format("{0}/{1} must not include {0}/{2}: {3}", floors->first, own, included, header);
}

std::optional<std::string> layer_violation(std::string_view path, const std::string& header) {
  const auto own = kRanks.find(top_folder(path));
  const auto included = kRanks.find(top_folder(header));
  if (included == kRanks.end()) {
    return fmt::format("{} is not a path from the repository's root", header);
  }
  // Programs of one rank may share a protocol.
  const bool protocol = included->second == own->second && header.ends_with(".pb.h");
  if (own->first != included->first && included->second >= own->second && !protocol) {
    return fmt::format("{} must not include {}: {}", own->first, included->first, header);
  }
  return own->first == included->first ? room_violation(path, header) : std::nullopt;
}

constexpr std::string_view kSpace = " \t";

std::string_view without_leading_space(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kSpace), text.size()));
}

// What follows #include in a line, nothing in other lines.
std::optional<std::string_view> include_operand(std::string_view line) {
  line = without_leading_space(line);
  for (const std::string_view word : {"#", "include"}) {
    if (!line.starts_with(word)) return std::nullopt;
    line = without_leading_space(line.substr(word.size()));
  }
  if (line.starts_with("_next")) line = without_leading_space(line.substr(5));
  return line;
}

// What is between the quotes or brackets of an include's operand, "" if it has none.
std::string header_of(std::string_view operand) {
  const std::size_t end = operand.find_first_of("\">", 1);
  const bool quoted = operand.starts_with('"') || operand.starts_with('<');
  return quoted && end != operand.npos ? std::string(operand.substr(1, end - 1)) : "";
}

std::optional<std::string> include_violation(std::string_view path, std::string_view operand) {
  std::string header = header_of(operand);
  if (header.empty()) return fmt::format("an include that cannot be read: {}", operand);
  const bool bracketed = operand.starts_with('<');
  const bool public_form = header.starts_with("troupe/");
  if (bracketed && !public_form) return library_violation(path, header);
  if (public_form) header = header.substr(std::string_view("troupe/").size());
  if (auto found = layer_violation(path, header)) return found;
  if (!header.ends_with(".pb.h")) {
    if (public_form && !is_in_library(header)) return fmt::format("<troupe/{0}> is included as \"{0}\"", header);
    if (!public_form && is_in_library(header)) return fmt::format("\"{0}\" is included as <troupe/{0}>", header);
  }
  return stands_for_library(header) ? library_violation(path, header) : std::nullopt;
}

bool reads_environment(const std::string& line) {
  static const std::regex call(R"(\b(secure_)?getenv\b)");
  return line.find("getenv") != line.npos && std::regex_search(line, call);
}

}  // namespace

std::vector<std::string> violations(std::string_view path, std::string_view text) {
  std::vector<std::string> found;
  if (!kRanks.contains(top_folder(path))) return found;
  // troupe-launch starts programs that know nothing of it: the library reads what it tells them. Credentials of object
  // stores are in the environment for all programs of a user, also for those that know nothing of them.
  const bool may_read_environment = starts_with_any(
      path, {"apps/", "tools/", "tests/", "actors/cluster/launch_handshake.cpp", "devices/storage/file_systems.cpp"});
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::optional<std::string> problem;
    if (const auto operand = include_operand(line)) problem = include_violation(path, *operand);
    if (!may_read_environment && reads_environment(line)) problem = "only apps and tools read the environment";
    if (problem) found.push_back(fmt::format("{}:{}: {}", path, number, *problem));
  }
  return found;
}

namespace {

// What a file includes: paths of the repository, names of others' headers.
std::vector<std::string> includes(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (const auto operand = include_operand(line)) {
      const std::string header = header_of(*operand);
      out.push_back(header.starts_with("troupe/") ? header.substr(std::string_view("troupe/").size()) : header);
    }
  return out;
}

// The header of ours or of the library's that each reaches it through: found from the library's headers backwards.
std::map<std::string, std::string> next_on_the_way(const Library& library,
                                                   const std::map<std::string, std::vector<std::string>>& includers) {
  std::map<std::string, std::string> next;
  std::vector<std::string> reached;
  for (const auto& [header, unused] : includers)
    if (std::regex_match(header, library.headers)) reached.push_back(header);
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const auto found = includers.find(reached[i]);
    if (found == includers.end()) continue;
    for (const std::string& includer : found->second)
      if (next.emplace(includer, reached[i]).second) reached.push_back(includer);
  }
  return next;
}

}  // namespace

std::vector<std::string> reach_violations(const std::map<std::string, std::string>& files) {
  std::map<std::string, std::vector<std::string>> includers;  // of a header
  for (const auto& [path, text] : files)
    if (path.ends_with(".hpp"))
      for (std::string& header : includes(text)) includers[std::move(header)].push_back(path);
  std::vector<std::string> found;
  for (const Library& library : kReach) {
    const auto next = next_on_the_way(library, includers);
    for (const auto& [path, unused] : next) {
      if (path.starts_with("tests/") || starts_with_any(path, library.allowed)) continue;
      std::string way = path;
      for (auto step = next.find(path); step != next.end(); step = next.find(step->second)) way += " > " + step->second;
      found.push_back(fmt::format("{} reaches {}: {}", path, library.name, way));
    }
    for (const std::string& allowed : library.allowed)
      if (!allowed.ends_with('/') && !files.contains(allowed))
        found.push_back(fmt::format("{} may reach {}, but does not exist", allowed, library.name));
  }
  return found;
}

}  // namespace troupe::repository
