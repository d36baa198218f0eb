#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/network/cluster_spec.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;

constexpr const char* kGood =
    R"({"name":"demo","token":"t","ps":["10.0.0.1:7701"],"worker":["10.0.0.1:7711","10.0.0.2:7711"]})";

Error parse_error(const std::string& json) {
  const Error error = error_of([&] { ClusterSpec::parse(json, "c.json"); });
  EXPECT_EQ(error.code(), Code::invalid_argument) << json;
  EXPECT_THAT(error.message(), HasSubstr("c.json"));
  return error;
}

TEST(ClusterSpec, MoreWorkersThanHaveAddressesMayJoinIfItSaysSo) {
  ClusterSpec spec = ClusterSpec::parse(kGood, "c.json");
  EXPECT_TRUE(spec.may_join({"worker", 1}));
  EXPECT_FALSE(spec.may_join({"worker", 2}));
  spec.max_workers = 4;
  spec = ClusterSpec::parse(spec.to_json(), "c.json");
  EXPECT_TRUE(spec.may_join({"worker", 3}));
  EXPECT_FALSE(spec.may_join({"worker", 4}));
  EXPECT_FALSE(spec.may_join({"ps", 1}));
  EXPECT_EQ(spec.count("worker"), 2);
  EXPECT_THAT(parse_error(R"({"name":"d","token":"t","max_workers":0,"worker":["a:1"]})").message(),
              HasSubstr("\"max_workers\" is 0, but 1 workers have addresses"));
  for (const char* value : {"-1", "\"4\"", "2000000", "[]", "1.5"})
    EXPECT_THAT(
        parse_error(fmt::format(R"({{"name":"d","token":"t","max_workers":{},"worker":["a:1"]}})", value)).message(),
        HasSubstr("\"max_workers\" must be an integer of at most 1048576"))
        << value;
}

TEST(HostPort, ParsesWhatItPrints) {
  EXPECT_EQ(HostPort::parse("127.0.0.1:7701"), (HostPort{"127.0.0.1", 7701}));
  EXPECT_EQ(HostPort::parse("ps-0.example:65535"), (HostPort{"ps-0.example", 65535}));
  EXPECT_EQ(HostPort::parse("[::1]:1"), (HostPort{"::1", 1}));
  for (const char* text : {"127.0.0.1:7701", "host:1", "[fe80::2]:80"})
    EXPECT_EQ(HostPort::parse(text).to_string(), text);
}

TEST(HostPort, RefusesWhatIsNoAddress) {
  for (const char* text :
       {"",        ":",       "host",     "host:",   ":7701",   "host:0",    "host:65536", "host:99999999999999999999",
        "host:-1", "host:+1", "host: 1",  "host:1 ", "host:1x", "host:0x10", "[]:1",       "[::1]",
        "[::1:1",  "::1]:1",  "::1:7701", "[host:1", "a b:1"}) {
    const Error error = error_of([&] { HostPort::parse(text); });
    EXPECT_EQ(error.code(), Code::invalid_argument) << text;
    EXPECT_THAT(error.message(), HasSubstr(text));
  }
}

TEST(ClusterSpec, ReadsWhatTheFileSays) {
  const ClusterSpec spec = ClusterSpec::parse(kGood, "c.json");
  EXPECT_EQ(spec.name, "demo");
  EXPECT_EQ(spec.token, "t");
  EXPECT_EQ(spec.tasks, (std::map<TaskName, HostPort>{{{"ps", 0}, {"10.0.0.1", 7701}},
                                                      {{"worker", 0}, {"10.0.0.1", 7711}},
                                                      {{"worker", 1}, {"10.0.0.2", 7711}}}));
  EXPECT_EQ(spec.count("worker"), 2);
  EXPECT_EQ(spec.count("chief"), 0);
  EXPECT_EQ(spec.tasks_on_host_of({"ps", 0}), 2);
  EXPECT_EQ(spec.tasks_on_host_of({"worker", 1}), 1);
  EXPECT_TRUE(spec.contains({"ps", 0}));
  const Error absent = error_of([&] { spec.address({"worker", 2}); });
  EXPECT_EQ(absent.code(), Code::not_found);
  EXPECT_THAT(absent.message(), AllOf(HasSubstr("/job:worker/task:2"), HasSubstr("/job:worker/task:1")));
}

