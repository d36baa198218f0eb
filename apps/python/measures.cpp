// Losses and metrics in Python, by name and with options by name.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <set>

#include "apps/python/bindings.hpp"
#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/metrics/classes.hpp>
#include <troupe/graph/metrics/metrics.hpp>
#include <troupe/graph/metrics/scores.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// The options that a caller gave: each is taken once, and none may be left.
class GivenOptions {
 public:
  GivenOptions(std::string what, const nb::dict& given) : what_(std::move(what)), given_(given) {}

  template <class T>
  void take(const char* name, T& field) {
    known_.insert(name);
    if (!given_.contains(name)) return;
    try {
      field = nb::cast<T>(given_[name]);
    } catch (const nb::cast_error&) {
      invalid_argument("{}: the option '{}' is of another type", what_, name);
    }
  }
  template <class T>
  void take(const char* name, T& field, const std::map<std::string, T>& values) {
    std::string text;
    take(name, text);
    if (text.empty()) return;
    const auto found = values.find(text);
    if (found == values.end()) invalid_argument("{}: the option '{}' cannot be '{}'", what_, name, text);
    field = found->second;
  }
  void finish() const {
    for (const auto& [key, value] : given_) {
      const auto name = nb::cast<std::string>(key);
      if (known_.contains(name)) continue;
      std::string all;
      for (const std::string& option : known_) all += (all.empty() ? "" : ", ") + option;
      invalid_argument("{} has no option '{}'; it has {}", what_, name, all.empty() ? "none" : all);
    }
  }

 private:
  std::string what_;
  const nb::dict& given_;
  std::set<std::string> known_;
};

std::optional<Loss> loss_named(const std::string& text) {
  for (int i = 0; i <= static_cast<int>(Loss::circle); ++i)
    if (name(static_cast<Loss>(i)) == text) return static_cast<Loss>(i);
  return std::nullopt;
}

LossOptions loss_options(GivenOptions& given) {
  LossOptions o;
  given.take("from_logits", o.from_logits);
  given.take("label_smoothing", o.label_smoothing);
  given.take("ignore_class", o.ignore_class);
  given.take("delta", o.delta);
  given.take("gamma", o.gamma);
  given.take("alpha", o.alpha);
  given.take("balance_classes", o.balance_classes);
  given.take("q", o.q);
  given.take("wrong_hit_weight", o.wrong_hit_weight);
  given.take("miss_weight", o.miss_weight);
  given.take("circle_scale", o.circle_scale);
  given.take("margin", o.margin);
  return o;
}

metrics::ThresholdOptions threshold_options(GivenOptions& given) {
  metrics::ThresholdOptions o;
  given.take("thresholds", o.thresholds);
  given.take("from_logits", o.from_logits);
  given.take("top_k", o.top_k);
  given.take("class_id", o.class_id);
  given.take("name", o.name);
  return o;
}

metrics::AtOptions at_options(GivenOptions& given) {
  metrics::AtOptions o;
  given.take("at", o.at);
  given.take("thresholds", o.thresholds);
  given.take("from_logits", o.from_logits);
  given.take("class_id", o.class_id);
  given.take("name", o.name);
  return o;
}

metrics::AucOptions auc_options(GivenOptions& given) {
  using metrics::AreaSum;
  using metrics::Curve;
  metrics::AucOptions o;
  given.take("curve", o.curve, {{"roc", Curve::roc}, {"pr", Curve::pr}, {"pr_gain", Curve::pr_gain}});
  given.take(
      "sum", o.sum,
      {{"interpolation", AreaSum::interpolation}, {"minoring", AreaSum::minoring}, {"majoring", AreaSum::majoring}});
  given.take("num_thresholds", o.num_thresholds);
  given.take("thresholds", o.thresholds);
  given.take("from_logits", o.from_logits);
  given.take("multi_label", o.multi_label);
  given.take("label_weights", o.label_weights);
  given.take("name", o.name);
  return o;
}

