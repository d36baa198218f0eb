// What others see of a task over the introspector's socket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <future>
#include <optional>
#include <thread>

#include "tests/actors/task_cluster.hpp"
#include "tests/actors/wire/certificates.hpp"
#include "tests/error_of.hpp"
#include "tests/paths.hpp"
#include "tests/patience.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/introspection/introspection_token.hpp>
#include <troupe/actors/introspection/metrics.hpp>
#include <troupe/actors/introspection/observer.hpp>
#include <troupe/actors/wire/socket.hpp>
#include <troupe/messages/caf/protocol.hpp>
#include <troupe/troupe.hpp>

namespace troupe {
namespace {

using testing::kPatience;

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using testing::error_of;
using testing::eventually;

class LookingIn : public ::testing::Test {
 protected:
  void start(const std::vector<TaskName>& names, const NetworkOptions& network = {}) {
    std::vector<TaskOptions> options;
    for (const TaskName& name : names) options.push_back({.name = name, .network = network});
    tasks.start(std::move(options));
  }
  HttpTarget target(std::size_t task = 0) { return *tasks[task].introspection().target(); }
  std::string get(const std::string& path) { return http_get(target(), path, kPatience); }
  // Of all tasks, however busy the machine is.
  ClusterSnapshot snapshot_of_all() {
    ClusterSnapshot all;
    eventually([&] {
      all = parse_cluster_snapshot(get("/snapshot"));
      return std::ranges::all_of(all.tasks, &TaskReport::answered);
    });
    return all;
  }

