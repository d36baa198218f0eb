#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/mnist/options.hpp"

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Arguments = std::vector<std::string>;

MnistOptions good(const Arguments& arguments, bool launched = false) {
  const auto parsed = parse_mnist_options(arguments, launched);
  if (const auto* exit = std::get_if<EarlyExit>(&parsed)) {
    ADD_FAILURE() << exit->err;
    return {};
  }
  return std::get<MnistOptions>(parsed);
}

// The message of wrong usage.
std::string wrong(const Arguments& arguments, bool launched = false) {
  const auto parsed = parse_mnist_options(arguments, launched);
  const auto* exit = std::get_if<EarlyExit>(&parsed);
  if (exit == nullptr) return "accepted";
  EXPECT_EQ(exit->code, 2);
  EXPECT_EQ(exit->out, "");
  EXPECT_THAT(exit->err, AllOf(StartsWith("troupe-mnist: "), HasSubstr("--help")));
  return exit->err;
}

// Of a ps task in mode sync.
ParameterServers servers(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--job", "ps", "--task", "0"});
  return *servers_of(good(arguments, true).training.mode);
}

TEST(MnistOptions, DefaultsTrainOnTheBuiltInDigitsInThisProcess) {
  const MnistOptions options = good({});
  EXPECT_EQ(options.data, "");
  EXPECT_EQ(options.digits.train, 12000);
  EXPECT_EQ(options.digits.test, 2000);
  EXPECT_EQ(options.model, MnistModel::mlp);
  EXPECT_EQ(name(options.training.mode), "local");
  EXPECT_EQ(options.training.epochs, 5);
  EXPECT_EQ(options.training.batch, 32);
  EXPECT_EQ(options.learning_rate.to_string(), "0.001");
  EXPECT_EQ(options.compiled.clipping.global_norm, 0);
  EXPECT_EQ(options.compiled.precision, DType::f32);
  EXPECT_EQ(options.training.seed, 0u);
  EXPECT_EQ(std::get<LocalMode>(options.training.mode).slots, 1);
  EXPECT_EQ(options.task.cpu_devices, 1);
  EXPECT_EQ(options.task.threads, 0);
  EXPECT_FALSE(options.json);
  EXPECT_FALSE(options.in_cluster);
  EXPECT_TRUE(options.speaks());
}

TEST(MnistOptions, TakesWhatIsGiven) {
  const MnistOptions options = good({"--digits", "100,20",    "--epochs", "3",         "--batch",
                                     "16",       "--lr",      "5e-4",     "--seed",    "18446744073709551615",
                                     "--model",  "cnn",       "--mode",   "local",     "--replicas",
                                     "4",        "--devices", "2",        "--threads", "1",
                                     "--save",   "out",       "--json"});
  EXPECT_EQ(options.digits.train, 100);
  EXPECT_EQ(options.digits.test, 20);
  EXPECT_EQ(options.training.epochs, 3);
  EXPECT_EQ(options.training.batch, 16);
  EXPECT_EQ(options.learning_rate.to_string(), "0.0005");
  EXPECT_EQ(options.training.seed, 18446744073709551615u);
  EXPECT_EQ(options.model, MnistModel::cnn);
  EXPECT_EQ(std::get<LocalMode>(options.training.mode).slots, 4);
  EXPECT_EQ(options.task.cpu_devices, 2);
  EXPECT_EQ(options.task.threads, 1);
  EXPECT_EQ(options.save, "out");
  EXPECT_TRUE(options.json);
  EXPECT_EQ(good({"--data=mnist"}).data, "mnist");
}

