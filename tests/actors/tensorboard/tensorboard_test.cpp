// What TensorBoard reads: records, event files, histograms, graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/actors/tensorboard/event_reader.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/tensorboard/event_file.hpp>
#include <troupe/actors/tensorboard/graph_def.hpp>
#include <troupe/actors/tensorboard/histogram.hpp>
#include <troupe/actors/tensorboard/record.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using proto::tensorboard::Histogram;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string hex(std::string_view bytes) {
  std::string out;
  for (const unsigned char c : bytes) out += fmt::format("{:02x}", c);
  return out;
}

// The bytes that TensorBoard's own functions make.
TEST(Record, HasTheBytesThatTensorBoardExpects) {
  EXPECT_EQ(masked_crc32c(""), 0xa282ead8u);
  EXPECT_EQ(masked_crc32c("123456789"), 0xc78ab0e5u);
  EXPECT_EQ(hex(record_of("")), "000000000000000029039807d8ea82a2");
  EXPECT_EQ(hex(record_of("abc")), "0300000000000000b099490e6162636e57f121");
}

class EventFiles : public ::testing::Test {
 protected:
  testing::TemporaryDirectory directory;
};

TEST_F(EventFiles, BeginWithTheirVersionAndAreReadWhileTheyAreWritten) {
  EventFile file(posix_file_system(), directory.file("new/curves"), 1.7e9);
  EXPECT_THAT(file.path(), HasSubstr("/new/curves/events.out.tfevents.1700000000."));
  proto::tensorboard::Event event;
  event.set_wall_time(1700000001.5);
  event.set_step(7);
  auto& value = *event.mutable_summary()->add_value();
  value.set_tag("loss");
  value.set_simple_value(0.25F);
  file.write(event);

  const auto events = testing::read_events(file.path());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[0].wall_time(), 1.7e9);
  EXPECT_EQ(events[1].SerializeAsString(), event.SerializeAsString());
}

// wall_time is a double with number 1, step a varint with number 2, the tag of a value number 1, its number a float
// with number 2.
TEST_F(EventFiles, HaveTheMessagesOfTensorBoard) {
  proto::tensorboard::Event event;
  event.set_wall_time(1);
  event.set_step(300);
  auto& value = *event.mutable_summary()->add_value();
  value.set_tag("a");
  value.set_simple_value(1);
  EXPECT_EQ(hex(event.SerializeAsString()),
            "09000000000000f03f"
            "10ac02"
            "2a0a"
            "0a08"
            "0a0161"
            "150000803f");
  Histogram histogram;
  histogram.set_min(1);
  histogram.add_bucket_limit(1);
  histogram.add_bucket(1);
  EXPECT_EQ(hex(histogram.SerializeAsString()),
            "09000000000000f03f"
            "3208000000000000f03f"
            "3a08000000000000f03f");
}

TEST_F(EventFiles, ComeAfterAllThatAreThere) {
  std::vector<std::string> paths;
  for (const double now : {1000.0, 1000.9, 500.0, 2000.0})
    paths.push_back(EventFile(posix_file_system(), directory.file(""), now).path());
  EXPECT_EQ(testing::event_files(directory.file("")), paths);
  EXPECT_THAT(paths[1], HasSubstr("tfevents.0000001001."));
  EXPECT_THAT(paths[2], HasSubstr("tfevents.0000001002."));
  EXPECT_THAT(paths[3], HasSubstr("tfevents.0000002000."));
  directory.write("events.out.tfevents.99999999999999999999.of.another", "");
  directory.write("events.out.tfevents.x", "");
  EXPECT_THAT(EventFile(posix_file_system(), directory.file(""), 1).path(), HasSubstr("tfevents.0000002001."));
}

TEST_F(EventFiles, ThatCannotBeAreNamed) {
  const std::string file = directory.write("file", "");
  const Error error = error_of([&] { EventFile(posix_file_system(), file + "/below", 1); });
  EXPECT_EQ(error.code(), Code::failed_precondition);
  EXPECT_THAT(error.message(), HasSubstr(file + "/below"));
}

