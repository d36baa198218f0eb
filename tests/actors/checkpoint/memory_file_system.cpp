#include "tests/actors/checkpoint/memory_file_system.hpp"

#include <cstring>
#include <random>

#include <troupe/messages/error.hpp>

namespace troupe::testing {

struct MemoryNode {
  using Names = std::map<std::string, std::shared_ptr<MemoryNode>>;
  bool directory = false;
  std::string content, synced_content;
  Names names, synced_names;
};

namespace {

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

class CrashedTree {
 public:
  CrashedTree(Survives survives, std::uint64_t seed) : survives_(survives), random_(seed) {}

  std::shared_ptr<MemoryNode> operator()(const MemoryNode& before) {
    auto after = std::make_shared<MemoryNode>();
    after->directory = before.directory;
    after->content = content_of(before);
    after->synced_content = after->content;
    for (const auto& [name, node] : names_of(before)) after->names[name] = (*this)(*node);
    after->synced_names = after->names;
    return after;
  }

 private:
  bool coin() { return (random_() >> 7 & 1) != 0; }

  std::string content_of(const MemoryNode& before) {
    switch (survives_) {
      case Survives::nothing:
      case Survives::names:
        return before.synced_content;
      case Survives::content:
      case Survives::everything:
        return before.content;
      case Survives::some:
        break;
    }
    if (before.content == before.synced_content) return before.content;
    std::string some = before.content.substr(0, random_() % (before.content.size() + 1));
    if (coin()) some.resize(before.content.size());  // blocks that were never written are zero
    return coin() ? some : before.synced_content;
  }

  MemoryNode::Names names_of(const MemoryNode& before) {
    switch (survives_) {
      case Survives::nothing:
      case Survives::content:
        return before.synced_names;
      case Survives::names:
      case Survives::everything:
        return before.names;
      case Survives::some:
        break;
    }
    MemoryNode::Names some = before.synced_names;
    for (const auto& [name, node] : before.names)
      if (coin()) some[name] = node;
    for (const auto& [name, node] : before.synced_names)
      if (!before.names.contains(name) && coin()) some.erase(name);
    return some;
  }

  Survives survives_;
  std::mt19937_64 random_;
};

class MemoryReadableFile final : public ReadableFile {
 public:
  MemoryReadableFile(std::string path, std::shared_ptr<MemoryNode> node)
      : path_(std::move(path)), node_(std::move(node)) {}
  std::uint64_t size() override { return node_->content.size(); }
  void read(std::uint64_t offset, std::span<std::byte> out) override {
    if (offset > size() || out.size() > size() - offset)
      fail(Code::data_loss, "'{}' ends before byte {}", path_, offset + out.size());
    if (!out.empty()) std::memcpy(out.data(), node_->content.data() + offset, out.size());
  }

 private:
  std::string path_;
  std::shared_ptr<MemoryNode> node_;
};

}  // namespace

class MemoryWritableFile final : public WritableFile {
 public:
  MemoryWritableFile(MemoryFileSystem& files, std::string path, std::shared_ptr<MemoryNode> node)
      : files_(files), path_(std::move(path)), node_(std::move(node)) {}
  void append(std::span<const std::byte> bytes) override {
    const auto add = [&](std::size_t n) { node_->content.append(reinterpret_cast<const char*>(bytes.data()), n); };
    files_.operation(true, path_, [&] { add(bytes.size() / 2); });
    add(bytes.size());
  }
  void sync() override {
    files_.operation(true, path_);
    if (files_.sync_files) node_->synced_content = node_->content;
  }
  void close() override { files_.alive(); }

