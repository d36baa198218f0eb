// Describes a function of a SavedModel to the importer, before it is built.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::tensorflow {
class FunctionDef;
class NodeDef;
}  // namespace troupe::tensorflow

namespace troupe {

// "a:b:1" of a function, "a:1" of a graph, "a".
struct TfEndpoint {
  std::string_view node{};
  std::string_view result{};  // its op's name of it
  int index = 0;              // in that result
};
// Throws data_loss.
TfEndpoint parse_tensorflow_input(std::string_view input);
inline bool is_control_input(std::string_view input) { return input.starts_with('^'); }

// Points into the message.
class TfFunction {
 public:
  explicit TfFunction(const tensorflow::FunctionDef& def);

  const tensorflow::FunctionDef& def() const { return *def_; }
  // The nodes that the results depend on by data, each behind what it reads. Throws data_loss for cycles and inputs
  // that are not there.
  const std::vector<const tensorflow::NodeDef*>& nodes() const { return nodes_; }
  const std::vector<std::string>& results() const { return results_; }  // in the order of the signature
  int num_arguments() const;
  int argument(std::string_view name) const;  // -1: none of this name
  // The argument that a result is, behind Identity nodes; -1 if it is computed.
  int passed_on(int result) const;

 private:
  const tensorflow::NodeDef* find(std::string_view node) const;
  void sort();

  const tensorflow::FunctionDef* def_;
  std::map<std::string_view, const tensorflow::NodeDef*> by_name_;
  std::map<std::string_view, int> arguments_;
  std::vector<std::string> results_;
  std::vector<const tensorflow::NodeDef*> nodes_;
};

}  // namespace troupe