TEST(MnistOptions, NumbersAreWholeDecimalAndInRange) {
  for (const char* text : {"0", "-1", "1.5", "x", "", "1e3", "0x10", " 1", "1 ", "99999999999999999999"}) {
    EXPECT_THAT(wrong({"--epochs", text}), HasSubstr("expected a whole number from 1 to 1000000")) << text;
    EXPECT_THAT(wrong({"--batch", text}), HasSubstr("--batch: expected a whole number from 1 to")) << text;
  }
  EXPECT_EQ(good({"--epochs", "010"}).training.epochs, 10);
  EXPECT_THAT(wrong({"--replicas", "1025"}), HasSubstr("from 1 to 1024, not '1025'"));
  EXPECT_THAT(wrong({"--replicas", "0"}), HasSubstr("from 1 to 1024, not '0'"));
  EXPECT_THAT(wrong({"--threads", "0"}), HasSubstr("from 1 to 1024"));
  EXPECT_THAT(wrong({"--devices", "0"}), HasSubstr("from 1 to 1024"));
  EXPECT_THAT(wrong({"--step-timeout", "-1"}), HasSubstr("from 0 to 86400"));
  EXPECT_EQ(servers({"--step-timeout", "0"}).step_timeout.count(), 0);
  for (const char* text : {"-1", "18446744073709551616", "1.0", ""})
    EXPECT_THAT(wrong({"--seed", text}), HasSubstr("--seed: expected a whole number from 0 to 18446744073709551615"))
        << text;
  for (const char* text : {"0", "-0.1", "nan", "inf", "fast", "1e-3x", ""})
    EXPECT_THAT(wrong({"--lr", text}), HasSubstr("--lr: expected a number above 0")) << text;
}

TEST(MnistOptions, TheLearningRateMayChange) {
  const auto rate = [](const char* text) {
    return good({"--lr", "0.5", "--schedule", text}).learning_rate.to_string();
  };
  EXPECT_EQ(rate("constant"), "0.5");
  EXPECT_EQ(rate("constant,warmup=3"), "constant(rate=0.5, warm_up=3)");
  EXPECT_EQ(rate("step,every=10"), "step(rate=0.5, factor=0.1, every=10)");
  EXPECT_EQ(rate("piecewise,1000=2e-3,200=0.1"), "piecewise(rates=[0.5, 0.1, 0.002], from=[200, 1000])");
  EXPECT_EQ(rate("exponential,factor=0.9,every=5"), "exponential(rate=0.5, factor=0.9, every=5)");
  EXPECT_EQ(rate("cosine,steps=100,end=1e-3,warmup=7"), "cosine(rate=0.5, end=0.001, steps=100, warm_up=7)");
  EXPECT_EQ(rate("polynomial,steps=100,power=2"), "polynomial(rate=0.5, end=0, power=2, steps=100)");
  EXPECT_EQ(good({"--schedule", "step,every=10", "--lr", "0.5"}).learning_rate.to_string(), rate("step,every=10"));
  const auto error = [](const char* text) { return wrong({"--schedule", text}); };
  EXPECT_THAT(
      error("sine"),
      HasSubstr("--schedule: expected constant, step, piecewise, exponential, cosine or polynomial, not 'sine'"));
  EXPECT_THAT(error("cosine"), HasSubstr("--schedule: cosine needs steps, as in 'cosine,steps=100'"));
  EXPECT_THAT(error("cosine,steps=0"), HasSubstr("--schedule: cosine: steps must be 1 or more, not 0"));
  EXPECT_THAT(error("cosine,steps=1.5"), HasSubstr("--schedule: expected a whole number, not '1.5'"));
  EXPECT_THAT(error("cosine,steps=10,factor=2"), HasSubstr("--schedule: cosine has no 'factor'"));
  EXPECT_THAT(error("cosine,steps=10,steps=11"), HasSubstr("--schedule: 'steps' is given twice"));
  EXPECT_THAT(error("cosine,steps"), HasSubstr("--schedule: expected NAME=NUMBER, not 'steps'"));
  EXPECT_THAT(error("cosine,steps=10,end=x"), HasSubstr("--schedule: expected a number, not 'x'"));
  EXPECT_THAT(error("piecewise,x=1"), HasSubstr("--schedule: expected the number of an update, not 'x'"));
  EXPECT_THAT(error("piecewise,0=1"), HasSubstr("--schedule: piecewise: from must be 1 or more, not 0"));
  EXPECT_THAT(error("constant,warmup=-1"),
              HasSubstr("--schedule: constant: the warm-up must be 0 updates or more, not -1"));
}

