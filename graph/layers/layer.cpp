#include "troupe/graph/layers/layer.hpp"

#include <troupe/graph/builder/core.hpp>

namespace troupe {

DType LayerContext::compute_type(Output x, DType own) const {
  if (own != DType::invalid) return own;
  return compute != DType::invalid ? compute : weight_type(x);
}

VariableRef LayerContext::weight(const std::string& name, WeightSpec spec, const WeightOptions& options) {
  spec.trainable = spec.trainable && trainable;
  const VariableRef found = variables.get(graph, layer.empty() ? name : layer + "/" + name, spec, options);
  if (losses && spec.trainable && options.regularizer && losses->regularized.insert(found.name).second)
    losses->terms.push_back(penalty(found.read(), options.regularizer));
  return found;
}

void LayerContext::add_loss(Output loss) const {
  if (loss.shape().rank() != 0)
    invalid_argument("a loss that a layer adds must be a scalar, but is {}", loss.shape().to_string());
  if (losses) losses->terms.push_back(loss);
}

Output Layer::apply(LayerContext&, Output) const {
  invalid_argument("a layer of kind '{}' is applied by apply_all()", kind());
}

Outputs Layer::apply_all(LayerContext& context, const Outputs& xs) const {
  if (xs.size() != 1) invalid_argument("it takes one input, not {}", xs.size());
  return {apply(context, xs[0])};
}

LayerConfig Layer::config() const {
  fail(Code::failed_precondition,
       "a layer of kind '{}' cannot be written: override Layer::config(), and add the kind to the reader's "
       "LayerRegistry",
       kind());
}

LayerPtr LayerPtr::named(std::string name) const {
  if (name.empty()) invalid_argument("a layer's name must not be empty");
  LayerPtr copy = *this;
  copy.name_ = std::move(name);
  return copy;
}

Symbols LayerPtr::call(const Symbols& xs) const {
  if (!layer_) invalid_argument("the layer that is called is null");
  if (xs.empty()) invalid_argument("layer '{}' is called without an input", layer_->kind());
  for (std::size_t i = 0; i < xs.size(); ++i)
    if (!xs[i].valid()) invalid_argument("layer '{}': symbol {} has no value", layer_->kind(), i);
  const auto source = std::make_shared<Symbol::Source>(Symbol::Source{.layer = *this, .inputs = xs});
  Symbols ys;
  for (int i = 0; i < layer_->outputs(); ++i) ys.emplace_back(source, i);
  return ys;
}

Symbol LayerPtr::operator()(const Symbols& xs) const {
  const Symbols ys = call(xs);
  if (ys.size() != 1) invalid_argument("layer '{}' has {} outputs: use call()", layer_->kind(), ys.size());
  return ys[0];
}

Symbol input(std::string name, Shape shape, DType dtype) {
  if (name.empty()) invalid_argument("an input of a network must have a name");
  if (!is_data(dtype)) invalid_argument("input '{}' cannot be of dtype {}", name, troupe::name(dtype));
  return {std::make_shared<Symbol::Source>(Symbol::Source{.input = {std::move(name), shape, dtype}}), 0};
}

}  // namespace troupe