metrics::ClassScoreOptions class_options(GivenOptions& given) {
  using metrics::Average;
  metrics::ClassScoreOptions o;
  given.take(
      "average", o.average,
      {{"micro", Average::micro}, {"macro", Average::macro}, {"weighted", Average::weighted}, {"none", Average::none}});
  given.take("threshold", o.threshold);
  given.take("beta", o.beta);
  given.take("name", o.name);
  return o;
}

metrics::ConfusionOptions confusion_options(GivenOptions& given) {
  metrics::ConfusionOptions o;
  given.take("classes", o.classes);
  given.take("threshold", o.threshold);
  given.take("ignore_class", o.ignore_class);
  given.take("of_classes", o.of_classes);
  given.take("name", o.name);
  return o;
}

metrics::R2Options r2_options(GivenOptions& given) {
  using metrics::R2Average;
  metrics::R2Options o;
  given.take("average", o.average,
             {{"uniform", R2Average::uniform},
              {"variance_weighted", R2Average::variance_weighted},
              {"none", R2Average::none}});
  given.take("regressors", o.regressors);
  given.take("name", o.name);
  return o;
}

metrics::BinaryAccuracyOptions binary_options(GivenOptions& given) {
  metrics::BinaryAccuracyOptions o;
  given.take("threshold", o.threshold);
  given.take("from_logits", o.from_logits);
  given.take("name", o.name);
  return o;
}

metrics::TopKAccuracyOptions top_k_options(GivenOptions& given) {
  metrics::TopKAccuracyOptions o;
  given.take("k", o.k);
  given.take("name", o.name);
  return o;
}

metrics::PerplexityOptions perplexity_options(GivenOptions& given) {
  metrics::PerplexityOptions o;
  given.take("from_logits", o.from_logits);
  given.take("ignore_class", o.ignore_class);
  given.take("name", o.name);
  return o;
}

std::string name_option(GivenOptions& given, std::string text) {
  given.take("name", text);
  return text;
}

using MakeMetric = Metric (*)(GivenOptions&);

const std::map<std::string, MakeMetric>& metric_makers() {
  using G = GivenOptions;
  namespace t = metrics;
  static const std::map<std::string, MakeMetric> makers = {
      {"mean", [](G& g) { return t::mean_of_outputs(name_option(g, "mean")); }},
      {"sum", [](G& g) { return t::sum_of_outputs(name_option(g, "sum")); }},
      {"accuracy", [](G& g) { return t::accuracy(name_option(g, "accuracy")); }},
      {"equality", [](G& g) { return t::equality(name_option(g, "equality")); }},
      {"top_k_accuracy", [](G& g) { return t::top_k_accuracy(top_k_options(g)); }},
      {"binary_accuracy", [](G& g) { return t::binary_accuracy(binary_options(g)); }},
      {"root_mean_squared_error",
       [](G& g) { return t::root_mean_squared_error(name_option(g, "root_mean_squared_error")); }},
      {"cosine_similarity", [](G& g) { return t::cosine_similarity(name_option(g, "cosine_similarity")); }},
      {"pearson_correlation", [](G& g) { return t::pearson_correlation(name_option(g, "pearson_correlation")); }},
      {"concordance_correlation",
       [](G& g) { return t::concordance_correlation(name_option(g, "concordance_correlation")); }},
      {"perplexity", [](G& g) { return t::perplexity(perplexity_options(g)); }},
      {"r2_score", [](G& g) { return t::r2_score(r2_options(g)); }},
      {"precision", [](G& g) { return t::precision(threshold_options(g)); }},
      {"recall", [](G& g) { return t::recall(threshold_options(g)); }},
      {"true_positives", [](G& g) { return t::true_positives(threshold_options(g)); }},
      {"false_positives", [](G& g) { return t::false_positives(threshold_options(g)); }},
      {"true_negatives", [](G& g) { return t::true_negatives(threshold_options(g)); }},
      {"false_negatives", [](G& g) { return t::false_negatives(threshold_options(g)); }},
      {"precision_at_recall", [](G& g) { return t::precision_at_recall(at_options(g)); }},
      {"recall_at_precision", [](G& g) { return t::recall_at_precision(at_options(g)); }},
      {"sensitivity_at_specificity", [](G& g) { return t::sensitivity_at_specificity(at_options(g)); }},
      {"specificity_at_sensitivity", [](G& g) { return t::specificity_at_sensitivity(at_options(g)); }},
      {"auc", [](G& g) { return t::auc(auc_options(g)); }},
      {"class_precision", [](G& g) { return t::class_precision(class_options(g)); }},
      {"class_recall", [](G& g) { return t::class_recall(class_options(g)); }},
      {"f1", [](G& g) { return t::f1(class_options(g)); }},
      {"f_beta", [](G& g) { return t::f_beta(class_options(g)); }},
      {"confusion_matrix", [](G& g) { return t::confusion_matrix(confusion_options(g)); }},
      {"mean_iou", [](G& g) { return t::mean_iou(confusion_options(g)); }},
  };
  return makers;
}

