// troupe-serve while versions come and go: latencies of other models, answers of a model whose versions change, memory.
#include <atomic>
#include <exception>
#include <memory>
#include <thread>

#include "tools/bench/cases.hpp"
#include "tools/bench/http_load.hpp"
#include "tools/bench/kernel_step.hpp"
#include "tools/bench/serving_child.hpp"
#include "tools/bench/serving_models.hpp"
#include <troupe/graph/layers/layers.hpp>

namespace troupe::bench {
namespace {

constexpr const char* kSmall = "small";
constexpr const char* kLarge = "large";

std::string predict_path(const char* model) { return fmt::format("/v1/models/{}:predict", model); }

// Runs `work` on a thread of its own while `run` is called with a flag that says when it has ended.
LoadFigures during(const std::function<void()>& work, const std::function<LoadFigures(const std::atomic<bool>&)>& run) {
  std::atomic<bool> ended{false};
  std::exception_ptr failure;
  std::thread thread([&] {
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    ended = true;
  });
  LoadFigures out;
  try {
    out = run(ended);
  } catch (...) {
    thread.join();
    throw;
  }
  thread.join();
  if (failure) std::rethrow_exception(failure);
  return out;
}

// A small model that stays, and a large one that comes and goes.
class ComingAndGoing {
 public:
  ComingAndGoing(const ServedExample& small, const ServedExample& large)
      : request_(http_post(predict_path(kSmall), rest_body(small.x))),
        known_([y = small.y](std::string_view body) { return wrong_rest_answer(body, y); }) {
    folder_.publish(kSmall, 1, small.model);
    folder_.publish(kLarge, 1, large.model);
    server_ =
        std::make_unique<ServingChild>(folder_, std::vector<std::string>{"--config", folder_.configure({kSmall})});
    load_ = std::make_unique<HttpLoad>(server_->rest_port(), kConnections);
  }

  void load_and_unload() {
    folder_.configure({kSmall, kLarge});
    server_->configure_again();
    server_->await(kLarge, 1, "Ready");
    folder_.configure({kSmall});
    server_->configure_again();
    server_->await(kLarge, 1, "Unloaded");
  }
  // Requests of the small model at fixed times.
  LoadFigures ask(const LoadPlan& plan) {
    return load_->run(request_, plan, [this](std::string_view body) { return known_.wrong(body); });
  }
  double resident_mib() const { return server_->resident_mib(); }

 private:
  static constexpr std::size_t kConnections = 64;
  ModelFolder folder_;
  const std::string request_;
  KnownAnswers known_;
  std::unique_ptr<ServingChild> server_;
  std::unique_ptr<HttpLoad> load_;
};

ServedExample small_example() {
  return example_of(Sequential({layers::dense(128, Activation::relu), layers::dense(10, Activation::softmax)}),
                    random_tensor({1, 784}, 1));
}

constexpr double kRate = 1000, kLongTime = 3600;

// `figure` of the latencies in ms, beside the same without loads for as long.
Contest beside_loads(const Settings& settings, double (*figure)(const LoadFigures&)) {
  const auto both = std::make_shared<ComingAndGoing>(small_example(), square_matrix(settings.quick ? 256 : 16384));
  const auto seconds = std::make_shared<double>(1);  // that the loads took
  const int times = settings.quick ? 1 : 20;
  return {.troupe =
              [=] {
                const LoadFigures figures = during(
                    [&] {
                      for (int i = 0; i < times; ++i) both->load_and_unload();
                    },
                    [&](const std::atomic<bool>& ended) {
                      return both->ask({.rate = kRate, .seconds = kLongTime, .stop = &ended});
                    });
                *seconds = figures.seconds;
                return kMilli * figure(figures.all_right());
              },
          .peers = {{"itself without loads",
                     [=] { return kMilli * figure(both->ask({.rate = kRate, .seconds = *seconds}).all_right()); }}},
          .rounds = 1};
}

// A process each time: memory after many loads, beside that after its first.
Contest memory_after_loads(const ServedExample& small, const ServedExample& large, int times) {
  const auto first = std::make_shared<double>(0);
  return {.troupe =
              [=] {
                ComingAndGoing both(small, large);
                both.load_and_unload();
                *first = both.resident_mib();
                for (int i = 1; i < times; ++i) both.load_and_unload();
                return both.resident_mib();
              },
          .peers = {{"itself after the first", [first] { return *first; }}},
          .rounds = 1};
}

// Versions of a model are replaced while many ask for it; each answer must be right for one version.
class Swaps {
 public:
  Swaps() {
    folder_.publish(kSmall, 1, model_of_version(1));
    // Requests have more rows than fit into a batch: they are computed in parts, which must be of one version.
    server_ = std::make_unique<ServingChild>(
        folder_, std::vector<std::string>{"--model", std::string(kSmall) + "=" + folder_.path(kSmall), "--poll", "0.05",
                                          "--batch", "--batch-rows", std::to_string(kRows / 2 + 1)});
    load_ = std::make_unique<HttpLoad>(server_->rest_port(), kConnections);
  }