  testing::TaskCluster tasks;
};

// The first snapshot of an observer, which asks the next task if one is late: begins again until it is of this one.
ClusterSnapshot first_snapshot(std::optional<Observer>& observer, const Observer::Options& options,
                               const std::string& asked) {
  ClusterSnapshot all;
  eventually([&] {
    observer.emplace(options);
    return !error_of([&] { all = observer->snapshot(); }) && all.asked == asked;
  });
  return all;
}
std::string asked_first(const Observer::Options& options, const std::string& asked) {
  std::optional<Observer> observer;
  return first_snapshot(observer, options, asked).asked;
}

// Why no task has answered an observer; not that it was late.
Error refusal_of(const Observer::Options& options) {
  Error error;
  eventually([&] {
    error = error_of([&] { Observer(options).snapshot(); });
    return !error || error.code() != Code::unavailable;
  });
  return error;
}

const ActorSnapshot* find(const TaskSnapshot& task, const std::string& kind) {
  for (const ActorSnapshot& actor : task.actors)
    if (actor.kind == kind) return &actor;
  return nullptr;
}

TEST_F(LookingIn, OneTaskTellsOfAllTheirActorsLinksAndDevices) {
  start({{"worker", 0}, {"worker", 1}, {"ps", 0}});
  const ClusterSnapshot all = snapshot_of_all();
  EXPECT_EQ(all.cluster, "test");
  EXPECT_EQ(all.asked, "/job:worker/task:0");
  ASSERT_EQ(all.tasks.size(), 3u);
  const char* names[] = {"/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"};
  for (std::size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(names[i]);
    const TaskReport& report = all.tasks[i];
    EXPECT_EQ(report.task, names[i]);
    ASSERT_TRUE(report.answered) << report.error;
    EXPECT_EQ(report.snapshot->task, names[i]);
    for (const char* kind : {"node", "scheduler", "rendezvous", "collective", "device", "peer", "introspector"})
      EXPECT_TRUE(find(*report.snapshot, kind)) << kind << " of " << names[i];
    ASSERT_EQ(report.snapshot->links.size(), 2u);
    for (const LinkSnapshot& link : report.snapshot->links) {
      SCOPED_TRACE(link.peer);
      EXPECT_TRUE(link.up);
      EXPECT_TRUE(link.shared_memory);
      EXPECT_GT(link.bytes_sent, 0u);
    }
    ASSERT_EQ(report.snapshot->devices.size(), 1u);
    EXPECT_EQ(report.snapshot->devices[0].name, std::string(names[i]) + "/device:CPU:0");
  }
  EXPECT_NE(all.tasks[0].snapshot->incarnation, all.tasks[1].snapshot->incarnation);
}

TEST_F(LookingIn, NeedsTheTokenThatTheClustersIsTheSourceOf) {
  start({{"worker", 0}});
  HttpTarget stranger = target();
  const std::string right = stranger.token;
  EXPECT_EQ(right, introspection_token("secret", "test"));
  // HMAC-SHA256 of "troupe introspection", with what scrypt makes of "secret" as the key.
  EXPECT_EQ(right, "daefade3801b3c33049d8ecce51cc7a8");
  EXPECT_NE(right, introspection_token("secrets", "test"));
  EXPECT_THAT(right, Not(HasSubstr("secret")));
  for (const std::string& wrong : {std::string(), std::string("secret"), right + "0", right.substr(1)}) {
    SCOPED_TRACE(::testing::Message() << "token '" << wrong << "'");
    stranger.token = wrong;
    for (const char* path : {"/snapshot", "/task", "/why", "/metrics", "/flight", "/nothing"})
      EXPECT_EQ(error_of([&] { http_get(stranger, path, kPatience); }).code(), Code::unauthenticated) << path;
    EXPECT_THAT(http_get(stranger, "/healthz", kPatience), HasSubstr(R"("status":"ok")"));
  }
  stranger.token = "";
  EXPECT_EQ(error_of([&] { http_get(stranger, "/task?token=" + right, kPatience); }).code(), Code::unauthenticated)
      << "where it would be kept in histories and logs";
  EXPECT_THAT(http_get(stranger, "/", kPatience), HasSubstr("<html"));  // as a browser does
}

TEST_F(LookingIn, ALostDeviceIsSeenAndMakesItsTaskUnhealthy) {
  Task task({.threads = 1,
             .gpus = {.count = 1, .plugin = testing::built_library("libsimulated_gpu.so")},
             .introspect_port = 0});
  const HttpTarget there = *task.introspection().target();
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{2, 1}, "x");
  const Output twice = add(x, x), last = transpose(twice, {}, "lose_the_gpu");
  Session session(task, g);
  const Tensor fed(DType::f32, Shape{2, 1}, Tensor::vector<float>({1, 2}).buffer());
  const Tensor kept = session.run({{x, fed}}, twice);
  const auto gpu = [&] { return parse_task_snapshot(http_get(there, "/task", kPatience)).devices.at(1); };
  const DeviceSnapshot sound = gpu();
  EXPECT_EQ(sound.failure, "");
  EXPECT_GT(sound.pinned_bytes, 0u) << "what was fetched";
  EXPECT_GT(sound.allocations, task.device(1).allocator().stats().allocations) << "what was fed is memory too";
  EXPECT_THAT(http_get(there, "/healthz", kPatience), HasSubstr(R"("status":"ok")"));