TEST(MnistOptions, ABatchMayBeComputedInEqualParts) {
  EXPECT_EQ(good({}).training.micro_batches, 1);
  EXPECT_EQ(good({"--accumulate", "4"}).training.micro_batches, 4);
  EXPECT_THAT(wrong({"--accumulate", "0"}), HasSubstr("--accumulate: expected a whole number from 1 to 1024"));
  EXPECT_THAT(wrong({"--accumulate", "3"}),
              HasSubstr("--accumulate: batch size 32 is not divisible by 3 micro-batches"));
}

TEST(MnistOptions, GradientsAreClippedToAPositiveNorm) {
  EXPECT_EQ(good({"--clip-norm", "0.5"}).compiled.clipping.global_norm, 0.5);
  for (const char* text : {"0", "-1", "nan", "inf", "much"})
    EXPECT_THAT(wrong({"--clip-norm", text}), HasSubstr("--clip-norm: expected a number above 0")) << text;
}

TEST(MnistOptions, DigitsArePairsOfSizes) {
  EXPECT_THAT(wrong({"--digits", "100"}), HasSubstr("expected TRAIN,TEST like 12000,2000, not '100'"));
  for (const char* text : {"0,10", "10,0", "10,", ",10", "1,2,3", "1000001,1"})
    EXPECT_THAT(wrong({"--digits", text}), HasSubstr("--digits: expected a whole number from 1 to 1000000")) << text;
  EXPECT_THAT(wrong({"--digits", "10,10", "--data", "mnist"}), HasSubstr("pass one of them"));
}

TEST(MnistOptions, UnknownAndIncompleteOptionsAreRefused) {
  EXPECT_THAT(wrong({"--epoch", "3"}), HasSubstr("--epoch"));
  EXPECT_THAT(wrong({"mnist"}), HasSubstr("mnist"));
  EXPECT_THAT(wrong({"--data"}), HasSubstr("--data"));
  EXPECT_THAT(wrong({"--model", "rnn"}), HasSubstr("--model: expected mlp or cnn, not 'rnn'"));
  EXPECT_THAT(wrong({"--mode", "fast"}),
              HasSubstr("--mode: expected local, sync, ssp, async or allreduce, not 'fast'"));
}

TEST(MnistOptions, WhatIsNotBuiltNamesWhatIs) {
  EXPECT_THAT(wrong({"--staleness", "2"}), HasSubstr("--staleness is for --mode ssp"));
  EXPECT_THAT(wrong({"--backups", "1"}), HasSubstr("--backups is for --mode sync and ssp"));
}

TEST(MnistOptions, SetTheOptionsOfTheirMode) {
  const auto mode = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--job", "worker", "--task", "0", "--step-timeout", "7"});
    return good(arguments, true).training.mode;
  };
  const auto ssp = std::get<SspMode>(mode({"--mode", "ssp", "--replicas", "3", "--backups", "1", "--staleness", "4"}));
  EXPECT_EQ(ssp.slots, 3);
  EXPECT_EQ(ssp.backups, 1);
  EXPECT_EQ(ssp.staleness, 4);
  EXPECT_EQ(ssp.servers.step_timeout, std::chrono::seconds(7));
  EXPECT_EQ(std::get<SspMode>(mode({"--mode", "ssp"})).staleness, 1);
  EXPECT_EQ(std::get<AllReduceMode>(mode({"--mode", "allreduce"})).step_timeout, std::chrono::seconds(7));
  EXPECT_EQ(servers({}).step_timeout, std::chrono::minutes(10));
}

