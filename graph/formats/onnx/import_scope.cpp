#include "troupe/graph/formats/onnx/import_scope.hpp"

namespace troupe {

OnnxScope::Value OnnxScope::find(const std::string& name) {
  if (const auto own = values_.find(name); own != values_.end()) return own->second;
  if (const Tensor* constant = find_constant(name)) {
    const std::string unique = graph_.unique_name(node_name(name)).substr(graph_.current_scope().size());
    const Output made = troupe::constant(graph_, *constant, unique);
    names_[made.source().name] = node_name(name);
    return values_[name] = {made, {{}, constant->dtype(), constant->shape()}, {}};
  }
  if (!outer_) return {};
  Value around = outer_->find(name);
  if (!around.found()) return {};
  if (around.view && !around.view->made.valid())
    around.view = std::make_shared<OnnxView>(OnnxView{graph_.brought_in(around.view->source), around.view->perm, {}});
  else
    around = {graph_.brought_in(around.get()), around.type, {}};
  return values_[name] = std::move(around);
}

const std::vector<const onnx::Node*>& OnnxScope::readers(const std::string& name) const {
  static const std::vector<const onnx::Node*> none;
  const auto found = readers_.find(name);
  return found == readers_.end() ? none : found->second;
}

const Tensor* OnnxScope::find_constant(const std::string& name) const {
  const auto own = constants_.find(name);
  if (own != constants_.end()) return &own->second;
  return outer_ && !outer_->values_.contains(name) ? outer_->find_constant(name) : nullptr;
}

}  // namespace troupe