  EXPECT_TRUE(error_of([&] { session.run({{x, fed}}, last); }));
  EXPECT_THAT(gpu().failure, HasSubstr("/device:GPU:0 is lost"));
  EXPECT_THAT(error_of([&] { http_get(there, "/healthz", kPatience); }).message(), HasSubstr("/device:GPU:0 is lost"));
  EXPECT_THAT(
      http_get(there, "/metrics", kPatience),
      AllOf(HasSubstr(R"(troupe_device_lost{task="/job:local/task:0",device="/job:local/task:0/device:GPU:0"} 1)"),
            HasSubstr(R"(troupe_device_lost{task="/job:local/task:0",device="/job:local/task:0/device:CPU:0"} 0)")));
}

TEST_F(LookingIn, CanOnlyBeRead) {
  start({{"worker", 0}});
  EXPECT_EQ(error_of([&] { http_post(target(), "/snapshot", kPatience); }).code(), Code::unimplemented);
  const Error unknown = error_of([&] { get("/etc/passwd"); });
  EXPECT_EQ(unknown.code(), Code::not_found);
  EXPECT_THAT(unknown.message(), HasSubstr("no page /etc/passwd; there are /, /snapshot"));
}

TEST_F(LookingIn, AFlightRecordOfAnyTaskIsReachedThroughTheOneThatIsAsked) {
  start({{"worker", 0}, {"worker", 1}, {"ps", 0}});
  const auto in_time = [&](const std::function<std::string()>& ask) {  // however busy the machine is
    std::string out;
    Error error;
    eventually([&] {
      error = error_of([&] { out = ask(); });
      return error.code() != Code::deadline_exceeded && error.code() != Code::unavailable;
    });
    return error ? error.to_string() : out;
  };
  const auto record_of = [&](const std::string& name) { return in_time([&] { return get("/flight?task=" + name); }); };
  EXPECT_THAT(get("/flight"), StartsWith("Flight record of /job:worker/task:0, "));
  for (const char* name : {"/job:worker/task:0", "worker/0"})
    EXPECT_THAT(record_of(name), StartsWith("Flight record of /job:worker/task:0, ")) << name;
  for (const char* name : {"/job:worker/task:1", "worker/1", "%2Fjob%3Aworker%2Ftask%3A1"})
    EXPECT_THAT(record_of(name),
                AllOf(StartsWith("Flight record of /job:worker/task:1, "), HasSubstr("\nnode /job:worker/task:1\n")))
        << name;
  for (const char* unknown : {"worker/2", "worker", "", "/", "http://127.0.0.1:1/"}) {
    const Error error = error_of([&] { get(std::string("/flight?task=") + unknown); });
    EXPECT_EQ(error.code(), Code::not_found) << unknown;
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr("no task '" + std::string(unknown) + "' in the cluster"),
                      HasSubstr("/job:worker/task:1"), HasSubstr("/job:worker/task:0"), HasSubstr("/job:ps/task:0")));
  }
  HttpTarget stranger = target();
  stranger.token = "guess";
  EXPECT_EQ(error_of([&] { http_get(stranger, "/flight?task=worker/1", kPatience); }).code(), Code::unauthenticated);
  EXPECT_THAT(in_time([&] { return Observer({.address = target().url()}).flight_record("ps/0"); }),
              StartsWith("Flight record of /job:ps/task:0, "));
  tasks.shut_down(1);
  const Error gone = error_of([&] { get("/flight?task=worker/1"); });
  EXPECT_EQ(gone.code(), Code::unavailable);
  EXPECT_THAT(gone.message(), AllOf(HasSubstr("/job:worker/task:1: "), HasSubstr("nobody listens")));
}

TEST_F(LookingIn, IsEncryptedAsTheClusterIs) {
  const testing::TemporaryDirectory directory;
  testing::Authority ca(directory.file(""), "ca"), other(directory.file(""), "other");
  start({{"worker", 0}, {"worker", 1}}, {.tls = ca.issue("task")});
  EXPECT_THAT(target().url(), HasSubstr("https://"));
  const ClusterSnapshot all = snapshot_of_all();
  ASSERT_EQ(all.tasks.size(), 2u);
  for (const TaskReport& report : all.tasks) EXPECT_TRUE(report.answered) << report.error;
  const NetworkOptions network{.tls = target().tls};
  EXPECT_EQ(asked_first({.address = target().url(), .network = network}, "/job:worker/task:0"), "/job:worker/task:0");
  HttpTarget plain = target();
  plain.tls = {};
  EXPECT_EQ(error_of([&] { http_get(plain, "/task", kPatience); }).code(), Code::unavailable);
  HttpTarget stranger = target();
  stranger.tls = other.issue("stranger");
  EXPECT_EQ(error_of([&] { http_get(stranger, "/task", kPatience); }).code(), Code::unavailable);
}

TEST_F(LookingIn, AnObserverFindsATaskByItsControlPortAndAnotherWhenItIsGone) {
  start({{"worker", 0}, {"worker", 1}});
  const Observer::Options options{.address = tasks.spec().tasks.at({"worker", 0}).to_string(), .cluster = tasks.spec()};
  std::optional<Observer> observer;
  EXPECT_EQ(first_snapshot(observer, options, "/job:worker/task:0").asked, "/job:worker/task:0");
  tasks.shut_down(0);
  ClusterSnapshot left;
  eventually([&] { return !error_of([&] { left = observer->snapshot(); }); });
  EXPECT_EQ(left.asked, "/job:worker/task:1");
  ASSERT_EQ(left.tasks.size(), 2u);
  EXPECT_FALSE(left.tasks[0].answered);
  EXPECT_THAT(left.tasks[0].error, HasSubstr("nobody listens"));
  // Who has seen none of them finds it too.
  EXPECT_EQ(asked_first(options, "/job:worker/task:1"), "/job:worker/task:1");
  tasks.shut_down(1);
  const Error nobody = error_of([&] { observer->snapshot(); });
  EXPECT_EQ(nobody.code(), Code::unavailable);
  EXPECT_THAT(nobody.message(), HasSubstr("no task answers"));
}