TEST(MnistOptions, WhatALossDoesIsAPolicy) {
  EXPECT_EQ(servers({}).on_loss, OnLoss::shrink);
  for (const auto& [text, policy] :
       {std::pair{"fail", OnLoss::fail}, std::pair{"shrink", OnLoss::shrink}, std::pair{"wait", OnLoss::wait}})
    EXPECT_EQ(servers({"--on-loss", text}).on_loss, policy) << text;
  EXPECT_THAT(wrong({"--on-loss", "panic"}), HasSubstr("--on-loss: expected fail, shrink or wait, not 'panic'"));
}

TEST(MnistOptions, UpdatesOfAsynchronousTrainingHavePolicies) {
  const auto async = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--mode", "async", "--job", "worker", "--task", "0"});
    return std::get<AsyncMode>(good(more, true).training.mode);
  };
  EXPECT_EQ(async({}).aggregate, 1);
  EXPECT_FALSE(async({}).staleness_aware);
  EXPECT_EQ(async({"--aggregate", "4"}).aggregate, 4);
  EXPECT_TRUE(async({"--staleness-aware"}).staleness_aware);
  EXPECT_THAT(wrong({"--aggregate", "0"}), HasSubstr("--aggregate: expected a whole number from 1 to 1024"));
  EXPECT_THAT(wrong({"--aggregate", "2"}), HasSubstr("are for --mode async"));
  EXPECT_THAT(
      wrong({"--aggregate", "2", "--checkpoint", "dir", "--mode", "async", "--job", "worker", "--task", "0"}, true),
      HasSubstr("--checkpoint and --aggregate cannot be combined"));
  EXPECT_THAT(wrong({"--staleness-aware"}), HasSubstr("are for --mode async"));
}

TEST(MnistOptions, TheHistoryOfParametersIsAboutServers) {
  EXPECT_EQ(servers({"--provenance", "dir"}).provenance, "dir");
  const MnistOptions replays = good({"--backups", "1", "--replay", "dir/commits", "--job", "ps", "--task", "0"}, true);
  EXPECT_EQ(std::get<SyncMode>(replays.training.mode).replay, "dir/commits");
  EXPECT_THAT(wrong({"--provenance", "dir"}),
              HasSubstr("--provenance needs parameter servers, and mode local has none"));
  EXPECT_THAT(wrong({"--replay", "dir/commits"}), HasSubstr("--replay needs --backups"));
}

TEST(MnistOptions, TrainingMayBeginWithSomeOfTheWorkers) {
  EXPECT_EQ(servers({}).min_workers, 0);
  EXPECT_EQ(servers({"--min-workers", "2"}).min_workers, 2);
  EXPECT_THAT(wrong({"--min-workers", "0"}), HasSubstr("--min-workers: expected a whole number from 1"));
  EXPECT_THAT(wrong({"--min-workers", "1"}),
              HasSubstr("--min-workers needs parameter servers, and mode local has none"));
}

TEST(MnistOptions, MemoryIsABigNumberWithAUnit) {
  EXPECT_EQ(good({}).task.memory_limit, 0u);
  EXPECT_EQ(good({"--memory-limit", "2GiB"}).task.memory_limit, 2ull << 30);
  EXPECT_EQ(good({"--memory-limit", "500MB"}).task.memory_limit, 500'000'000u);
  EXPECT_EQ(good({"--memory-limit", "4096"}).task.memory_limit, 4096u);
  EXPECT_EQ(good({"--memory-limit", "4096B"}).task.memory_limit, 4096u);
  for (const char* text : {"", "0", "GiB", "2 GiB", "-1MB", "1.5GiB", "2gib", "2Gi", "99999999TiB"})
    EXPECT_THAT(wrong({"--memory-limit", text}), HasSubstr("expected a number of bytes like 1000000, 500MB or 2GiB"))
        << text;
}

