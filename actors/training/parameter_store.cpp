#include "troupe/actors/training/parameter_store.hpp"

#include <troupe/kernels/cpu/finite.hpp>
#include <troupe/scheduler/run/single_kernel.hpp>

namespace troupe {
namespace {

std::unique_ptr<Variable> make_variable(const std::string& name, Tensor value) {
  auto variable = std::make_unique<Variable>(name, value.dtype(), value.shape());
  variable->assign(std::move(value));
  return variable;
}

Tensor scaled(const Tensor& rate, double factor) {
  if (factor == 1) return rate;
  Tensor out = rate.clone();
  if (out.dtype() == DType::f32)
    *out.mutable_data<float>() = static_cast<float>(*out.data<float>() * factor);
  else
    *out.mutable_data<double>() *= factor;
  return out;
}

}  // namespace

void ParameterStore::add(std::uint32_t slice, const std::string& name, const UpdateRule& rule, Tensor value,
                         std::vector<Tensor> slots, std::int64_t skipped) {
  Entry entry;
  entry.skipped = skipped;
  entry.rule = rule;
  const DType dtype = value.dtype();
  entry.variables.push_back(make_variable(name, std::move(value)));
  for (std::size_t i = 0; i < slots.size(); ++i)
    entry.variables.push_back(make_variable(name + "/" + rule.slots.at(i).role, std::move(slots[i])));
  std::vector<DType> inputs(entry.variables.size(), DType::resource);
  if (rule.learning_rate.valid() || rule.schedule) inputs.push_back(dtype);
  if (rule.counts_updates) inputs.push_back(DType::i64);
  if (rule.sparse) inputs.push_back(DType::i64);
  inputs.push_back(dtype);
  entry.kernel = kernels_.get(rule.op, device_.attributes().type, dtype)({name, rule.attributes, inputs, {}});
  entries_.insert_or_assign(slice, std::move(entry));
}

Tensor ParameterStore::value(std::uint32_t slice) { return entries_.at(slice).variables[0]->value(); }

void ParameterStore::apply(std::uint32_t slice, const Update& update) {
  applied_.fetch_add(1, std::memory_order_relaxed);
  Entry& entry = entries_.at(slice);
  if (update.gradient.sparse() != entry.rule.sparse)
    invalid_argument("slice {} takes {} gradients", slice, entry.rule.sparse ? "sparse" : "dense");
  // Gradients that are not finite reach all shards or none: they skip the same updates.
  if (entry.rule.guarded && !all_finite(device_.parallelism(), update.gradient.values)) {
    ++entry.skipped;
    return;
  }
  variables_.clear();
  for (const auto& v : entry.variables) variables_.push_back(v.get());
  inputs_.clear();
  inputs_.resize(variables_.size());
  const std::int64_t number = static_cast<std::int64_t>(update.step) - entry.skipped;  // of this update, from 1
  if (entry.rule.schedule)
    inputs_.push_back(scaled(entry.rule.schedule->rate(number - 1, entry.variables[0]->dtype()), update.rate_scale));
  else if (entry.rule.learning_rate.valid())
    inputs_.push_back(scaled(entry.rule.learning_rate, update.rate_scale));
  if (entry.rule.counts_updates) inputs_.push_back(Tensor::scalar(number));
  if (entry.rule.sparse) inputs_.push_back(update.gradient.indices);
  inputs_.push_back(update.gradient.values);
  variables_.resize(inputs_.size());
  run_kernel(entry.kernel, inputs_, variables_, 0, device_);
  inputs_.clear();  // holds no gradient
}

}  // namespace troupe