TEST_F(LookingIn, AnObserverIsToldWhatIsWrong) {
  start({{"worker", 0}});
  const std::string address = tasks.spec().tasks.at({"worker", 0}).to_string();
  EXPECT_EQ(error_of([] { Observer({}); }).code(), Code::invalid_argument);
  EXPECT_EQ(error_of([] { Observer({.address = "nowhere"}); }).code(), Code::invalid_argument);
  const Error none = refusal_of({.address = address});
  EXPECT_EQ(none.code(), Code::unauthenticated);
  EXPECT_THAT(none.message(), HasSubstr("pass the cluster file with --cluster"));
  ClusterSpec wrong = tasks.spec();
  wrong.token = "guess";
  EXPECT_EQ(refusal_of({.address = address, .cluster = wrong}).code(), Code::unauthenticated);
  EXPECT_EQ(asked_first({.address = target().url()}, "/job:worker/task:0"), "/job:worker/task:0");  // as it is printed
  const std::string plain = "http://" + target().address.to_string();
  for (const auto& [url, what] : {std::pair(plain, "it needs a token; pass the whole address"),
                                  std::pair(plain + "/#token=guess", ": wrong token; pass the whole address")}) {
    SCOPED_TRACE(url);
    const Error refused = refusal_of({.address = url});
    EXPECT_EQ(refused.code(), Code::unauthenticated);
    EXPECT_THAT(refused.message(), HasSubstr(what));
  }
  EXPECT_THAT(error_of([&] { Observer({.address = "https://127.0.0.1:1"}); }).message(), HasSubstr("--tls-cert"));
  // What the page is shown at, without http://: nobody speaks there as tasks do with each other.
  const Error other_port = error_of([&] { Observer({.address = target().address.to_string()}).snapshot(); });
  EXPECT_EQ(other_port.code(), Code::unavailable);
  EXPECT_THAT(other_port.message(), HasSubstr("Pass a browser address whole"));
}

// ---- A task that does not answer -----------------------------------------------------------------------------------

TEST(SilentTasks, AreShownAsSuchAndTheOthersAsTheyAre) {
  wire::Fd listener = wire::listen_on(wire::resolve("127.0.0.1", 0));
  std::vector<KnownTask> others{
      {.task = "/job:ps/task:0",
       .target = {.address = {"127.0.0.1", wire::port_of(listener)}}},  // takes connections, and never answers
      {.task = "/job:worker/task:3", .unknown = "no link yet to 127.0.0.1:7"}};
  EXPECT_EQ(error_of([&] { ask_task(others[0], "/flight", 100ms); }).message(),
            "/job:ps/task:0: no answer within 0.1 s");
  EXPECT_EQ(error_of([&] { ask_task(find_task(others, "worker/3"), "/flight", kPatience); }).message(),
            "/job:worker/task:3: no link yet to 127.0.0.1:7");
  ClusterView view([] { return TaskSnapshot{.task = "/job:worker/task:10"}; }, [&] { return others; });
  const ClusterSnapshot all = view.snapshot();
  ASSERT_EQ(all.tasks.size(), 3u);
  EXPECT_EQ(all.tasks[0].task, "/job:ps/task:0");
  EXPECT_FALSE(all.tasks[0].answered);
  EXPECT_EQ(all.tasks[0].error, "no answer within 0.9 s");
  EXPECT_EQ(all.tasks[1].task, "/job:worker/task:3");
  EXPECT_EQ(all.tasks[1].error, "no link yet to 127.0.0.1:7");
  EXPECT_TRUE(all.tasks[2].answered);
}

