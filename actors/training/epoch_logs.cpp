#include "troupe/actors/training/epoch_logs.hpp"

#include <algorithm>
#include <span>

#include <troupe/messages/error.hpp>

namespace troupe {

double find_figure(const Figures& figures, std::string_view name) {
  const auto found = std::ranges::find(figures, name, &Figures::value_type::first);
  if (found != figures.end()) return found->second;
  std::string names;
  for (const auto& [other, value] : figures) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", other);
  fail(Code::not_found, "there is no figure '{}'; there are {}", name, names.empty() ? "none" : names);
}

double EpochLogs::operator[](std::string_view figure) const { return find_figure(figures, figure); }

namespace {

// Invalid if there is no such figure.
Tensor result_of(const NamedSum& sum, const std::map<std::string, FigureResult>& results) {
  const auto result = results.find(sum.name);
  if (result == results.end()) return {};
  const Shape shape{static_cast<std::int64_t>(sum.values.size())};
  return result->second(Tensor::of<double>(shape, std::span<const double>(sum.values)));
}

}  // namespace

Figures figures_of(const NamedSums& sums, const std::map<std::string, FigureResult>& results, std::string_view prefix) {
  Figures out;
  for (const NamedSum& sum : sums) {
    const Tensor value = result_of(sum, results);
    if (value.valid() && value.shape().is_scalar())
      out.emplace_back(fmt::format("{}{}", prefix, sum.name), value.item<double>());
  }
  return out;
}

std::map<std::string, Tensor> tensors_of(const NamedSums& sums, const std::map<std::string, FigureResult>& results) {
  std::map<std::string, Tensor> out;
  for (const NamedSum& sum : sums) {
    Tensor value = result_of(sum, results);
    if (value.valid() && !value.shape().is_scalar()) out.emplace(sum.name, std::move(value));
  }
  return out;
}

Figures StepProgress::figures() const { return figures_of(sums, results); }

double mean_loss(const NamedSums& sums) {
  const std::vector<double>& loss = sums.at(0).values;
  return loss.at(1) == 0 ? 0 : loss[0] / loss[1];
}

EpochLogs logs_of(const EpochDone& epoch, const std::map<std::string, FigureResult>& results) {
  EpochLogs out{.epoch = epoch.epoch,
                .figures = figures_of(epoch.training, results),
                .examples_per_second = epoch.examples_per_second,
                .steps = epoch.steps,
                .seconds = epoch.seconds};
  for (auto& figure : figures_of(epoch.evaluation, results, "val_")) out.figures.push_back(std::move(figure));
  return out;
}

}  // namespace troupe