TEST(ClusterSpec, SurvivesBeingWrittenAndReadAgain) {
  const ClusterSpec spec = ClusterSpec::parse(kGood, "c.json");
  const ClusterSpec again = ClusterSpec::parse(spec.to_json(), "again");
  EXPECT_EQ(again.tasks, spec.tasks);
  EXPECT_EQ(again.token, spec.token);
}

TEST(ClusterSpec, SaysAtWhichByteTheTextIsNoJson) {
  EXPECT_THAT(parse_error(R"({"name":"demo",)").message(), HasSubstr("byte 16"));
  EXPECT_THAT(parse_error(R"({"name" "demo"})").message(), HasSubstr("byte 14"));
  EXPECT_THAT(parse_error("").message(), HasSubstr("byte 1"));
  parse_error(std::string(100000, '['));
  parse_error("{\"name\":\"\xff\"}");
}

TEST(ClusterSpec, RefusesWhatIsNoCluster) {
  EXPECT_THAT(parse_error(R"([1, 2])").message(), HasSubstr("expected an object"));
  EXPECT_THAT(parse_error(R"({"ps":["a:1"]})").message(), HasSubstr("\"name\" is missing"));
  EXPECT_THAT(parse_error(R"({"name":"demo"})").message(), HasSubstr(": no tasks"));
  EXPECT_THAT(parse_error(R"({"name":"demo","ps":[]})").message(), HasSubstr(": no tasks"));
  EXPECT_THAT(parse_error(R"({"name":7,"ps":["a:1"]})").message(), HasSubstr("\"name\" must be a string"));
  EXPECT_THAT(parse_error(R"({"name":"demo","token":null,"ps":["a:1"]})").message(),
              HasSubstr("\"token\" must be a string"));
  EXPECT_THAT(parse_error(R"({"name":"demo","ps":"a:1"})").message(), HasSubstr("\"ps\" must be a list"));
  EXPECT_THAT(parse_error(R"({"name":"demo","ps":[7701]})").message(), HasSubstr("/job:ps/task:0 must be a string"));
}

TEST(ClusterSpec, WithoutATokenIsForOneMachineAndForThoseWhoSaySo) {
  const auto with = [](const std::string& token, const std::string& host) {
    return fmt::format(R"({{"name":"demo",{}"ps":["127.0.0.1:1"],"worker":["{}:2"]}})", token, host);
  };
  EXPECT_EQ(ClusterSpec::parse(with(R"("token":"",)", "localhost"), "c").token, "");
  EXPECT_THAT(parse_error(with("", "127.0.0.1")).message(),
              AllOf(HasSubstr("\"token\" is missing"), HasSubstr("'troupe-launch --make-token'"),
                    HasSubstr("everybody on this machine")));
  for (const char* token : {"", R"("token":"",)"})
    EXPECT_THAT(parse_error(with(token, "10.0.0.1")).message(),
                AllOf(HasSubstr("/job:worker/task:0 is reachable from other machines at 10.0.0.1:2"),
                      HasSubstr("'troupe-launch --make-token'")))
        << token;
}

TEST(ClusterSpec, NamesTheKeyThatIsThereTwice) {
  EXPECT_THAT(parse_error(R"({"name":"demo","ps":["a:1"],"ps":["a:2"]})").message(),
              HasSubstr("\"ps\" is given twice"));
  EXPECT_THAT(parse_error(R"({"name":"demo","name":"demo","ps":["a:1"]})").message(),
              HasSubstr("\"name\" is given twice"));
}

TEST(ClusterSpec, NamesTheTaskWithoutAValidAddress) {
  EXPECT_THAT(parse_error(R"({"name":"demo","worker":["a:1","nowhere"]})").message(),
              AllOf(HasSubstr("/job:worker/task:1"), HasSubstr("'nowhere'")));
}