TEST(SilentTasks, ManyViewersAskOnceInAQuarterOfASecond) {
  int asked = 0;
  std::chrono::steady_clock::time_point now(1h);
  ClusterView view([&] { return TaskSnapshot{.task = "/job:local/task:0", .uptime_ns = ++asked}; },
                   [] { return std::vector<KnownTask>(); }, [&] { return now; });
  for (const auto& [passes, times] : {std::pair(0ms, 1), std::pair(249ms, 1), std::pair(1ms, 2)}) {
    now += passes;
    std::vector<std::jthread> viewers;
    for (int i = 0; i < 8; ++i) viewers.emplace_back([&] { view.snapshot(); });
    viewers.clear();
    EXPECT_EQ(asked, times) << passes.count() << " ms later";
  }
}

// ---- A busy task ---------------------------------------------------------------------------------------------------

// An op that takes until the test lets it go.
struct Held {
  std::promise<void> reached, released;
};

TEST(BusyTask, IsSeenAtWorkAndItsFlightRecordTellsOfTheSteps) {
  Held held;
  auto ops = std::make_shared<OpRegistry>(standard_ops());
  ops->add(Op("Held")
               .input("x", DType::f32)
               .output("y", DType::f32)
               .shape([](ShapeContext& c) { c.set_output(0, c.input(0)); })
               .stateful());
  TaskOptions options{.threads = 1, .introspect_port = 0, .ops = ops};
  options.register_kernels = [&](KernelRegistry& kernels) {
    kernels.add({.op = "Held", .device_type = "CPU", .dtypes = {}, .make = [&](const KernelInit&) -> Kernel {
                   return [&](KernelContext& context) {
                     held.reached.set_value();
                     held.released.get_future().wait_for(kPatience);
                     context.set_output(0, context.input(0));
                   };
                 }});
  };
  Task task(options);
  Graph g(*ops);
  const Output x = placeholder(g, DType::f32, {1024}, "x");
  const Output y = add_op("Held", {add(x, x)}, {}, "slow");
  Session session(task, g);
  auto running = std::async(std::launch::async, [&] { return session.run({{x, Tensor(DType::f32, {1024})}}, y); });
  ASSERT_EQ(held.reached.get_future().wait_for(kPatience), std::future_status::ready);
  const TaskSnapshot busy = parse_task_snapshot(http_get(*task.introspection().target(), "/task", kPatience));
  const ActorSnapshot* device = find(busy, "device");
  ASSERT_TRUE(device);
  EXPECT_EQ(device->state, "busy");
  EXPECT_EQ(device->current, "ExecuteSegment");
  EXPECT_EQ(busy.devices.at(0).queue, 1u);
  EXPECT_GE(busy.devices.at(0).bytes_in_use, 4096u);
  ASSERT_FALSE(busy.devices.at(0).largest.empty());
  EXPECT_GE(busy.devices.at(0).largest[0].bytes, 4096u);
  held.released.set_value();
  running.get();
  const std::string flight = http_get(*task.introspection().target(), "/flight", kPatience);
  EXPECT_THAT(flight, AllOf(HasSubstr("device /job:local/task:0/device:CPU:0"), HasSubstr("ExecuteSegment")));
}

TEST(TrainingRecords, KnowTheStepsOfTheJobAndTheMetricsOfTheLastEpoch) {
  TrainingRecord record;
  record.begin("local", 3);
  record.set_epoch(2, 30);
  record.set_metrics({{"test_accuracy", 0.75}});
  const TrainingSnapshot seen = *record.snapshot();
  EXPECT_EQ(seen.all_steps, 30u);
  EXPECT_EQ(seen.metrics.at("test_accuracy"), 0.75);
  record.begin("local", 3);
  EXPECT_TRUE(record.snapshot()->metrics.empty()) << "they are those of another job";
}

