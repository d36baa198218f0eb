#include "troupe/graph/fingerprint.hpp"

#include <string_view>

#include <troupe/graph/loaded_ops.hpp>

namespace troupe {
namespace {

class Hash {
 public:
  // Adds the length too, so that different lists of texts give different bytes.
  void add(std::string_view text) {
    add(text.size());
    for (const char c : text) step(static_cast<unsigned char>(c));
  }
  void add(std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) step(static_cast<unsigned char>(number >> shift));
  }
  void add(const Graph& graph) {
    add(static_cast<std::uint64_t>(graph.size()));
    for (int id = 0; id < graph.size(); ++id) add(graph.node(id));
    for (const auto& [name, function] : graph.functions()) {
      add(name);
      add(*function.body);
      add(function.arguments);
      add(function.results);
    }
  }
  std::uint64_t value() const { return value_; }

 private:
  void step(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3ull; }
  void add(const Node& node) {
    add(node.op->name);
    add(node.name);
    add(node.device);
    add(node.inputs);
    add(node.controls.size());
    for (const int control : node.controls) add(static_cast<std::uint64_t>(control));
    for (const auto& [key, value] : node.attributes.all()) {
      add(key);
      add(to_string(value));
      // The text of a tensor may omit elements.
      if (const Tensor* t = std::get_if<Tensor>(&value); t && t->valid() && t->dtype() != DType::string)
        add(std::string_view(reinterpret_cast<const char*>(t->raw()), t->num_bytes()));
    }
  }
  void add(const std::vector<Endpoint>& endpoints) {
    add(endpoints.size());
    for (const Endpoint& e : endpoints) {
      add(static_cast<std::uint64_t>(e.node));
      add(static_cast<std::uint64_t>(e.index));
    }
  }

  std::uint64_t value_ = 0xcbf29ce484222325ull;
};

}  // namespace

std::uint64_t fingerprint(const Graph& graph) {
  Hash hash;
  hash.add(graph);
  for (const OpLibraryId& library : libraries_of(graph)) {
    hash.add(library.name);
    hash.add(library.version);
    hash.add(library.sha256);
  }
  return hash.value();
}

}  // namespace troupe
