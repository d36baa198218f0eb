// How tasks meet over networks, with certificates and limits, and who is kept out. Over real sockets.
#include <caf/scoped_actor.hpp>
#include <future>
#include <thread>

#include "messages/proto/run.pb.h"
#include "tests/actors/wire/certificates.hpp"
#include "tests/actors/wire/loose_tls_peer.hpp"
#include "tests/actors/wire/wire_testing.hpp"
#include "tests/error_of.hpp"
#include "tests/patience.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/session/group.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/actors/wire/ask.hpp>
#include <troupe/actors/wire/socket.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/formats/serialize_proto.hpp>

namespace troupe {
namespace {

using namespace std::chrono_literals;
using testing::Authority;
using testing::error_of;
using testing::TemporaryDirectory;

const TaskName kPs{"ps", 0};
const TaskName kWorker{"worker", 0};

TaskOptions options_of(const TaskName& name, const NetworkOptions& network = {}) {
  return {.name = name, .threads = 1, .networked = true, .network = network};
}

ClusterSpec cluster_of(const std::vector<const Task*>& tasks) {
  ClusterSpec cluster{"demo", wire::kToken, {}};
  for (const Task* task : tasks) cluster.tasks[task->name()] = {"127.0.0.1", task->port()};
  return cluster;
}

// Twice x, computed on the other task.
float run_on(const TaskName& task, Task& client) {
  Graph g;
  Output x = placeholder(g, DType::f32, {}, "x");
  Output y;
  {
    const auto scope = g.on_device(task.to_string());
    y = x + x;
  }
  Session session(client, g);
  return session.run({{x, Tensor::scalar(2.0f)}}, y).item<float>();
}

bool says(const Error& error, const std::string& text) { return error.message().find(text) != std::string::npos; }

// Whoever waits says so, and for whom.
TEST(Meeting, TellsWhomItWaitsFor) {
  std::promise<std::string> said;
  TaskOptions options = options_of(kWorker);
  options.wait_word = 20ms;
  options.on_wait = [&, told = false](const std::string& text) mutable {
    if (!std::exchange(told, true)) said.set_value(text);
  };
  Task worker(options), ps(options_of(kPs));
  const ClusterSpec cluster = cluster_of({&ps, &worker});
  std::jthread waits([&] { worker.join(cluster, 60s); });
  const std::string text = said.get_future().get();
  EXPECT_NE(text.find(fmt::format("/job:worker/task:0 waits for /job:ps/task:0 at 127.0.0.1:{}", ps.port())),
            std::string::npos)
      << text;
  ps.join(cluster, 60s);
}

TEST(Meeting, ALinkHasANumberThatNoOtherGets) {
  Task ps(options_of(kPs)), client(options_of({"client", 0}));
  auto worker = std::make_unique<Task>(options_of(kWorker));
  const ClusterSpec cluster = cluster_of({&ps, worker.get()});
  EXPECT_EQ(client.await_link(kWorker, 0s), 0u) << "it is in no cluster";
  {
    std::jthread joins([&] { ps.join(cluster, 60s); }), also([&] { worker->join(cluster, 60s); });
    client.join(cluster, 60s);
  }
  const std::uint64_t first = client.await_link(kWorker, 0s);
  EXPECT_NE(first, 0u);
  EXPECT_EQ(client.await_link(kWorker, 60s), first);
  EXPECT_NE(client.await_link(kPs, 0s), first);
  EXPECT_EQ(client.await_link({"worker", 7}, 0s), 0u);
  EXPECT_TRUE(worker->shutdown());
  EXPECT_TRUE(testing::eventually([&] { return client.await_link(kWorker, 0s) == 0; }));
  TaskOptions again = options_of(kWorker);
  again.port = cluster.address(kWorker).port;
  worker = std::make_unique<Task>(again);
  std::jthread joins([&] { worker->join(cluster, 60s); });
  const std::uint64_t second = client.await_link(kWorker, 60s);
  EXPECT_NE(second, 0u);
  EXPECT_NE(second, first);
  joins.join();
  EXPECT_TRUE(client.shutdown());
  EXPECT_EQ(error_of([&] { client.await_link(kWorker, 0s); }).code(), Code::failed_precondition);
}

// ---- Networks that others reach ------------------------------------------------------------------------------------

class SecureMeeting : public ::testing::Test {
 protected:
  NetworkOptions certified(const std::string& name) { return {.tls = ca_.issue(name)}; }
  Error join_error(const NetworkOptions& network, const ClusterSpec& cluster,
                   std::chrono::milliseconds deadline = 20s) {
    Task client(options_of({"client", 0}, network));
    return error_of([&] { client.join(cluster, deadline); });
  }