Metric metric_named(const std::string& kind, const nb::dict& options) {
  GivenOptions given("metric '" + kind + "'", options);
  Metric out;
  if (const auto maker = metric_makers().find(kind); maker != metric_makers().end()) {
    out = maker->second(given);
  } else if (const auto loss = loss_named(kind)) {
    const LossOptions of_loss = loss_options(given);
    out = metrics::loss(*loss, of_loss, name_option(given, kind));
  } else {
    invalid_argument("there is no metric '{}'; metric_names() lists them", kind);
  }
  given.finish();
  return out;
}

std::vector<std::string> loss_names() {
  std::vector<std::string> out;
  for (int i = 0; i <= static_cast<int>(Loss::circle); ++i) out.emplace_back(name(static_cast<Loss>(i)));
  return out;
}

std::vector<std::string> metric_names() {
  std::vector<std::string> out = loss_names();
  for (const auto& [kind, maker] : metric_makers()) out.push_back(kind);
  std::ranges::sort(out);
  return out;
}

PyOutput loss_of(const std::string& kind, const PyOutput& outputs, const PyOutput& targets, const nb::dict& options) {
  const auto loss = loss_named(kind);
  if (!loss) invalid_argument("there is no loss '{}'; loss_names() lists them", kind);
  GivenOptions given("loss '" + kind + "'", options);
  const LossOptions of_loss = loss_options(given);
  given.finish();
  return {outputs.graph, losses::per_example(*loss, outputs.output, targets.output, of_loss)};
}

PyOutput metric_sums(const Metric& metric, const PyOutput& outputs, const std::optional<PyOutput>& targets,
                     const std::optional<PyOutput>& weights) {
  MetricInputs in{.outputs = outputs.output};
  if (targets) in.targets = targets->output;
  if (weights) in.weights = weights->output;
  return {outputs.graph, metric.sums(in)};
}

}  // namespace

void bind_measures(nb::module_& m) {
  m.def("loss_names", &loss_names);
  m.def("metric_names", &metric_names);
  m.def("loss", &loss_of, "kind"_a, "outputs"_a, "targets"_a, "options"_a);
  m.def(
      "weighted_mean",
      [](const PyOutput& each, const PyOutput& weights) {
        return PyOutput{each.graph, losses::weighted_mean(each.output, weights.output)};
      },
      "each"_a, "weights"_a);
  nb::class_<Metric>(m, "Metric")
      .def_ro("name", &Metric::name)
      .def("sums", &metric_sums, "outputs"_a, "targets"_a.none(), "weights"_a.none())
      .def("result", [](const Metric& metric, const Tensor& sums) { return metric.result(sums); });
  m.def("metric", &metric_named, "kind"_a, "options"_a);
}

}  // namespace troupe::python
