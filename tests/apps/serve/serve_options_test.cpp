#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/serve/options.hpp"
#include "tests/temporary_directory.hpp"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::TemporaryDirectory;

ServeOptions serve_options(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--model", "m=dir"});
  const auto parsed = parse_serve_options(arguments, false);
  if (const auto* exit = std::get_if<EarlyExit>(&parsed)) {
    ADD_FAILURE() << exit->err << exit->out;
    return {};
  }
  return std::get<ServeOptions>(parsed);
}

std::string serve_refusal(const std::vector<std::string>& arguments) {
  const auto parsed = parse_serve_options(arguments, false);
  const auto* exit = std::get_if<EarlyExit>(&parsed);
  return exit != nullptr ? exit->err : "accepted";
}

TEST(ServeOptions, ModelsAreNamesAndDirectories) {
  const ServeOptions options = serve_options({"--model", "other=s3://bucket/a=b"});
  ASSERT_EQ(options.models.size(), 2u);
  EXPECT_EQ(options.models[0].name, "m");
  EXPECT_EQ(options.models[0].path, "dir");
  EXPECT_EQ(options.models[1].path, "s3://bucket/a=b");
  EXPECT_EQ(options.rest_port, 8501);
  EXPECT_EQ(options.grpc_port, 8500);
  EXPECT_EQ(options.host, "127.0.0.1");
  EXPECT_FALSE(options.batching);
  EXPECT_THAT(serve_refusal({}), HasSubstr("give a --model NAME=DIR, or a --config FILE"));
  EXPECT_THAT(serve_refusal({"--model", "m=d", "--config", "f"}), HasSubstr("cannot be combined"));
  EXPECT_THAT(serve_refusal({"--model", "digits"}), HasSubstr("--model: expected NAME=DIR, not 'digits'"));
  EXPECT_THAT(serve_refusal({"--model", "=d"}), HasSubstr("expected NAME=DIR"));
}

TEST(ServeOptions, BatchesHaveSizesOrRows) {
  const ServeOptions usual = serve_options({"--batch"});
  EXPECT_EQ(usual.batching->most_rows, BatchQueue::Options{}.most_rows);
  const ServeOptions options =
      serve_options({"--batch", "--batch-sizes", "1,8,64", "--batch-timeout", "250", "--batch-queue", "640"});
  EXPECT_THAT(options.batching->allowed_sizes, ElementsAre(1, 8, 64));
  EXPECT_EQ(options.batching->most_rows, 64);
  EXPECT_EQ(options.batching->timeout, 250 * kMicrosecond);
  EXPECT_EQ(options.batching->most_waiting, 640);
  const std::vector<std::string> model{"--model", "m=d"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), model.begin(), model.end());
    return serve_refusal(more);
  };
  EXPECT_THAT(with({"--batch-rows", "4"}), HasSubstr("--batch-rows needs --batch"));
  EXPECT_THAT(with({"--batch", "--batch-sizes", "8,4"}), HasSubstr("ascend"));
  EXPECT_THAT(with({"--batch", "--batch-sizes", "8,"}), HasSubstr("--batch-sizes: expected a whole number"));
  EXPECT_THAT(with({"--batch", "--batch-rows", "4", "--batch-sizes", "4"}), HasSubstr("cannot be combined"));
  EXPECT_THAT(with({"--batch", "--batching-file", "f"}), HasSubstr("cannot be combined"));
}

TEST(ServeOptions, TokensAreWordsOrFiles) {
  TemporaryDirectory directory;
  const std::string file = directory.write("token", "from a file\n");
  const ServeOptions options = serve_options({"--token", "@" + file, "--model-token", "m=a=b"});
  EXPECT_THAT(options.tokens, ElementsAre(Pair("", "from a file"), Pair("m", "a=b")));
  EXPECT_THAT(serve_refusal({"--model", "m=d", "--token", "@" + file + ".none"}), HasSubstr("--token"));
  EXPECT_THAT(serve_refusal({"--model", "m=d", "--token", "@" + directory.write("empty", "\n")}),
              HasSubstr("has no token"));
}

TEST(ServeOptions, DoorsThatCannotOpenAreRefused) {
  EXPECT_THAT(serve_refusal({"--model", "m=d", "--no-rest", "--no-grpc"}), HasSubstr("nothing that listens"));
  EXPECT_THAT(serve_refusal({"--model", "m=d", "--tls-cert", "c"}), HasSubstr("belong together"));
  EXPECT_THAT(serve_refusal({"--model", "m=d", "--client-ca", "c"}), HasSubstr("--client-ca needs --tls-cert"));
  EXPECT_THAT(serve_refusal({"--model", "m=d", "--job", "worker", "--task", "0", "--cluster", "f"}),
              HasSubstr("replicas of job serve and routers of job router"));
  EXPECT_THAT(serve_refusal({"--job", "serve", "--task", "0", "--cluster", "f"}), HasSubstr("give a --model"));
  EXPECT_EQ(serve_refusal({"--job", "router", "--task", "0", "--cluster", "f"}), "accepted");
  const ServeOptions options = serve_options(
      {"--no-grpc", "--poll", "0.25", "--model-memory", "2GiB", "--transition", "resources", "--drain-timeout", "3"});
  EXPECT_FALSE(options.grpc);
  EXPECT_EQ(options.server.poll, std::chrono::milliseconds(250));
  EXPECT_EQ(options.server.manager.memory, std::size_t{2} << 30);
  EXPECT_EQ(options.server.manager.transition, ServableManager::Transition::preserve_resources);
  EXPECT_EQ(options.drain_timeout, std::chrono::seconds(3));
}

}  // namespace
}  // namespace troupe
