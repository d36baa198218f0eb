// What TensorBoard reads: event files, histograms, graphs, summaries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <limits>

#include "tests/actors/tensorboard/event_reader.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/tensorboard/event_file.hpp>
#include <troupe/actors/tensorboard/graph_def.hpp>
#include <troupe/actors/tensorboard/histogram.hpp>
#include <troupe/actors/tensorboard/png.hpp>
#include <troupe/actors/tensorboard/summary_writer.hpp>
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

// The rows of an image that is one chunk of data, each after its filter.
std::string rows_of(const std::string& png, std::size_t size) {
  const std::size_t begin = png.find("IDAT") + 4;
  std::string rows(size, '?');
  uLongf got = size;
  EXPECT_EQ(::uncompress(reinterpret_cast<Bytef*>(rows.data()), &got,
                         reinterpret_cast<const Bytef*>(png.data()) + begin, png.size() - begin),
            Z_OK);
  EXPECT_EQ(got, size);
  return rows;
}

// The bytes around the compressed rows are those that Python's zlib.crc32 and struct make.
TEST(PngOf, HasSignatureHeaderAndEnd) {
  const std::vector<std::uint8_t> pixels = {255, 0, 0, 0, 0, 255};
  const std::string rgb = png_of(pixels, 1, 2, 3), grey = png_of(std::span(pixels).first(2), 2, 1, 1);
  const std::string signature = "89504e470d0a1a0a", end = "0000000049454e44ae426082";
  EXPECT_EQ(hex(rgb).substr(0, 66), signature + "0000000d49484452000000020000000108020000007b40e8dd");
  EXPECT_EQ(hex(grey).substr(0, 66), signature + "0000000d4948445200000001000000020800000000bceae9fb");
  EXPECT_EQ(hex(rgb).substr(2 * rgb.size() - end.size()), end);
  EXPECT_EQ(hex(rows_of(rgb, 7)), "00ff00000000ff");
  EXPECT_EQ(hex(rows_of(grey, 4)), "00ff0000");
  const std::size_t data = rgb.find("IDAT"), size = rgb.size() - 16 - data - 4;  // and its length and CRC
  std::uint32_t crc = 0;
  for (std::size_t i = 0; i < 4; ++i) crc = crc << 8 | static_cast<unsigned char>(rgb[data + 4 + size + i]);
  EXPECT_EQ(crc, ::crc32(0, reinterpret_cast<const Bytef*>(rgb.data()) + data, static_cast<uInt>(size + 4)));
}

TEST(PngOf, OtherImagesAreRefused) {
  const std::vector<std::uint8_t> pixels(12);
  EXPECT_THAT(error_of([&] { png_of(pixels, 1, 2, 5); }).message(), HasSubstr("1 to 4 channels, not 5"));
  EXPECT_THAT(error_of([&] { png_of(pixels, 2, 2, 4); }).message(), HasSubstr("2 x 2 x 4 has 12 values"));
  EXPECT_THAT(error_of([&] { png_of({}, 0, 2, 3); }).message(), HasSubstr("0 x 2 pixels"));
  EXPECT_THAT(error_of([&] { png_of(pixels, 1LL << 62, 1LL << 62, 3); }).message(), HasSubstr("cannot be written"));
}

class SummaryWriter : public ::testing::Test {
 protected:
  std::vector<proto::tensorboard::Event> written() const {
    auto events = testing::read_events(testing::event_files(directory.file("curves")).at(0));
    events.erase(events.begin());  // the version
    return events;
  }
  const testing::TemporaryDirectory directory;
  summary::Writer writer{directory.file("curves")};
};

TEST_F(SummaryWriter, WritesNumbersHistogramsAndTexts) {
  writer.scalar("loss", 0.25, 7);
  writer.histogram("weights", Tensor::of<float>(Shape{2, 2}, {1, 1, 2, 3}), 8);
  writer.text("words", "some *words*", 9);
  const auto events = written();
  ASSERT_EQ(events.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(events[static_cast<std::size_t>(i)].step(), 7 + i);
  EXPECT_EQ(events[0].summary().value(0).tag(), "loss");
  EXPECT_EQ(events[0].summary().value(0).simple_value(), 0.25F);
  EXPECT_EQ(events[1].summary().value(0).histo().sum(), 7);
  // Tag 1, tensor 8 (dtype 1: DT_STRING, tensor_shape 2: a scalar, string_val 8), metadata 9 (plugin_data 1 with the
  // name 1, data_class 4: a tensor).
  EXPECT_EQ(hex(events[2].summary().value(0).SerializeAsString()), "0a05" + hex("words") + "4212" + "0807" + "1200" +
                                                                       "420c" + hex("some *words*") + "4a0a" + "0a06" +
                                                                       "0a04" + hex("text") + "2002");
}

TEST_F(SummaryWriter, WritesTheFirstImagesOfABatch) {
  Tensor images(DType::f32, Shape{3, 1, 2, 1});
  std::ranges::copy(std::vector<float>{0, 1, 0.5, -1, std::nanf(""), 7}, images.mutable_data<float>());
  writer.image("grey", images, 1, 2);
  writer.image("one", Tensor::of<std::uint8_t>(Shape{1, 1, 2, 1}, {3, 4}), 2, 1);
  const auto events = written();
  const auto& grey = events[0].summary();
  ASSERT_EQ(grey.value_size(), 2);
  EXPECT_EQ(grey.value(0).tag(), "grey/image/0");
  EXPECT_EQ(grey.value(1).tag(), "grey/image/1");
  EXPECT_EQ(hex(rows_of(grey.value(0).image().encoded_image_string(), 3)), "0000ff");
  EXPECT_EQ(hex(rows_of(grey.value(1).image().encoded_image_string(), 3)), "008000");
  EXPECT_EQ(grey.value(0).image().height(), 1);
  EXPECT_EQ(grey.value(0).image().width(), 2);
  EXPECT_EQ(grey.value(0).image().colorspace(), 1);
  EXPECT_EQ(events[1].summary().value(0).tag(), "one/image");
  EXPECT_EQ(hex(rows_of(events[1].summary().value(0).image().encoded_image_string(), 3)), "000304");
  writer.image("all", images, 3, 5);
  EXPECT_EQ(written()[2].summary().value_size(), 3);
}

TEST_F(SummaryWriter, RefusesOtherTensors) {
  EXPECT_THAT(error_of([&] {
                writer.image("x", Tensor(DType::i32, Shape{1, 1, 1, 1}), 0);
              }).message(),
              HasSubstr("images must be u8 or floats [n, height, width, channels], not i32[1,1,1,1]"));
  EXPECT_THAT(error_of([&] { writer.histogram("x", Tensor(DType::string, Shape{1}), 0); }).message(),
              HasSubstr("a histogram needs numbers, not string"));
  EXPECT_THAT(written(), IsEmpty());
}

}  // namespace
}  // namespace troupe