  TemporaryDirectory directory_;
  Authority ca_{directory_.file(""), "ca"};
};

TEST_F(SecureMeeting, NeedsCertificatesOrConsent) {
  TaskOptions open = options_of(kPs);
  open.host = "0.0.0.0";
  const Error listening = error_of([&] { Task task(open); });
  EXPECT_EQ(listening.code(), Code::failed_precondition);
  EXPECT_TRUE(says(listening, "0.0.0.0") && says(listening, "--tls-cert") && says(listening, "--insecure"))
      << listening.to_string();
  ClusterSpec far{"demo", "", {{kPs, {"192.0.2.1", 7701}}}};
  const Error dialing = join_error({}, far);
  EXPECT_EQ(dialing.code(), Code::failed_precondition);
  EXPECT_TRUE(says(dialing, "192.0.2.1:7701")) << dialing.to_string();
  open.network.insecure = true;
  EXPECT_TRUE(error_of([&] { Task task(open); }).ok());
  open.network = certified("ps");
  EXPECT_TRUE(error_of([&] { Task task(open); }).ok());
}

TEST_F(SecureMeeting, WithoutCertificatesATokenKeepsOthersOut) {
  const NetworkOptions insecure{.insecure = true};
  const Error dialing = join_error(insecure, {"demo", "", {{kPs, {"192.0.2.1", 7701}}}});
  EXPECT_EQ(dialing.code(), Code::failed_precondition);
  EXPECT_TRUE(says(dialing, "192.0.2.1:7701") && says(dialing, "token")) << dialing.to_string();
  TaskOptions options = options_of(kPs, insecure);
  options.host = "0.0.0.0";
  Task open(options);
  ClusterSpec cluster = cluster_of({&open});
  cluster.token.clear();
  const Error listening = error_of([&] { open.join(cluster, 20s); });
  EXPECT_EQ(listening.code(), Code::failed_precondition);
  EXPECT_TRUE(says(listening, "0.0.0.0:")) << listening.to_string();
  EXPECT_TRUE(error_of([&] { certified("ps").check({"192.0.2.1", 7701}, ""); }).ok());
  EXPECT_TRUE(error_of([&] { NetworkOptions().check({"127.0.0.1", 7701}, ""); }).ok());
  open.join(cluster_of({&open}), 20s);
}

TEST_F(SecureMeeting, TasksWithCertificatesComputeTogetherAndOthersStayOut) {
  Task ps(options_of(kPs, certified("ps"))), worker(options_of(kWorker, certified("worker")));
  const ClusterSpec cluster = cluster_of({&ps, &worker});
  std::thread joiner([&] { worker.join(cluster, 20s); });
  ps.join(cluster, 20s);
  joiner.join();
  EXPECT_EQ(run_on(kWorker, ps), 4.0f);

  Error plain;  // it calls again and again, and may not have been answered at the end
  EXPECT_TRUE(testing::holds_with_more_time(300ms, [&](std::chrono::milliseconds limit) {
    plain = join_error({}, cluster, limit);
    return says(plain, "/job:ps/task:0 at 127.0.0.1:") &&
           says(plain, "pass --tls-cert, --tls-key and --tls-ca to this task");
  })) << plain.to_string();
  Authority other{directory_.file(""), "other-ca"};
  const Error stranger = join_error({.tls = other.issue("stranger")}, cluster);
  EXPECT_EQ(stranger.code(), Code::unauthenticated);
  EXPECT_TRUE(says(stranger, "the peer's certificate was rejected")) << stranger.to_string();
  ClusterSpec guess = cluster;
  guess.token = "guess";
  const Error no_token = join_error(certified("client"), guess);
  EXPECT_TRUE(says(no_token, "wrong token")) << no_token.to_string();
  EXPECT_TRUE(join_error(certified("client"), cluster).ok());
}

TEST_F(SecureMeeting, APlainTaskIsNotSpokenToByOneWithCertificates) {
  Task plain(options_of(kPs));
  const ClusterSpec cluster = cluster_of({&plain});
  plain.join(cluster, 20s);
  const Error error = join_error(certified("client"), cluster);
  EXPECT_EQ(error.code(), Code::unauthenticated);
  EXPECT_TRUE(says(error, "/job:ps/task:0 at 127.0.0.1:") && says(error, "the peer does not use TLS"))
      << error.to_string();
}

// What strangers say to the port, over sockets of their own.
TEST_F(SecureMeeting, NobodyIsAnsweredWithoutAGoodCertificate) {
  Task task(options_of(kPs, certified("ps")));
  task.join(cluster_of({&task}), 20s);
  Authority other{directory_.file(""), "other-ca"};
  const TlsFiles stranger = other.issue("stranger"), expired = ca_.issue("expired", {.from_days = -3, .to_days = -1});
  const TlsFiles good = ca_.issue("good");
  EXPECT_FALSE(wire::LooseTlsPeer(task.port(), nullptr).is_answered());
  EXPECT_FALSE(wire::LooseTlsPeer(task.port(), &stranger).is_answered());
  EXPECT_FALSE(wire::LooseTlsPeer(task.port(), &expired).is_answered());
  EXPECT_TRUE(wire::LooseTlsPeer(task.port(), &good).is_answered());
}

TEST_F(SecureMeeting, ACertificateThatIsNoGoodIsNamedWhenTheTaskStarts) {
  NetworkOptions none = certified("ps");
  none.tls.key = directory_.file("none.key");
  const Error error = error_of([&] { Task task(options_of(kPs, none)); });
  EXPECT_EQ(error.code(), Code::not_found);
  EXPECT_TRUE(says(error, none.tls.key)) << error.to_string();
}

// ---- Who is who ----------------------------------------------------------------------------------------------------

TEST(Roles, ATaskThatCallsItselfAShardOfTheClusterIsTurnedAway) {
  Task ps(options_of(kPs));
  const ClusterSpec cluster = cluster_of({&ps});
  ps.join(cluster, 20s);
  Task ghost(options_of({"ps", 7}));
  const Error error = error_of([&] { ghost.join(cluster, 20s); });
  EXPECT_EQ(error.code(), Code::permission_denied);
  EXPECT_TRUE(says(error, "a job ps but no task 7")) << error.to_string();
}

TEST(Meeting, OverIPv6) {
  TaskOptions options = options_of(kPs);
  options.host = "::1";
  std::optional<Task> ps;
  if (const Error none = error_of([&] { ps.emplace(options); })) GTEST_SKIP() << "no IPv6 here: " << none.to_string();
  const ClusterSpec cluster{"demo", wire::kToken, {{kPs, {"::1", ps->port()}}}};
  ps->join(cluster, 20s);
  options.name = {"client", 0};
  Task client(options);
  client.join(cluster, 20s);
  EXPECT_EQ(run_on(kPs, client), 4);
  const wire::Asking task{.host = "::1", .port = ps->port(), .cluster = "demo", .token = wire::kToken, .tls = nullptr};
  EXPECT_EQ(error_of([&] { wire::ask(task, "what?", wire::Clock::now() + 20s); }).code(), Code::unimplemented);
}

TEST(Meeting, AJobWithANameThatIsTooLongIsRefused) {
  Task ps(options_of(kPs));
  const ClusterSpec cluster = cluster_of({&ps});
  ps.join(cluster, 20s);
  const Error error = error_of([&] {
    Task client(options_of({std::string(65, 'j'), 0}));
    client.join(cluster, 20s);
  });
  EXPECT_EQ(error.code(), Code::invalid_argument);
  EXPECT_TRUE(says(error, "64 bytes")) << error.to_string();
}

// Whoever waits for links hears that the own task is of no more use.
TEST(Meeting, ATaskThatFailsWaitsForNobody) {
  Task ps(options_of(kPs));
  ClusterSpec cluster = cluster_of({&ps});
  wire::Fd silent = wire::listen_on(wire::resolve("127.0.0.1", 0));
  cluster.tasks[kWorker] = {"127.0.0.1", wire::port_of(silent)};
  Error error;
  std::thread joiner([&] { error = error_of([&] { ps.join(cluster, std::chrono::hours(1)); }); });
  EXPECT_TRUE(testing::eventually([&] { return ps.actors().fail_next("node"); }));
  ps.actors().send_stray("node", Stray::unknown);
  joiner.join();
  EXPECT_TRUE(says(error, "failed by a test")) << error.to_string();
}

class ClientOfOneTask : public ::testing::Test {
 protected:
  ClientOfOneTask() {
    ps_.join(cluster_, 20s);
    client_.join(cluster_, 20s);
  }
  Task ps_{options_of(kPs)}, client_{options_of({"client", 0})};
  const ClusterSpec cluster_ = cluster_of({&ps_});
};

TEST_F(ClientOfOneTask, CannotBeInAGroup) {
  const Error error = error_of([&] { CollectiveGroup(client_, "g", {{"client", 0}, kPs}); });
  EXPECT_EQ(error.code(), Code::invalid_argument);
  EXPECT_TRUE(says(error, "/job:client/task:0 cannot be in the group 'g'")) << error.to_string();
}

// A client of a cluster of one task, which says what it likes.
class Liar : public ClientOfOneTask {
 protected:
  Liar() { caf::anon_send(client_.handles().node, Observe{caf::actor_cast<PeerObserver>(observer_)}); }
  PeerActor peer_up() {
    PeerActor peer;
    observer_->receive([&](const PeerUp& up) { peer = up.peer; });
    return peer;
  }
  // It is told why its link ends, the link comes again, and the other task goes on.
  void expect_link_ends(const std::string& why) {
    observer_->receive([&](const PeerDown& down) { EXPECT_TRUE(says(down.reason, why)) << down.reason.to_string(); });
    static_cast<void>(peer_up());
    EXPECT_TRUE(testing::eventually([&] { return error_of([&] { client_.await("", 20s); }).ok(); }));
    EXPECT_EQ(run_on(kPs, client_), 4);
    EXPECT_FALSE(ps_.failure());
  }
  Error ask(const auto& request) { return ask(client_, request); }
  static Error ask(Task& client, const auto& request) {
    caf::scoped_actor self(client.system());
    Error error(Code::unknown, "no answer");
    self->request(client.handles().node_of(kPs), 20s, request)
        .receive([&](const Reply& reply) { error = reply.error(); }, [](const caf::error&) {});
    return error;
  }