TEST(LargestTensors, AreTheLargestKindsAndEqualOnesAreCounted) {
  const LiveBuffer weights{.type = "f32[784,128]", .op = "", .node = "", .bytes = 401'408},
      gradient{.type = "f32[784,128]", .op = "MatMul", .node = "gradients/m", .bytes = 401'408},
      bias{.type = "f32[128]", .op = "", .node = "", .bytes = 512};
  const auto uses = tensors_of({bias, weights, gradient, weights, weights, gradient}, 2);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].count, 3u);
  EXPECT_EQ(uses[0].bytes, 401'408u);
  EXPECT_EQ(uses[1].name, "MatMul 'gradients/m'");
  EXPECT_EQ(uses[1].count, 2u);
}

TEST(FlightRecord, KeepsTheLast256) {
  FlightRecord record;
  const MessageKind kind("x");
  for (std::uint64_t i = 1; i <= 1000; ++i)
    record.add(kind, static_cast<std::int64_t>(i),
               {.step = i, .bytes = 2 * i, .from = PackedTask::of({"worker", static_cast<int>(i)})});
  const auto entries = record.entries();
  ASSERT_EQ(entries.size(), 256u);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::uint64_t n = 1000 - 256 + 1 + i;
    EXPECT_EQ(entries[i].note.step, n);
    EXPECT_EQ(entries[i].note.bytes, 2 * n);
    EXPECT_EQ(entries[i].note.from.to_string(), "/job:worker/task:" + std::to_string(n));
  }
}

TEST(FlightRecord, IsWrittenWhenTheTaskFails) {
  const testing::TemporaryDirectory directory;
  Task task({.threads = 1, .flight_directory = directory.file("")});
  task.actors().escalate(Error(Code::internal, "an actor has failed"));
  const Error why = task.failure();
  EXPECT_THAT(why.message(),
              AllOf(HasSubstr("an actor has failed"), HasSubstr("its last messages are in " + directory.file(""))));
}

TEST(MessageKinds, HaveTheNamesOfTheProtocol) {
  EXPECT_EQ(MessageKind::of<RunStep>().label, "RunStep");
  EXPECT_EQ(MessageKind::of<Inbound<Push>>().label, "Push");
  EXPECT_EQ(MessageKind::of<Put>().label, "Put");
  MessageNote note;
  const Outbound outbound{Push{.step = 7, .gradient = Tensor(DType::f32, {10})}};
  EXPECT_EQ(MessageKind::of<Outbound>().describe(&outbound, note).label, "to wire: Push");
  EXPECT_EQ(note.step, 7u);
  EXPECT_EQ(note.bytes, 40u);
  const Inbound<Pull> inbound{{"worker", 3}, Pull{.reply_to = {.step = StepId{9}}}};
  note = {};
  MessageKind::of<Inbound<Pull>>().describe(&inbound, note);
  EXPECT_EQ(note.step, 9u);
  EXPECT_EQ(note.from.to_string(), "/job:worker/task:3");
}

// ---- Prometheus ----------------------------------------------------------------------------------------------------

TEST(Metrics, AreInPrometheusFormat) {
  ClusterSnapshot cluster;
  TaskSnapshot task{.task = "/job:ps/task:0", .uptime_ns = 1'500'000'000};
  task.actors.push_back({.kind = "shard", .name = "a\"b\\c\nd", .mailbox = 2, .handled = 5, .passed = 1});
  task.shards.push_back({.version = 7, .counts = {{"pushes", 12}}, .staleness = {3, 4}});
  cluster.tasks.push_back({.task = task.task, .answered = true, .snapshot = task});
  cluster.tasks.push_back({.task = "/job:worker/task:0"});
  const std::string text = to_metrics(cluster);
  for (const char* line :
       {"# TYPE troupe_up gauge\ntroupe_up{task=\"/job:ps/task:0\"} 1\ntroupe_up{task=\"/job:worker/task:0\"} 0\n",
        "troupe_uptime_seconds{task=\"/job:ps/task:0\"} 1.500000000\n",
        "troupe_actor_messages_total{task=\"/job:ps/task:0\",kind=\"shard\",name=\"a\\\"b\\\\c\\nd\"} 6\n",
        "troupe_shard_version{task=\"/job:ps/task:0\",shard=\"0\"} 7\n",
        "troupe_shard_events_total{task=\"/job:ps/task:0\",shard=\"0\",what=\"pushes\"} 12\n",
        "troupe_shard_staleness_total{task=\"/job:ps/task:0\",shard=\"0\",updates=\"1\"} 4\n"})
    EXPECT_THAT(text, HasSubstr(line));
  // Each family stands together, with one line of help.
  std::map<std::string, int> types;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("# TYPE ")) ++types[line];
  for (const auto& [line, count] : types) EXPECT_EQ(count, 1) << line;
}

}  // namespace
}  // namespace troupe