TEST(ClusterSpec, NamesTheTasksWithOneAddress) {
  EXPECT_THAT(parse_error(R"({"name":"demo","ps":["a:1"],"worker":["b:1","a:1"]})").message(),
              AllOf(HasSubstr("/job:ps/task:0"), HasSubstr("/job:worker/task:1"), HasSubstr("a:1")));
}

TEST(ClusterSpec, RefusesAJobWhoseNameCannotBeInADeviceName) {
  for (const char* job : {"", "a/b", "*", "a b", "a:b"})
    EXPECT_THAT(parse_error(fmt::format(R"({{"name":"demo","{}":["a:1"]}})", job)).message(),
                HasSubstr(fmt::format("\"{}\" is not a valid job name", job)));
}

TEST(ClusterSpec, BoundsNamesAndTheToken) {
  const auto with = [](const std::string& name, const std::string& token, const std::string& job) {
    return fmt::format(R"({{"name":"{}","token":"{}","{}":["h:1"]}})", name, token, job);
  };
  EXPECT_EQ(ClusterSpec::parse(with(std::string(256, 'n'), std::string(256, 't'), std::string(64, 'j')), "c")
                .count(std::string(64, 'j')),
            1);
  EXPECT_THAT(parse_error(with(std::string(257, 'n'), "t", "j")).message(),
              HasSubstr("\"name\" has more than 256 bytes"));
  EXPECT_THAT(parse_error(with("n", std::string(10 << 20, 't'), "j")).message(), HasSubstr("\"token\" has more than"));
  EXPECT_THAT(parse_error(with("n\\u0000", "t", "j")).message(), HasSubstr("a control character"));
  EXPECT_THAT(parse_error(with("n", "t", std::string(65, 'j'))).message(), HasSubstr("is not a valid job name"));
  EXPECT_THAT(parse_error(with("n", "t", "j\\u0000")).message(), HasSubstr("is not a valid job name"));
}

TEST(ClusterSpec, ReadsSixtyThousandTasks) {
  std::string tasks;
  for (int i = 0; i < 60000; ++i) tasks += fmt::format("{}\"10.0.{}.{}:1\"", i == 0 ? "" : ",", i / 256, i % 256);
  EXPECT_EQ(ClusterSpec::parse(fmt::format(R"({{"name":"n","token":"t","worker":[{}]}})", tasks), "c").count("worker"),
            60000);
}

TEST(ClusterSpec, AFileThatDoesNotEndIsNone) {
  EXPECT_THAT(error_of([] { ClusterSpec::read("/dev/zero"); }).message(), HasSubstr(": not a cluster file"));
}

TEST(ClusterSpec, AFileWithATokenIsForItsOwnerOnly) {
  testing::TemporaryDirectory directory;
  EXPECT_EQ(ClusterSpec::read(directory.write("mine.json", kGood)).tasks.size(), 3u);
  for (mode_t mode : {0640, 0604, 0660}) {
    const std::string file = directory.write("others.json", kGood, mode);
    const Error error = error_of([&] { ClusterSpec::read(file); });
    EXPECT_EQ(error.code(), Code::permission_denied) << mode;
    EXPECT_THAT(error.message(), AllOf(HasSubstr(file), HasSubstr("chmod 600"))) << mode;
  }
  EXPECT_NO_THROW(
      ClusterSpec::read(directory.write("open.json", R"({"name":"demo","token":"","ps":["[::1]:1"]})", 0644)));
}

TEST(ClusterSpec, NamesTheFileItCannotRead) {
  testing::TemporaryDirectory directory;
  const Error absent = error_of([&] { ClusterSpec::read(directory.file("none.json")); });
  EXPECT_EQ(absent.code(), Code::not_found);
  EXPECT_THAT(absent.message(), HasSubstr("none.json"));
  EXPECT_THAT(error_of([&] { ClusterSpec::read(directory.write("bad.json", "{")); }).message(),
              HasSubstr("bad.json: not JSON at byte 2"));
}

}  // namespace
}  // namespace troupe
