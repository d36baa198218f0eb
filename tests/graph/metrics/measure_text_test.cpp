// Losses and metrics as text are those that functions make.
#include "troupe/graph/training/measure_text.hpp"

#include "tests/graph/messages.hpp"
#include "tests/graph/metrics/metric_case.hpp"

namespace troupe::testing {
namespace {

TEST(MeasureText, EqualsTheFunctionsOfMetrics) {
  const SixExamples d;
  d.expect(parse_metric("accuracy"), d.logits, d.classes, {2.0 / 3}, {0.5625});
  d.expect(parse_metric("binary_accuracy(threshold=0.3, from_logits=true)"), d.logits, d.bits, {0.5}, {0.53125});
  d.expect(parse_metric("softmax_cross_entropy(label_smoothing=0.1)"), d.logits, d.one_hot_classes(),
           {0.944311299525578}, {1.030238632672729});
  d.expect(parse_metric("sparse_softmax_cross_entropy"), d.logits, d.classes, {0.851186299525578}, {0.944769882672729});
  EXPECT_EQ(parse_metric("hinge").name, "hinge");
  EXPECT_EQ(parse_metric("auc(curve=pr, name=\"area\")").name, "area");
}

TEST(MeasureText, KnowsAllNames) {
  EXPECT_EQ(loss_names().size(), 22u);
  for (const std::string& name : loss_names()) EXPECT_EQ(parse_loss(name).name(), name);
  EXPECT_GT(metric_names().size(), 50u);
  for (const std::string& name : metric_names()) EXPECT_FALSE(parse_metric(name).name.empty()) << name;
}

TEST(MeasureText, ErrorsNameMeasureAndOption) {
  const auto loss = [](const char* text) { return message_of([&] { parse_loss(text); }); };
  const auto metric = [](const char* text) { return message_of([&] { parse_metric(text); }); };
  EXPECT_EQ(loss("hubert").substr(0, 47), "there is no loss 'hubert'; there are: binary_fo");
  EXPECT_EQ(metric("area").substr(0, 44), "there is no metric 'area'; there are: accura");
  EXPECT_EQ(loss("huber(delta=\"a\")"), "huber: delta must be a number, not \"a\"");
  EXPECT_EQ(metric("accuracy(k=1)"), "metric 'accuracy' has no option 'k'; it has name");
  EXPECT_EQ(metric("top_k_accuracy(n=1)"), "metric 'top_k_accuracy' has no option 'n'; it has k, name");
  EXPECT_EQ(metric("auc(curve=best)"), "auc: curve must be one of pr, pr_gain, roc, not best");
  EXPECT_EQ(metric("f1(average=3)"), "f1: average must be one of macro, micro, none, weighted, not 3");
}

}  // namespace
}  // namespace troupe::testing