  caf::scoped_actor observer_{client_.system()};
};

TEST_F(Liar, AFrameThatAClientMayNotSendEndsItsLinkAndNothingElse) {
  caf::anon_send(peer_up(), Outbound{CollectivePart{}});
  expect_link_ends("not in the cluster file, may not send this CollectivePart");
}

TEST_F(Liar, WhatNoNodeSaysEndsItsLinkAndNothingElse) {
  const std::string handshake = std::string("\1") + std::string(31, '\0');  // ends a process of CAF's
  caf::anon_send(peer_up(), Outbound{ControlBytes{handshake}});
  expect_link_ends("invalid message to a node");
}

TEST_F(Liar, NobodyEndsTheNodeOfAnother) {
  static_cast<void>(peer_up());
  caf::anon_send_exit(client_.handles().node_of(kPs), caf::exit_reason::kill);
  expect_link_ends("a message to a node has unknown types '@<>+@exit'");
}

TEST_F(Liar, AClientHasItsOwnSessionsAndNoOthers) {
  proto::RegisterGraph body;
  body.set_client(kPs.to_string());
  const Error error = ask(RegisterGraphRequest{body.SerializeAsString()});
  EXPECT_EQ(error.code(), Code::permission_denied);
  EXPECT_TRUE(says(error, "/job:client/task:0 may not register a graph for /job:ps/task:0")) << error.to_string();
  EXPECT_EQ(ask(RegisterGraphRequest{"no graph"}).code(), Code::data_loss);
  body.set_client("/job:client/task:0");
  body.set_session(5);
  EXPECT_TRUE(ask(RegisterGraphRequest{body.SerializeAsString()}).ok());
  // Only sessions of its own task leave constants for a node to take.
  Graph graph;
  constant(graph, Tensor::zeros(DType::f32, {1024}), "large");
  std::vector<Tensor> apart;
  proto::Partition& partition = *body.add_partition();
  partition.set_device("/job:ps/task:0/device:CPU:0");
  *partition.mutable_graph() = to_proto(graph, &apart);
  const Error without = ask(RegisterGraphRequest{body.SerializeAsString()});
  EXPECT_TRUE(says(without, "tensor 0 is not with the graph, which came with 0")) << without.to_string();

  Task other(options_of({"client", 1}));
  other.join(cluster_, 20s);
  body.set_client("/job:client/task:1");
  const Error taken = ask(other, RegisterGraphRequest{body.SerializeAsString()});
  EXPECT_TRUE(says(taken, "/job:client/task:1 may not register a graph in a session of /job:client/task:0"))
      << taken.to_string();
  const Error closed = ask(other, CloseSessionRequest{5});
  EXPECT_TRUE(says(closed, "/job:client/task:1 may not close a session of /job:client/task:0")) << closed.to_string();
  EXPECT_TRUE(ask(CloseSessionRequest{5}).ok());
}

// ---- Limits --------------------------------------------------------------------------------------------------------

TEST(NetworkOptionsTest, WhatMakesNoSenseIsRefusedAndNamed) {
  using namespace std::chrono_literals;
  const std::vector<std::pair<NetworkOptions, std::string>> cases = {
      {{.tls = {"c.pem", "", ""}}, "--tls-cert, --tls-key and --tls-ca belong together"},
      {{.tls = {"c.pem", "c.key", "ca.pem"}, .insecure = true}, "--insecure"},
      {{.max_tensor = 1000}, "--max-tensor: expected 256KiB to 1TiB, not 1000 bytes"},
      {{.max_tensor = 2ull << 40}, "--max-tensor"},
      {{.in_flight = 1000}, "--in-flight: expected 512KiB or more"},
      {{.max_strangers = 0}, "--max-strangers"},
      {{.max_connections = 0}, "--max-connections"},
      {{.hello_timeout = 0ms}, "--hello-timeout"},
      {{.peer_timeout = 99ms}, "--peer-timeout"}};
  for (const auto& [options, text] : cases) {
    const Error error = error_of([&] { static_cast<void>(options.wire()); });
    EXPECT_EQ(error.code(), Code::invalid_argument) << text;
    EXPECT_TRUE(says(error, text)) << error.to_string();
  }
}

TEST(NetworkOptionsTest, BecomeThoseOfTheWire) {
  const WireOptions wire = NetworkOptions{.max_tensor = 1 << 20,
                                          .in_flight = 2 << 20,
                                          .max_strangers = 3,
                                          .max_connections = 4,
                                          .hello_timeout = 7ms,
                                          .peer_timeout = 400ms}
                               .wire();
  EXPECT_EQ(wire.connection.limits.max_tensor_bytes, 1u << 20);
  EXPECT_EQ(wire.connection.limits.max_payload, 2u << 20);
  EXPECT_EQ(wire.connection.window, 2u << 20);
  EXPECT_EQ(wire.max_strangers, 3u);
  EXPECT_EQ(wire.max_connections, 4u);
  EXPECT_EQ(wire.handshake_timeout, 7ms);
  EXPECT_EQ(wire.down_after, 400ms);
  EXPECT_EQ(wire.suspect_after, 100ms);
  EXPECT_EQ(wire.heartbeat_every, 40ms);
  const WireOptions defaults = NetworkOptions().wire();
  EXPECT_EQ(defaults.heartbeat_every, 500ms);
  EXPECT_EQ(defaults.connection.limits.max_payload, Limits{}.max_payload);
}

TEST(NetworkOptionsTest, ATensorBeyondTheLimitFailsItsStepAndIsNamed) {
  const NetworkOptions small{.max_tensor = 256 << 10};
  Task ps(options_of(kPs, small)), worker(options_of(kWorker, small));
  const ClusterSpec cluster = cluster_of({&ps, &worker});
  std::thread joiner([&] { worker.join(cluster, 20s); });
  ps.join(cluster, 20s);
  joiner.join();
  Graph g;
  Output x = placeholder(g, DType::f32, {kUnknown}, "x");
  Output y;
  {
    const auto scope = g.on_device(kWorker.to_string());
    y = sum(x);
  }
  Session session(ps, g);
  EXPECT_EQ(session.run({{x, Tensor::zeros(DType::f32, {65536})}}, y).item<float>(), 0.0f);
  const Error error = error_of([&] { session.run({{x, Tensor::zeros(DType::f32, {65537})}}, y); });
  EXPECT_EQ(error.code(), Code::resource_exhausted);
  EXPECT_TRUE(says(error, "262148 bytes; the limit is 262144")) << error.to_string();
}

}  // namespace
}  // namespace troupe