TEST(MnistOptions, ATaskOfAClusterTrainsInSyncUnlessTold) {
  const MnistOptions by_hand = good({"--job", "worker", "--task", "1", "--cluster", "c.json"});
  EXPECT_TRUE(by_hand.in_cluster);
  EXPECT_EQ(name(by_hand.training.mode), "sync");
  EXPECT_EQ(by_hand.membership.name(), (TaskName{"worker", 1}));
  EXPECT_EQ(by_hand.membership.file, "c.json");
  EXPECT_FALSE(by_hand.speaks());
  const MnistOptions launched = good({"--mode", "async", "--job", "worker", "--task", "0"}, true);
  EXPECT_TRUE(launched.in_cluster);
  EXPECT_EQ(name(launched.training.mode), "async");
  EXPECT_TRUE(launched.speaks());
  EXPECT_FALSE(good({"--job", "ps", "--task", "0"}, true).speaks());
  const MnistOptions more = good({"--mode", "sync", "--replicas", "8", "--job", "ps", "--task", "0"}, true);
  EXPECT_EQ(std::get<SyncMode>(more.training.mode).slots, 8);
}

TEST(MnistOptions, APlaceInAClusterIsWholeOrAbsent) {
  EXPECT_THAT(wrong({"--job", "worker"}), HasSubstr("missing: --task, --cluster"));
  EXPECT_THAT(wrong({"--cluster", "c.json"}), HasSubstr("missing: --job, --task"));
  EXPECT_THAT(wrong({"--task", "0", "--cluster", "c.json"}), HasSubstr("missing: --job"));
  EXPECT_THAT(wrong({}, true), HasSubstr("missing: --job, --task"));
  EXPECT_THAT(wrong({"--job", "ps", "--task", "-1"}, true), HasSubstr("--task: expected"));
  EXPECT_THAT(wrong({"--job", "ps", "--task", "0", "--cluster", "c.json"}, true),
              HasSubstr("remove --cluster: troupe-launch gives its tasks the cluster file"));
  EXPECT_THAT(wrong({"--job", "chief", "--task", "0"}, true), HasSubstr("expected ps, worker or input, not 'chief'"));
}

TEST(MnistOptions, ModesFitTheirSurroundings) {
  EXPECT_THAT(wrong({"--mode", "local", "--job", "ps", "--task", "0"}, true),
              HasSubstr("use sync, ssp, async or allreduce"));
  EXPECT_THAT(wrong({"--mode", "sync"}), HasSubstr("troupe-launch --ps 1 --workers 2 -- troupe-mnist --mode sync"));
  EXPECT_THAT(wrong({"--mode", "async"}), HasSubstr("--mode async needs a cluster"));
  EXPECT_THAT(wrong({"--mode", "async", "--replicas", "2", "--job", "ps", "--task", "0"}, true),
              HasSubstr("--replicas is not for --mode async"));
  EXPECT_THAT(wrong({"--devices", "2", "--job", "ps", "--task", "0"}, true),
              HasSubstr("--devices is for --mode local"));
  EXPECT_THAT(wrong({"--devices", "2"}), HasSubstr("2 devices cannot share 1 slot per step: use --replicas 2 or more"));
  EXPECT_THAT(wrong({"--devices", "4", "--replicas", "3"}),
              HasSubstr("4 devices cannot share 3 slots per step: use --replicas 4"));
}

TEST(MnistOptions, HelpTeachesAndVersionIsPlain) {
  const auto parsed = parse_mnist_options({"--help"}, false);
  const EarlyExit& help = std::get<EarlyExit>(parsed);
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.err, "");
  EXPECT_THAT(help.out,
              AllOf(HasSubstr("Usage: troupe-mnist"), HasSubstr("troupe-launch --ps 2 --workers 2"),
                    HasSubstr("--digits TRAIN,TEST"), HasSubstr("--seed"), HasSubstr("Exit code"),
                    HasSubstr("--mode local|sync|ssp|async|allreduce"), HasSubstr("(default: 1 in mode local, else")));
  const auto version = parse_mnist_options({"--version"}, false);
  EXPECT_EQ(std::get<EarlyExit>(version).out, "troupe-mnist " TROUPE_VERSION "\n");
  EXPECT_EQ(std::get<EarlyExit>(version).code, 0);
}