 private:
  MemoryFileSystem& files_;
  std::string path_;
  std::shared_ptr<MemoryNode> node_;
};

MemoryFileSystem::MemoryFileSystem() : root_(std::make_shared<MemoryNode>()) { root_->directory = true; }

MemoryFileSystem MemoryFileSystem::after_crash(Survives survives, std::uint64_t seed) const {
  MemoryFileSystem after;
  after.root_ = CrashedTree(survives, seed)(*root_);
  return after;
}

void MemoryFileSystem::alive() const {
  if (operations_ > crash_at) fail(Code::unavailable, "the process is dead");
}

template <class Half>
void MemoryFileSystem::operation(bool needs_space, const std::string& path, Half&& half) {
  alive();
  const std::uint64_t number = operations_++;
  if (number == crash_at) {
    half();
    fail(Code::unavailable, "the process is dead");
  }
  if (number == full_at || (number > full_at && needs_space)) {
    half();
    fail(Code::resource_exhausted, "cannot change '{}': the disk is full", path);
  }
}

void MemoryFileSystem::operation(bool needs_space, const std::string& path) {
  operation(needs_space, path, [] {});
}

std::shared_ptr<MemoryNode> MemoryFileSystem::find(const std::string& path) const {
  if (path == "/") return root_;
  const auto parent = find(parent_path(path));
  if (!parent || !parent->directory) return nullptr;
  const auto found = parent->names.find(base_name(path));
  return found == parent->names.end() ? nullptr : found->second;
}

MemoryNode& MemoryFileSystem::directory_of(const std::string& path) const {
  const auto parent = find(parent_path(path));
  if (!parent || !parent->directory) fail(Code::not_found, "'{}' is in no folder", path);
  return *parent;
}

std::unique_ptr<WritableFile> MemoryFileSystem::create(const std::string& path) {
  operation(true, path);
  auto& node = directory_of(path).names[base_name(path)];
  if (node && node->directory) fail(Code::failed_precondition, "'{}' is a folder", path);
  if (!node) node = std::make_shared<MemoryNode>();
  node->content.clear();
  return std::make_unique<MemoryWritableFile>(*this, path, node);
}

std::unique_ptr<ReadableFile> MemoryFileSystem::open(const std::string& path) {
  alive();
  const auto node = find(path);
  if (!node) fail(Code::not_found, "'{}' does not exist", path);
  if (node->directory) fail(Code::failed_precondition, "'{}' is a folder", path);
  return std::make_unique<MemoryReadableFile>(path, node);
}

bool MemoryFileSystem::exists(const std::string& path) {
  alive();
  return find(path) != nullptr;
}

std::vector<DirectoryEntry> MemoryFileSystem::list(const std::string& directory) {
  alive();
  const auto node = find(directory);
  if (!node || !node->directory) fail(Code::not_found, "'{}' is no folder", directory);
  std::vector<DirectoryEntry> out;
  for (const auto& [name, entry] : node->names) out.push_back({name, entry->directory});
  return out;
}

void MemoryFileSystem::rename(const std::string& from, const std::string& to) {
  operation(true, to);
  const auto node = find(from);
  if (!node) fail(Code::not_found, "'{}' does not exist", from);
  if (const auto there = find(to); there && (there->directory || node->directory))
    fail(Code::failed_precondition, "'{}' is a folder, or '{}' is", to, from);
  directory_of(to).names[base_name(to)] = node;
  directory_of(from).names.erase(base_name(from));
}

void MemoryFileSystem::exchange(const std::string& a, const std::string& b) {
  operation(true, a);
  if (!exchanges) fail(Code::unimplemented, "'{}': no names are exchanged here", a);
  const auto first = find(a), second = find(b);
  if (!first || !second) fail(Code::not_found, "'{}' or '{}' does not exist", a, b);
  directory_of(a).names[base_name(a)] = second;
  directory_of(b).names[base_name(b)] = first;
}

void MemoryFileSystem::remove(const std::string& file) {
  operation(false, file);
  const auto node = find(file);
  if (!node) fail(Code::not_found, "'{}' does not exist", file);
  if (node->directory) fail(Code::failed_precondition, "'{}' is a folder", file);
  directory_of(file).names.erase(base_name(file));
}

void MemoryFileSystem::make_directory(const std::string& path) {
  operation(true, path);
  auto& node = directory_of(path).names[base_name(path)];
  if (node) fail(Code::already_exists, "'{}' exists", path);
  node = std::make_shared<MemoryNode>();
  node->directory = true;
}

void MemoryFileSystem::remove_directory(const std::string& path) {
  operation(false, path);
  const auto node = find(path);
  if (!node) fail(Code::not_found, "'{}' does not exist", path);
  if (!node->directory || !node->names.empty()) fail(Code::failed_precondition, "'{}' is not an empty folder", path);
  directory_of(path).names.erase(base_name(path));
}

void MemoryFileSystem::sync_directory(const std::string& path) {
  operation(false, path);
  const auto node = find(path);
  if (!node || !node->directory) fail(Code::not_found, "'{}' is no folder", path);
  if (sync_directories) node->synced_names = node->names;
}

std::string& MemoryFileSystem::content(const std::string& path) {
  const auto node = find(path);
  if (!node) fail(Code::not_found, "'{}' does not exist", path);
  return node->content;
}

}  // namespace troupe::testing