// By limit.
std::map<double, double> buckets_of(const Histogram& histogram) {
  EXPECT_EQ(histogram.bucket_size(), histogram.bucket_limit_size());
  EXPECT_TRUE(std::ranges::is_sorted(histogram.bucket_limit()));
  std::map<double, double> out;
  for (int i = 0; i < histogram.bucket_size(); ++i) out.emplace(histogram.bucket_limit(i), histogram.bucket(i));
  return out;
}

TEST(HistogramOf, LimitsGrowByATenthOnBothSidesOfZero) {
  const std::vector<double>& limits = histogram_limits();
  EXPECT_TRUE(std::ranges::is_sorted(limits));
  const auto zero = std::ranges::find(limits, 0.0) - limits.begin();
  EXPECT_EQ(limits[zero + 1], 1e-12);
  EXPECT_EQ(limits[zero + 2], 1e-12 * 1.1);
  EXPECT_EQ(limits[zero + 3], 1e-12 * 1.1 * 1.1);
  EXPECT_EQ(limits.back(), std::numeric_limits<double>::max());
  EXPECT_LT(limits[limits.size() - 2], 1e20);
  EXPECT_GT(limits[limits.size() - 2] * 1.1, 1e20);
  for (std::size_t i = 0; i < limits.size(); ++i) EXPECT_EQ(limits[i], -limits[limits.size() - 1 - i]) << i;
}

TEST(HistogramOf, AValueThatIsALimitCountsAboveIt) {
  const std::vector<double>& limits = histogram_limits();
  const auto zero = static_cast<std::size_t>(std::ranges::find(limits, 0.0) - limits.begin());
  const double limit = limits[zero + 500];
  const Tensor values = Tensor::vector<double>({limit, std::nextafter(limit, 0), limit, std::nextafter(limit, 1e9)});
  EXPECT_THAT(buckets_of(histogram_of(values)), ElementsAre(std::pair(limit, 1), std::pair(limits[zero + 501], 3)));
  EXPECT_THAT(buckets_of(histogram_of(Tensor::vector<double>({0, -0.0}))), ElementsAre(std::pair(limits[zero + 1], 2)));
  EXPECT_THAT(buckets_of(histogram_of(Tensor::vector<double>({-limit}))),
              ElementsAre(std::pair(-limits[zero + 499], 1)));
}

TEST(HistogramOf, EmptyBucketsInARowAreOne) {
  const std::vector<double>& limits = histogram_limits();
  const auto above = [&](double value) { return std::ranges::upper_bound(limits, value); };
  const Histogram histogram = histogram_of(Tensor::vector<float>({-2, -2, 0.5F, 3, 3, 3, 3}));
  EXPECT_EQ(histogram.min(), -2);
  EXPECT_EQ(histogram.max(), 3);
  EXPECT_EQ(histogram.num(), 7);
  EXPECT_EQ(histogram.sum(), 8.5);
  EXPECT_EQ(histogram.sum_squares(), 44.25);
  EXPECT_THAT(buckets_of(histogram),
              ElementsAre(std::pair(*above(-2), 2), std::pair(*(above(0.5) - 1), 0), std::pair(*above(0.5), 1),
                          std::pair(*(above(3) - 1), 0), std::pair(*above(3), 4)));
  // Buckets side by side have none between them.
  EXPECT_EQ(histogram_of(Tensor::vector<double>({1.0, *above(1.0)})).bucket_size(), 2);
}

TEST(HistogramOf, TheGreatestAndTheLeastDoubleCountInTheOuterBuckets) {
  const double most = std::numeric_limits<double>::max();
  const Histogram histogram = histogram_of(Tensor::vector<double>({most, -most}));
  EXPECT_EQ(histogram.bucket_limit(histogram.bucket_limit_size() - 1), most);
  EXPECT_EQ(histogram.bucket(histogram.bucket_size() - 1), 1);
  EXPECT_EQ(histogram.num(), 2);
}