TEST(MnistOptions, AClusterThatTrainsHasBothJobs) {
  const auto cluster = [](const char* jobs) {
    return ClusterSpec::parse(std::string(R"({"name":"demo","token":"t",)") + jobs + "}", "test");
  };
  EXPECT_EQ(cluster_problem("troupe-mnist", cluster(R"("ps":["127.0.0.1:1"],"worker":["127.0.0.1:2"])"), SyncMode{}),
            std::nullopt);
  EXPECT_THAT(cluster_problem("troupe-mnist", cluster(R"("worker":["127.0.0.1:2"])"), SyncMode{}).value(),
              AllOf(HasSubstr("'demo' has no ps: use"), HasSubstr("troupe-launch --ps 1")));
  EXPECT_THAT(cluster_problem("troupe-mnist", cluster(R"("ps":["127.0.0.1:1"])"), SyncMode{}).value(),
              HasSubstr("has no worker: use"));
}

TEST(MnistOptions, AnAllReduceIsAmongWorkersAlone) {
  const Arguments task = {"--mode", "allreduce", "--job", "worker", "--task", "0"};
  EXPECT_EQ(name(good(task, true).training.mode), "allreduce");
  EXPECT_THAT(wrong({"--mode", "allreduce"}), HasSubstr("needs a cluster: troupe-launch --workers 2 -- "));
  EXPECT_THAT(wrong({"--mode", "allreduce", "--job", "worker", "--task", "0", "--replicas", "2"}, true),
              HasSubstr("--replicas is not for --mode allreduce"));
  const auto problem = [](const char* jobs) {
    return cluster_problem("troupe-mnist",
                           ClusterSpec::parse(std::string(R"({"name":"demo","token":"t",)") + jobs + "}", "test"),
                           AllReduceMode{});
  };
  EXPECT_EQ(problem(R"("worker":["127.0.0.1:2"])"), std::nullopt);
  EXPECT_THAT(problem(R"("ps":["127.0.0.1:1"],"worker":["127.0.0.1:2"])").value(), HasSubstr("'demo' has ps tasks"));
}

TEST(MnistOptions, ProductsAreInF32Bf16OrF16) {
  EXPECT_EQ(good({"--precision", "f32"}).compiled.precision, DType::f32);
  EXPECT_EQ(good({"--precision", "bf16"}).compiled.precision, DType::bf16);
  EXPECT_EQ(good({"--precision", "f16"}).compiled.precision, DType::f16);
  const Arguments task = {"--job", "worker", "--task", "0", "--cluster", "c.json", "--precision", "bf16"};
  EXPECT_EQ(good(task).compiled.precision, DType::bf16);
  EXPECT_THAT(wrong({"--precision", "f64"}), HasSubstr("--precision: expected f32, bf16 or f16, not 'f64'"));
}

TEST(MnistOptions, CurvesAreDrawnOfEveryHundredthStepUnlessTold) {
  EXPECT_EQ(good({}).training.tensorboard, "");
  EXPECT_EQ(good({"--tensorboard", "dir"}).training.tensorboard, "dir");
  EXPECT_EQ(good({"--tensorboard", "dir"}).training.tensorboard_every, 100u);
  EXPECT_EQ(good({"--tensorboard", "dir", "--tensorboard-every", "7"}).training.tensorboard_every, 7u);
  EXPECT_THAT(wrong({"--tensorboard-every", "7"}), HasSubstr("--tensorboard-every needs --tensorboard DIR"));
  EXPECT_THAT(wrong({"--tensorboard", "dir", "--tensorboard-every", "0"}), HasSubstr("--tensorboard-every"));
}

}  // namespace
}  // namespace troupe
