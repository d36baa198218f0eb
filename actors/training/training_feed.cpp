#include "troupe/actors/training/training_feed.hpp"

#include <algorithm>
#include <caf/send.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include <troupe/actors/cluster/membership.hpp>
#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/training/cluster_job.hpp>

namespace troupe {
namespace {

// "train_data.2=shuffle (seed 7, buffer 100): x f32[4]; 600 elements", and so on.
void describe(std::string& settings, std::string_view name, const BatchSource* source) {
  const auto count = source ? source->examples() : std::nullopt;
  settings += fmt::format("\n{}={}", name, !source ? "none" : count ? fmt::format("{} examples", *count) : "unknown");
  std::istringstream lines(source ? source->description() : "");
  std::string line;
  for (int i = 1; std::getline(lines, line); ++i) settings += fmt::format("\n{}.{}={}", name, i, line);
}

std::string feed_settings(const TrainingPlan& plan, std::uint32_t slots) {
  const TrainingOptions& o = plan.options;
  std::string settings =
      fmt::format("schema={}\nbatch={}\nslots={}\nseed={}\nlast_step={}\nevaluation_batch={}",
                  to_string(plan.train.schema()), o.batch, slots, o.seed, name(o.last_step), o.evaluation_batch);
  describe(settings, "train_data", &plan.train);
  describe(settings, "evaluation_data", plan.evaluation);
  return settings;
}

std::uint32_t count(std::string_view job, const TrainingPlan& plan) {
  return static_cast<std::uint32_t>(plan.task.cluster().count(job));
}

// Threads that make batches on this task.
std::size_t makers(const TrainingPlan& plan) {
  if (plan.options.read_ahead.threads > 0) return static_cast<std::size_t>(plan.options.read_ahead.threads);
  const int tasks =
      plan.task.cluster().contains(plan.task.name()) ? plan.task.cluster().tasks_on_host_of(plan.task.name()) : 1;
  return static_cast<std::size_t>(threads_per_device(tasks, 1));
}

// Tells the task's actor that the service is over, and waits until nobody uses its data.
class Serving {
 public:
  Serving(Task& task, const std::shared_ptr<FeedService>& service)
      : input_(task.handles().input), service_(service), use_(FeedService::use(service)) {
    caf::anon_send(input_, ServeFeeds{use_});
  }
  ~Serving() {
    caf::anon_send(input_, EndService{std::exchange(use_, nullptr)});
    service_->await_release();
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

 private:
  const InputActor input_;
  const std::shared_ptr<FeedService> service_;
  LocalHandle use_;
};

}  // namespace

FeedService::Config feed_service(const TrainingPlan& plan, std::uint32_t slots, std::size_t in_use) {
  const bool serves = plan.task.name().job == kInputJob;
  return {.settings = feed_settings(plan, slots),
          .train = {&plan.train, training_batches(plan, slots, in_use)},
          .evaluation = {plan.evaluation, evaluation_batches(plan, std::min<std::size_t>(in_use, kTokensAhead))},
          .desk = {.ordered = !plan.train.addressable(),
                   .slots = slots,
                   .shares = serves ? std::max(1U, count(kInputJob, plan)) : 1,
                   .share = serves ? static_cast<std::uint32_t>(plan.task.name().index) : 0,
                   .epochs = static_cast<std::uint32_t>(plan.options.epochs),
                   .makers = makers(plan),
                   .memory = plan.options.read_ahead.memory}};
}

BatchFeed::Config feed_of_worker(const TrainingPlan& plan, std::uint32_t slots, std::size_t in_use,
                                 std::function<void()> wake) {
  return {.self = plan.task.name(),
          .system = plan.task.system(),
          .registry = plan.task.actors(),
          .node = plan.task.handles().node,
          .inputs = plan.task.cluster().tasks_of(kInputJob),
          .service = feed_service(plan, slots, in_use),
          .record = &plan.task.introspection().training(),
          .wake = std::move(wake),
          .on_event = [&plan](const std::string& text) {
            if (plan.options.on_event)
              plan.options.on_event({.kind = "data", .task = plan.task.name(), .text = text, .counts = {}});
          }};
}

TrainingResult serve_inputs(const TrainingPlan& plan, std::uint32_t slots) {
  using Clock = std::chrono::steady_clock;
  const ParameterServers usual{.on_loss = OnLoss::fail};
  const ParameterServers* const of_mode = servers_of(plan.options.mode);
  const ParameterServers& servers = of_mode ? *of_mode : usual;
  const auto service = std::make_shared<FeedService>(feed_service(plan, slots, 1));
  const Serving serving(plan.task, service);
  UserStop stop(plan.options, kReasonPatience);  // the job may still need batches until it has saved
  auto since = Clock::now();                     // without feeds
  for (;;) {
    const FeedService::Status status = service->await(kPollInterval);
    if (const Error failed = plan.task.failure()) throw failed;
    if (status.over) {
      plan.state.ended.emplace();
      plan.state.ended->at.epoch = status.over->epochs;
      plan.state.ended->at.step = plan.state.ended->at.epoch_step = status.over->steps;
      return {};
    }
    stop.check(plan);
    const auto now = Clock::now();
    if (status.feeds > 0) since = now;
    if (status.begun && status.feeds == 0 && !comes_back(servers, status.left)) throw status.left;
    const auto patience = status.begun ? servers.rejoin_timeout : servers.join_timeout;
    if (now - since < patience) continue;
    const double seconds = std::chrono::duration<double>(patience).count();
    if (status.begun) throw status.left.within(fmt::format("no worker has wanted batches for {} s", seconds));
    fail(Code::deadline_exceeded, "no worker began the training within {} s: start it there too", seconds);
  }
}

}  // namespace troupe