  // How many requests were not answered, or wrongly.
  double failures(int swaps) {
    const std::int64_t first = version_;
    const LoadFigures figures = during(
        [&] {
          for (int i = 0; i < swaps; ++i) swap();
        },
        [&](const std::atomic<bool>& ended) {
          return load_->run(request_, {.seconds = kLongTime, .stop = &ended},
                            [&](std::string_view body) { return wrong_version_answer(body, x_, first, version_ + 1); });
        });
    if (figures.failed > 0)
      fmt::print(stderr, "troupe-bench: {} of {} requests failed, the first: {}\n", figures.failed,
                 figures.failed + figures.latencies.size(), figures.first_failure);
    if (figures.latencies.empty()) fail(Code::internal, "no request was answered");
    return static_cast<double>(figures.failed);
  }

 private:
  static constexpr std::int64_t kRows = 12;
  static constexpr std::size_t kConnections = 16;

  void swap() {
    const std::int64_t old = version_;
    folder_.publish(kSmall, old + 1, model_of_version(old + 1));
    server_->await(kSmall, old + 1, "Ready");
    version_ = old + 1;
    server_->await(kSmall, old, "Unloaded");
    folder_.remove(kSmall, old);
  }

  ModelFolder folder_;
  std::atomic<std::int64_t> version_{1};
  const Tensor x_ = integers({kRows, 4});
  const std::string request_ = http_post(predict_path(kSmall), rest_body(x_));
  std::unique_ptr<ServingChild> server_;
  std::unique_ptr<HttpLoad> load_;

  // Products of whole numbers are exact.
  static Tensor integers(const Shape& shape) {
    Tensor out(DType::f32, shape);
    float next = 0;
    for (float& value : out.mutable_values<float>()) value = next++;
    return out;
  }
};

}  // namespace

void add_version_cases(std::vector<Case>& cases) {
  constexpr const char* kLoads =
      "1,000 requests/s of 784 to 128 and 10 units over REST, sent at fixed times, while a model of 1 GiB is loaded "
      "and "
      "unloaded 20 times";
  const auto add_loads = [&](const char* name, std::string measures, double (*figure)(const LoadFigures&)) -> Case& {
    cases.push_back({.bench = "serve",
                     .name = name,
                     .unit = "ms",
                     .measures = std::move(measures),
                     .peer = "itself while nothing is loaded",
                     .prepare = [figure](const Settings& settings) { return beside_loads(settings, figure); }});
    return cases.back();
  };
  add_loads("load-p99", fmt::format("{}: 99th percentile of latencies", kLoads), [](const LoadFigures& figures) {
    return figures.percentile(0.99);
  }).ratio_target = 0.667;
  add_loads("load-longest", "the same: the longest", [](const LoadFigures& figures) {
    return figures.longest();
  }).value_target = 50;
  cases.push_back(
      {.bench = "serve",
       .name = "swap",
       .unit = "failed",
       .measures = "a model is replaced 100 times while 16 clients ask for it: requests that fail, or whose "
                   "answer is not of one version",
       .value_target = 0,
       .prepare = [](const Settings& settings) -> Contest {
         const auto swaps = std::make_shared<Swaps>();
         return {.troupe = [=] { return swaps->failures(settings.quick ? 2 : 100); }, .peers = {}, .rounds = 1};
       }});
  cases.push_back({.bench = "serve",
                   .name = "memory",
                   .unit = "MiB",
                   .measures = "resident memory after a model of 64 MiB was loaded and unloaded 100 times",
                   .peer = "itself after the first time",
                   .ratio_target = 0.952,
                   .prepare = [](const Settings& settings) -> Contest {
                     return memory_after_loads(small_example(), square_matrix(settings.quick ? 256 : 4096),
                                               settings.quick ? 2 : 100);
                   }});
}

}  // namespace troupe::bench
