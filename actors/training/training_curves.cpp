#include "troupe/actors/training/training_curves.hpp"

#include <algorithm>
#include <atomic>
#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <chrono>
#include <future>

#include <troupe/actors/base/spawn.hpp>
#include <troupe/actors/checkpoint/writer_actor.hpp>
#include <troupe/actors/tensorboard/event_file.hpp>
#include <troupe/actors/tensorboard/graph_def.hpp>
#include <troupe/actors/tensorboard/summary_values.hpp>

namespace troupe {
namespace {

namespace tensorboard = proto::tensorboard;

constexpr std::chrono::seconds kEnd{10};
constexpr std::chrono::milliseconds kPoll{200};

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

tensorboard::Event event_at(std::uint64_t step) {
  tensorboard::Event event;
  event.set_wall_time(now());
  event.set_step(static_cast<std::int64_t>(step));
  return event;
}

// Whether a later write may succeed. If not, the caller should learn that there will be no curves.
bool may_be_written_later(Code code) {
  return code == Code::resource_exhausted || code == Code::unavailable || code == Code::data_loss;
}

}  // namespace

std::optional<LossWindows::Point> LossWindows::add(std::uint64_t step, double loss, std::uint64_t examples) {
  std::optional<Point> before;
  if (step >= end_) {
    before = close(end_);
    end_ = (step / every_ + 1) * every_;
  }
  loss_sum_ += loss * static_cast<double>(examples);
  examples_ += examples;
  return before;
}

std::optional<LossWindows::Point> LossWindows::complete(std::uint64_t steps, bool all) {
  if (steps < end_ && !all) return std::nullopt;
  return close(std::min(steps, end_));
}

std::optional<LossWindows::Point> LossWindows::close(std::uint64_t steps) {
  if (examples_ == 0) return std::nullopt;
  const Point point{steps, loss_sum_ / static_cast<double>(examples_)};
  loss_sum_ = 0;
  examples_ = 0;
  return point;
}

// The file, and the actor that writes it. The file belongs to that actor's thread once it has work.
class TrainingCurves::Writer {
 public:
  Writer(const TrainingPlan& plan, const Graph& graph, const CurveLimits& limits)
      : files_(plan.files), directory_(plan.options.tensorboard), limits_(limits) {
    if (plan.options.on_event) on_event_ = plan.options.on_event;
    graph_ = graph_def_of(graph).SerializeAsString();
  }

  void spawn(Task& task, const std::shared_ptr<Writer>& self) {
    // Weak: the writer owns the actor.
    actor_ = spawn_actor<ActorKind::curves, CheckpointActorImpl>(task.system(), task.actors(), task.name().to_string(),
                                                                 [weak = std::weak_ptr(self)](const Error& why) {
                                                                   if (const auto writer = weak.lock())
                                                                     writer->give_up(why);
                                                                 });
  }
  void stop() {
    if (actor_) caf::anon_send(actor_, Stop{});
  }

  // Throws errors that a retry cannot fix; reports others.
  void open() {
    try {
      make_file();
    } catch (...) {
      const Error error = current_error();
      if (!may_be_written_later(error.code()))
        throw Error(error.code(), fmt::format("cannot write the training curves: {}; pass a directory that this "
                                              "task may write to, or train without them",
                                              error.message()));
      give_up(error);
    }
  }

  // `opens`: creates a file if there is none, because none was needed before or the disk was full.
  void post(const std::shared_ptr<Writer>& self, tensorboard::Event event, bool opens) {
    post(self, [self, event = std::move(event), opens] { self->write(event, opens); });
  }
  // A value of an event, which is made when it is written.
  struct Late {
    SummaryOutput summary;
    Tensor value;
  };
  void post(const std::shared_ptr<Writer>& self, tensorboard::Event event, std::vector<Late> values) {
    std::uint64_t bytes = 0;
    for (const Late& late : values) bytes += late.value.num_bytes();
    const std::uint64_t before = waiting_bytes_.fetch_add(bytes);
    const std::shared_ptr<void> end(nullptr, [self, bytes](void*) { self->waiting_bytes_.fetch_sub(bytes); });
    if (before > 0 && before + bytes > limits_.bytes) return tell_slow();
    post(self,
         [self, event = std::move(event), values = std::move(values), end]() mutable { self->write(event, values); });
  }
  void post(const std::shared_ptr<Writer>& self, std::function<void()> work, bool always = false) {
    const std::shared_ptr<void> end(nullptr, [self](void*) { self->waiting_.fetch_sub(1); });
    if (waiting_.fetch_add(1) >= limits_.events && !always) return tell_slow();
    caf::anon_send(
        actor_,
        WriteCheckpoint{std::make_shared<FileWork>(
            [work = std::move(work), end] { work(); },
            [self] {
              self->tell(fmt::format(
                  "some training curves in '{}' are lost: the actor that writes them failed; training continues",
                  self->directory_));
            })});
  }

 private:
  void make_file() {
    EventFile file(files_, directory_, now());
    tensorboard::Event graph = event_at(0);
    graph.set_graph_def(graph_);
    file.write(graph);
    file_.emplace(std::move(file));
  }

  void write(const tensorboard::Event& event, bool opens) {
    if (!file_ && !opens) return;
    try {
      if (!file_) make_file();
      file_->write(event);
    } catch (...) {
      give_up(current_error());
    }
  }

  void write(tensorboard::Event& event, const std::vector<Late>& values) {
    if (!file_) return;
    for (const Late& late : values) add(*event.mutable_summary(), late);
    write(event, false);
  }

  void add(tensorboard::Summary& summary, const Late& late) {
    try {
      add_summary(summary, late.summary, late.value);
    } catch (const Error& error) {  // an image without pixels
      tell(fmt::format("cannot write the summary '{}': {}", late.summary.tag, error.message()));
    }
  }