TEST(HistogramOf, WhatIsNotFiniteIsLeftOut) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Histogram histogram = histogram_of(Tensor::vector<float>({1, infinity, -infinity, std::nanf("")}));
  EXPECT_EQ(histogram.num(), 1);
  EXPECT_EQ(histogram.max(), 1);
  EXPECT_EQ(histogram.bucket_size(), 1);
  const Histogram none = histogram_of(Tensor::vector<float>({infinity}));
  EXPECT_EQ(none.num(), 0);
  EXPECT_EQ(none.min(), 0);
  EXPECT_THAT(none.bucket(), IsEmpty());
}

TEST(HistogramOf, TakesNumbersOfAllKinds) {
  EXPECT_EQ(histogram_of(Tensor::vector<Half>({Half(1.5F), Half(2.5F)})).sum(), 4);
  EXPECT_EQ(histogram_of(Tensor::vector<BFloat16>({BFloat16(1.5F), BFloat16(2.5F)})).sum(), 4);
  EXPECT_EQ(histogram_of(Tensor::vector<std::int64_t>({-7, 3})).sum_squares(), 58);
  EXPECT_EQ(histogram_of(Tensor::vector<std::uint8_t>({255})).max(), 255);
  EXPECT_EQ(error_of([] { (void)histogram_of(Tensor::vector<std::string>({"a"})); }).code(), Code::invalid_argument);
}

TEST(GraphDefOf, HasNodesWithOpsInputsDevicesAndShapes) {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {kUnknown, 3}, "x");
  Output y;
  {
    auto scope = graph.scope("layer");
    auto device = graph.on_device("/job:worker/task:1");
    y = unstack(x, 1)[2];
  }
  {
    auto after = graph.after({y});
    graph.add({.op = "NoOp", .name = "end"});
  }
  const auto def = graph_def_of(graph);
  std::map<std::string, const proto::tensorboard::NodeDef*> nodes;
  for (const auto& node : def.node()) nodes[node.name()] = &node;
  EXPECT_EQ(def.node_size(), graph.size());

  const auto& placeholder = *nodes.at("x");
  EXPECT_EQ(placeholder.op(), "Placeholder");
  EXPECT_EQ(placeholder.device(), "");
  EXPECT_EQ(placeholder.attr().at("T").type(), 1);
  const auto& shape = placeholder.attr().at("_output_shapes").list().shape(0);
  ASSERT_EQ(shape.dim_size(), 2);
  EXPECT_EQ(shape.dim(0).size(), -1);
  EXPECT_EQ(shape.dim(1).size(), 3);

  const auto& unstacked = *nodes.at(y.source().name);
  EXPECT_EQ(unstacked.op(), "Unstack");
  EXPECT_THAT(unstacked.device(), HasSubstr("/job:worker/task:1"));
  EXPECT_THAT(unstacked.input(), ElementsAre("x"));
  EXPECT_EQ(unstacked.attr().at("_output_shapes").list().shape_size(), 3);
  EXPECT_THAT(nodes.at("end")->input(), ElementsAre(fmt::format("^{}", y.source().name)));

  const Output second = unstack(x, 1)[1];
  const Output last = second + second;
  const auto more = graph_def_of(graph);
  EXPECT_THAT(more.node(last.node).input(), ElementsAre(second.name(), second.name()));
}

TEST(GraphDefOf, NamesTensorsAndLeavesThemOut) {
  Graph graph;
  const Output c = constant(graph, Tensor::zeros(DType::f32, Shape{1000, 10}));
  const auto def = graph_def_of(graph);
  EXPECT_EQ(def.node(c.node).attr().at("value").s(), "f32[1000,10]");
  EXPECT_LT(def.ByteSizeLong(), 1000u);
}

}  // namespace
}  // namespace troupe
