#include "troupe/graph/training/measure_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>

#include <troupe/graph/metrics/classes.hpp>
#include <troupe/graph/metrics/metrics.hpp>
#include <troupe/graph/metrics/scores.hpp>

namespace troupe {
namespace {

// The options that were given: each is taken once, and none may be left.
class Given {
 public:
  explicit Given(const TextCall& call) : call_(call), arguments_(call) {}

  template <class T>
  void take(const char* name, T& to) {
    known_.emplace_back(name);
    arguments_.take(name, to);
  }
  template <class T>
  void take(const char* name, std::optional<T>& to) {
    T value{};
    take(name, value);
    if (arguments_.find(name)) to = value;
  }
  // One of some words, also in quotes.
  template <class T>
  void take(const char* name, T& to, const std::map<std::string, T>& words) {
    known_.emplace_back(name);
    const TextValue* value = arguments_.find(name);
    if (!value) return;
    std::string text;
    if (const auto* quoted = std::get_if<std::string>(&value->held)) text = *quoted;
    if (const auto* call = std::get_if<std::shared_ptr<const TextCall>>(&value->held)) text = (*call)->name;
    const auto found = words.find(text);
    if (found == words.end())
      invalid_argument("{}: {} must be one of {}, not {}", call_.name, name, fmt::join(std::views::keys(words), ", "),
                       to_string(*value));
    to = found->second;
  }
  // Names the option that nobody took, and those that there are.
  void end(std::string_view what) const {
    for (const auto& [name, unused] : call_.arguments)
      if (std::ranges::find(known_, name) == known_.end())
        invalid_argument("{} '{}' has no option '{}'; it has {}", what, call_.name, name,
                         known_.empty() ? "none" : fmt::format("{}", fmt::join(known_, ", ")));
  }

 private:
  const TextCall& call_;
  TextArguments arguments_;
  std::vector<std::string> known_;
};

std::optional<Loss> loss_named(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(Loss::circle); ++i)
    if (name(static_cast<Loss>(i)) == text) return static_cast<Loss>(i);
  return std::nullopt;
}

LossOptions loss_options(Given& given) {
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

metrics::ThresholdOptions threshold_options(Given& given) {
  metrics::ThresholdOptions o;
  given.take("thresholds", o.thresholds);
  given.take("from_logits", o.from_logits);
  given.take("top_k", o.top_k);
  given.take("class_id", o.class_id);
  given.take("name", o.name);
  return o;
}

metrics::AtOptions at_options(Given& given) {
  metrics::AtOptions o;
  given.take("at", o.at);
  given.take("thresholds", o.thresholds);
  given.take("from_logits", o.from_logits);
  given.take("class_id", o.class_id);
  given.take("name", o.name);
  return o;
}

metrics::AucOptions auc_options(Given& given) {
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

metrics::ClassScoreOptions class_options(Given& given) {
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

metrics::ConfusionOptions confusion_options(Given& given) {
  metrics::ConfusionOptions o;
  given.take("classes", o.classes);
  given.take("threshold", o.threshold);
  given.take("ignore_class", o.ignore_class);
  given.take("of_classes", o.of_classes);
  given.take("name", o.name);
  return o;
}

metrics::R2Options r2_options(Given& given) {
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

metrics::BinaryAccuracyOptions binary_options(Given& given) {
  metrics::BinaryAccuracyOptions o;
  given.take("threshold", o.threshold);
  given.take("from_logits", o.from_logits);
  given.take("name", o.name);
  return o;
}

metrics::TopKAccuracyOptions top_k_options(Given& given) {
  metrics::TopKAccuracyOptions o;
  given.take("k", o.k);
  given.take("name", o.name);
  return o;
}

metrics::PerplexityOptions perplexity_options(Given& given) {
  metrics::PerplexityOptions o;
  given.take("from_logits", o.from_logits);
  given.take("ignore_class", o.ignore_class);
  given.take("name", o.name);
  return o;
}

std::string name_option(Given& given, std::string text) {
  given.take("name", text);
  return text;
}

using MakeMetric = Metric (*)(Given&);

const std::map<std::string, MakeMetric, std::less<>>& metric_makers() {
  using G = Given;
  namespace t = metrics;
  static const std::map<std::string, MakeMetric, std::less<>> makers = {
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

// Runs `make` on the options of the call, of which none may be left.
template <class Make>
auto measure_of(std::string_view what, const TextCall& call, const Make& make) {
  Given given(call);
  auto out = make(given);
  given.end(what);
  return out;
}

}  // namespace

LossFunction parse_loss(std::string_view text) { return loss_of(parse_call(text)); }
Metric parse_metric(std::string_view text) { return metric_of(parse_call(text)); }

LossFunction loss_of(const TextCall& call) {
  const auto loss = loss_named(call.name);
  if (!loss) fail(Code::not_found, "there is no loss '{}'; there are: {}", call.name, fmt::join(loss_names(), ", "));
  return measure_of("loss", call, [&](Given& given) { return LossFunction(*loss, loss_options(given)); });
}

Metric metric_of(const TextCall& call) {
  const auto maker = metric_makers().find(call.name);
  if (maker != metric_makers().end()) return measure_of("metric", call, maker->second);
  const auto loss = loss_named(call.name);
  if (!loss)
    fail(Code::not_found, "there is no metric '{}'; there are: {}", call.name, fmt::join(metric_names(), ", "));
  return measure_of("metric", call, [&](Given& given) {
    const LossOptions of_loss = loss_options(given);
    return metrics::loss(*loss, of_loss, name_option(given, call.name));
  });
}

std::vector<std::string> loss_names() {
  std::vector<std::string> out;
  for (int i = 0; i <= static_cast<int>(Loss::circle); ++i) out.emplace_back(name(static_cast<Loss>(i)));
  std::ranges::sort(out);
  return out;
}

std::vector<std::string> metric_names() {
  std::vector<std::string> out = loss_names();
  for (const auto& [kind, maker] : metric_makers()) out.push_back(kind);
  std::ranges::sort(out);
  return out;
}

}  // namespace troupe