  // The file may end with half an event, so it is abandoned.
  void give_up(const Error& why) {
    file_.reset();
    tell(fmt::format(
        "cannot write the training curves in '{}': {}; training continues, and writing is retried after the "
        "epoch",
        directory_, why.message()));
  }

  void tell_slow() {
    tell(fmt::format("the disk is too slow: some training curves in '{}' are lost; training continues", directory_));
  }
  void tell(std::string text) {
    if (!told_.exchange(true)) on_event_({.kind = "curves_failed", .task = {}, .text = std::move(text), .counts = {}});
  }

  FileSystem& files_;
  const std::string directory_;
  const CurveLimits limits_;
  std::string graph_;
  std::function<void(const JobEvent&)> on_event_ = [](const JobEvent&) {};
  CheckpointActor actor_;
  std::optional<EventFile> file_;
  std::atomic<int> waiting_{0};
  std::atomic<std::uint64_t> waiting_bytes_{0};
  std::atomic<bool> told_{false};
};

TrainingCurves::TrainingCurves(const TrainingPlan& plan, const TrainingGraph& graph, bool tells,
                               const CurveLimits& limits)
    : plan_(plan),
      rate_(troupe::learning_rate(graph.optimizers.front())),
      summaries_(graph.summaries),
      tells_(tells),
      windows_(std::max<std::uint64_t>(1, plan.options.tensorboard_every)) {
  if (plan.options.tensorboard.empty()) return;
  auto writer = std::make_shared<Writer>(plan, *graph.graph, limits);
  if (tells) writer->open();
  writer->spawn(plan.task, writer);
  writer_ = std::move(writer);
}

TrainingCurves::~TrainingCurves() {
  if (writer_) writer_->stop();
}

void TrainingCurves::begin(std::uint64_t steps) {
  if (begun_) return;
  begun_ = true;
  tensorboard::Event event = event_at(steps);
  event.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  writer_->post(writer_, std::move(event), true);
}

void TrainingCurves::step_done(std::uint64_t step, double loss, std::uint64_t examples) {
  if (!on()) return;
  begin(step == 0 ? 0 : step + 1);  // curves of earlier steps are at step counts up to `step`
  point(windows_.add(step, loss, examples));
}

void TrainingCurves::epoch_done(const EpochLogs& figures) {
  if (!on()) return;
  begin(figures.steps);
  point(windows_.complete(figures.steps, figures.epoch + 1 == static_cast<std::uint32_t>(plan_.options.epochs)));
  tensorboard::Event event = event_at(figures.steps);
  tensorboard::Summary& summary = *event.mutable_summary();
  for (const auto& [name, value] : figures.figures) add_scalar(summary, "epoch/" + name, value);
  add_scalar(summary, "epoch/examples_per_second", figures.examples_per_second);
  writer_->post(writer_, std::move(event), true);
}

void TrainingCurves::parameters(std::uint64_t steps, Parameters values) {
  if (!on()) return;
  std::vector<Writer::Late> histograms;
  for (auto& [name, value] : values)
    histograms.push_back(
        {.summary = {.kind = SummaryKind::histogram, .tag = "parameters/" + name}, .value = std::move(value)});
  writer_->post(writer_, event_at(steps), std::move(histograms));
}

Outputs TrainingCurves::summary_outputs() const {
  Outputs out;
  if (writer_)
    for (const SummaryOutput& summary : summaries_) out.push_back(summary.value);
  return out;
}

bool TrainingCurves::takes_summaries(std::uint64_t step) {
  if (!on() || summaries_.empty() || step < next_summaries_) return false;
  const std::uint64_t every = std::max<std::uint64_t>(1, plan_.options.tensorboard_every);
  next_summaries_ = (step / every + 1) * every;
  return true;
}

void TrainingCurves::summaries(std::uint64_t step, std::vector<Tensor> values) {
  if (!on()) return;
  begin(step == 0 ? 0 : step + 1);
  std::vector<Writer::Late> late;
  for (std::size_t i = 0; i < values.size(); ++i)
    late.push_back({.summary = summaries_[i], .value = std::move(values[i])});
  writer_->post(writer_, event_at(step + 1), std::move(late));
}

void TrainingCurves::point(const std::optional<LossWindows::Point>& point) {
  if (!point) return;
  tensorboard::Event event = event_at(point->steps);
  add_scalar(*event.mutable_summary(), "loss", point->loss);
  if (const auto rate = learning_rate(point->steps)) add_scalar(*event.mutable_summary(), "learning_rate", *rate);
  writer_->post(writer_, std::move(event), false);
}

// The rate of the last update after `steps` steps. None for a changing rate with a scaled loss, where skipped steps
// made no update.
std::optional<double> TrainingCurves::learning_rate(std::uint64_t steps) const {
  if (plan_.loss_scaling && !rate_.is_constant()) return std::nullopt;
  const auto updates =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(steps) / fields_of(plan_.options.mode).aggregate);
  return rate_.rate(updates - 1);
}

void TrainingCurves::wait() const {
  if (!writer_) return;
  const auto written = std::make_shared<std::promise<void>>();
  std::future<void> all = written->get_future();
  writer_->post(
      writer_, [written] { written->set_value(); }, true);
  const auto deadline = std::chrono::steady_clock::now() + kEnd;
  const auto stopped = [&] { return plan_.options.stop && plan_.options.stop->load(std::memory_order_relaxed); };
  while (!stopped() && std::chrono::steady_clock::now() < deadline &&
         all.wait_for(kPoll) != std::future_status::ready) {
  }
}

}  // namespace troupe
