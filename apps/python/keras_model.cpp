// Models of troupe.keras: Model of actors/model, with Python's callbacks around its training.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <set>

#include "apps/python/device_libraries.hpp"
#include "apps/python/fork.hpp"
#include "apps/python/keras.hpp"
#include "apps/python/task.hpp"
#include "apps/python/tensors.hpp"
#include <troupe/actors/model/model.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/actors/training/mode_text.hpp>
#include <troupe/graph/layers/core.hpp>
#include <troupe/graph/training/network_program.hpp>
#include <troupe/graph/training/towers.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

using Values = std::map<std::string, Tensor>;

template <class T>
T value_or(const nb::dict& given, const char* name, T otherwise) {
  return given.contains(name) ? nb::cast<T>(given[name]) : otherwise;
}

// How one output learns: {"output", "loss", "weight", "target", "sample_weights", "metrics", "weighted_metrics"}.
OutputTraining output_training(const nb::dict& given) {
  OutputTraining out;
  out.output = value_or<std::string>(given, "output", "");
  if (given.contains("loss")) out.loss = nb::cast<LossFunction>(given["loss"]);
  out.weight = value_or(given, "weight", 1.0);
  out.target = value_or<std::string>(given, "target", "");
  out.sample_weights = value_or<std::string>(given, "sample_weights", "");
  out.metrics = value_or<std::vector<Metric>>(given, "metrics", {});
  out.weighted_metrics = value_or<std::vector<Metric>>(given, "weighted_metrics", {});
  return out;
}

ModelOptions model_options(const std::string& optimizer, const std::vector<nb::dict>& outputs, const nb::dict& more) {
  ModelOptions options{.optimizer = parse_optimizer(optimizer)};
  for (const nb::dict& output : outputs) options.outputs.push_back(output_training(output));
  options.precision = dtype_named(value_or<std::string>(more, "precision", "f32"));
  options.clipping = {.value = value_or(more, "clip_value", 0.0),
                      .norm = value_or(more, "clip_norm", 0.0),
                      .global_norm = value_or(more, "clip_global_norm", 0.0)};
  if (more.contains("train")) options.train = nb::cast<std::vector<std::string>>(more["train"]);
  return options;
}

nb::dict figures_as_dict(const Figures& figures) {
  nb::dict out;
  for (const auto& [name, value] : figures) out[name.c_str()] = value;
  return out;
}

// Ends a training early: what Python raised, Ctrl-C, or a callback that wants no more.
struct Ending {
  std::atomic<bool> stop = false;
  std::exception_ptr raised;

  // Calls Python, whose exception ends the training once its parameters are those of now.
  template <class Call>
  void call_python(const Call& call) {
    const nb::gil_scoped_acquire held;
    if (raised) return;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      call();
    } catch (const nb::python_error&) {
      raised = std::current_exception();
      stop = true;
    }
  }
};

// Ctrl-C ends what runs on the main thread, also while it waits for data, and then raises KeyboardInterrupt. A second
// one is Python's.
class Interrupt {
 public:
  explicit Interrupt(Ending& ending) : ending_(ending) {
    const nb::module_ signals = nb::module_::import_("signal"), threads = nb::module_::import_("threading");
    const bool usual = signals.attr("getsignal")(SIGINT).is(signals.attr("default_int_handler")) &&
                       threads.attr("current_thread")().is(threads.attr("main_thread")());
    if (!usual) return;
    here_ = true;
    outer_ = innermost_;
    innermost_ = this;
    if (outer_) return;
    interrupted_ = 0;
    struct sigaction now {};
    now.sa_handler = [](int) {
      interrupted_ = 1;
      for (Interrupt* each = innermost_; each; each = each->outer_) each->ending_.stop = true;
      ::sigaction(SIGINT, &before_, nullptr);
    };
    ::sigaction(SIGINT, &now, &before_);
  }
  ~Interrupt() { restore(); }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Runs it without the interpreter's lock; raises what Python or the user has ended it with.
  template <class Run>
  void around(const Run& run) {
    try {
      const nb::gil_scoped_release released;
      run();
    } catch (const Error& error) {
      if (error.code() != Code::cancelled || !ending_.stop) throw;
    }
    const bool interrupted = here_ && interrupted_ != 0;
    restore();
    if (ending_.raised) std::rethrow_exception(ending_.raised);
    if (interrupted) {
      PyErr_SetNone(PyExc_KeyboardInterrupt);
      throw nb::python_error();
    }
  }

 private:
  void restore() {
    if (!std::exchange(here_, false)) return;
    innermost_ = outer_;
    if (!outer_) ::sigaction(SIGINT, &before_, nullptr);
  }

  Ending& ending_;
  Interrupt* outer_ = nullptr;  // that of a training, whose callback evaluates
  bool here_ = false;
  static inline std::atomic<Interrupt*> innermost_ = nullptr;
  static inline volatile sig_atomic_t interrupted_ = 0;
  static inline struct sigaction before_ {};
};

// Python's callbacks: epoch(epoch, figures, steps, seconds) -> (stop, factor of learning rates).
class PythonCallback final : public Callback {
 public:
  PythonCallback(nb::handle reporter, Ending& ending) : reporter_(reporter), ending_(ending) {}
  std::string describe() const override { return "python"; }
  Decide decision() const override {
    return [reporter = reporter_, &ending = ending_](const EpochLogs& logs, EpochDecision& decision) {
      ending.call_python([&] {
        const nb::object made =
            reporter.attr("epoch")(logs.epoch, figures_as_dict(logs.figures), logs.steps, logs.seconds);
        const auto [stop, factor] = nb::cast<std::pair<bool, double>>(made);
        decision.stop = decision.stop || stop;
        decision.rate_scale *= factor;
      });
    };
  }

 private:
  nb::handle reporter_;
  Ending& ending_;
};

constexpr auto kBetweenReports = std::chrono::milliseconds(100);

// Calls progress(epoch, step, steps, figures) a few times a second, or after each step.
std::function<void(const StepProgress&)> reports_to(nb::handle reporter, bool each_step, Ending& ending) {
  return [reporter, each_step, &ending, last = std::chrono::steady_clock::now()](const StepProgress& at) mutable {
    const auto now = std::chrono::steady_clock::now();
    if (!each_step && now - last < kBetweenReports) return;
    last = now;
    ending.call_python([&] { reporter.attr("progress")(at.epoch, at.step, at.steps, figures_as_dict(at.figures())); });
  };
}

// If none is given, on a cluster: with parameter servers in mode sync, among workers alone in mode allreduce.
JobMode mode_of_training(const std::string& given, int slots) {
  if (!given.empty()) return parse_mode(given);
  const auto task = joined_task();
  if (!task || task->cluster().count("worker") == 0) return LocalMode{.slots = slots};
  if (task->cluster().count("ps") == 0) return AllReduceMode{};
  return SyncMode{.slots = slots > 1 ? slots : 0};
}

TrainingOptions training_options(const nb::dict& given) {
  TrainingOptions options;
  options.mode = mode_of_training(value_or<std::string>(given, "mode", ""), value_or(given, "slots", 1));
  options.epochs = value_or(given, "epochs", 1);
  options.batch = value_or(given, "batch", 32);
  options.evaluation_batch = value_or(given, "evaluation_batch", 500);
  options.last_step = LastStep::keep;
  options.micro_batches = value_or(given, "micro_batches", 1);
  if (options.micro_batches > 1) options.last_step = LastStep::drop;
  options.seed = value_or<std::uint64_t>(given, "seed", 0);
  options.checkpoint = value_or<std::string>(given, "checkpoint", "");
  options.checkpoint_every = value_or<std::uint64_t>(given, "checkpoint_every", 0);
  options.publish = value_or<std::string>(given, "publish", "");
  options.publish_gates = value_or<std::vector<std::string>>(given, "publish_gates", {});
  options.tensorboard = value_or<std::string>(given, "tensorboard", "");
  options.quiet = true;
  options.callbacks = value_or<std::vector<CallbackPtr>>(given, "callbacks", {});
  return options;
}

class KerasModel;

// The task on which models compute, and the models, which end before it does.
struct KerasTask {
  std::shared_ptr<Task> task;
  std::set<KerasModel*> models;
};
KerasTask& keras_task() {
  static auto* const one = new KerasTask;  // ended by close_all(), not after main()
  return *one;
}

Task& task_of_models() {
  check_not_forked();
  KerasTask& of_all = keras_task();
  if (const auto of_cluster = joined_task()) of_all.task = of_cluster;
  if (!of_all.task) {
    const nb::gil_scoped_release released;
    of_all.task = std::make_shared<Task>(own_task_options(0));
  }
  return *of_all.task;
}

class KerasModel {
 public:
  explicit KerasModel(const Network& network) : KerasModel(Model(network)) {}
  explicit KerasModel(Model model) : model_(std::make_unique<Model>(std::move(model))) {
    keras_task().models.insert(this);
  }
  KerasModel(const KerasModel&) = delete;
  KerasModel& operator=(const KerasModel&) = delete;
  ~KerasModel() { close(); }

  void close() {
    keras_task().models.erase(this);
    const nb::gil_scoped_release released;  // threads of the model may let go of arrays
    model_.reset();
  }

  void compile(const std::string& optimizer, const std::vector<nb::dict>& outputs, const nb::dict& more) {
    model().compile(model_options(optimizer, outputs, more), task_of_models());
  }

  nb::dict fit(const PyBatchSource& train, const std::optional<PyBatchSource>& evaluation, const nb::dict& given,
               nb::handle reporter) {
    Model& model = this->model();
    Ending ending;
    TrainingOptions options = training_options(given);
    options.stop = &ending.stop;
    options.callbacks.insert(options.callbacks.begin(), std::make_shared<PythonCallback>(reporter, ending));
    options.on_progress = reports_to(reporter, value_or(given, "each_step", false), ending);
    options.on_event = [&](const JobEvent& event) {
      if (event.kind == "no_test" || event.text.empty()) return;
      const nb::gil_scoped_acquire held;
      reporter.attr("event")(event.kind, event.text);
    };
    TrainingResult result;
    Interrupt(ending).around([&] {
      result = evaluation ? model.fit(*train.source, *evaluation->source, options) : model.fit(*train.source, options);
    });
    nb::dict out;
    out["steps"] = result.steps;
    out["seconds"] = result.seconds;
    out["examples_per_second"] = result.examples_per_second;
    out["params_sha256"] = result.params_sha256;
    if (!options.publish.empty()) out["published"] = result.published;
    return out;
  }

  // Figures by name, arrays among them.
  nb::dict evaluate(const PyBatchSource& source, std::int64_t batch) {
    Model& model = this->model();
    Evaluation found;
    Ending ending;
    Interrupt(ending).around([&] { found = model.evaluate(*source.source, batch, &ending.stop); });
    nb::dict out = figures_as_dict(found.figures);
    for (const auto& [name, tensor] : found.tensors) out[name.c_str()] = tensor;
    return out;
  }

  Values predict(const PyBatchSource& source, std::int64_t batch) {
    Model& model = this->model();
    Values found;
    Ending ending;
    Interrupt(ending).around([&] { found = model.predict(*source.source, batch, &ending.stop); });
    return found;
  }

  void save(const std::string& directory, const std::map<std::string, std::string>& metadata) {
    Model& model = this->model();
    const nb::gil_scoped_release released;
    SavedModel more;
    more.metadata = metadata;
    model.save(directory, more);
  }

  Values parameters() { return model().parameters(); }
  void set_parameters(const Values& values) {
    Model& model = this->model();
    const nb::gil_scoped_release released;
    model.set_parameters(values);
  }
  std::string params_sha256() { return model().params_sha256(); }

 private:
  Model& model() {
    if (!model_) fail(Code::failed_precondition, "the model has ended with the interpreter");
    return *model_;
  }

  std::unique_ptr<Model> model_;
};

void close_all() {
  KerasTask& of_all = keras_task();
  while (!of_all.models.empty()) (*of_all.models.begin())->close();
  const nb::gil_scoped_release released;
  of_all.task.reset();
}

BatchSchema schema_of_inputs(const Network& network) {
  BatchSchema schema;
  for (const InputSpec& input : network.plan().inputs)
    schema.push_back({.name = input.name, .dtype = input.dtype, .shape = input.shape});
  return schema;
}

// Writes what predicts: a graph and values, without layers.
void export_network(const Network& network, const Values& values, const std::string& directory) {
  Task& task = task_of_models();
  const nb::gil_scoped_release released;
  Model served(network_predictions(network), schema_of_inputs(network));
  served.compile({}, task);
  served.set_parameters(values);
  served.save(directory);
}

// The network with those members frozen: "encoder/dense" is of the network "encoder" inside.
Network with_frozen(const Network& network, const std::vector<std::string>& paths) {
  NetworkPlan plan = network.plan();
  for (NetworkPlan::Member& member : plan.members) {
    std::vector<std::string> inside;
    for (const std::string& path : paths) {
      if (path == member.name) member.layer = layers::frozen(member.layer);
      if (path.starts_with(member.name + "/")) inside.push_back(path.substr(member.name.size() + 1));
    }
    if (inside.empty()) continue;
    const LayerConfig config = member.layer->config();
    member.layer = with_frozen(Network(*config.network, config.kind), inside).layer();
  }
  return Network(std::move(plan), network.layer()->kind());
}

// First values of a network's weights, as a training with this seed draws them.
Values initial_values(const Network& network, std::uint64_t seed) {
  Task& task = task_of_models();
  const nb::gil_scoped_release released;
  const TrainingGraph graph = build_inference_graph(network_predictions(network), schema_of_inputs(network));
  if (graph.parameters.empty()) return {};
  Outputs reads;
  for (const VariableRef& v : graph.parameters) reads.push_back(v.read());
  const Output initialize = initializer(*graph.graph);
  Session session(task, *graph.graph, {.seed = seed});
  session.run({}, std::vector<Output>{}, {initialize}, {.random_step = 0});
  const std::vector<Tensor> found = session.run(reads);
  Values out;
  for (std::size_t i = 0; i < reads.size(); ++i) out.emplace(graph.parameters[i].name, found[i]);
  return out;
}

callbacks::Better better_of(const std::string& mode) {
  using callbacks::Better;
  return mode == "min" ? Better::lower : mode == "max" ? Better::higher : Better::automatic;
}

}  // namespace

void bind_keras_model(nb::module_& m) {
  nb::class_<CallbackPtr>(m, "Callback");
  m.def(
      "early_stopping",
      [](const std::string& monitor, double min_delta, std::uint32_t patience, const std::string& mode, bool keep_best,
         std::uint32_t from_epoch) {
        return callbacks::early_stopping({.figure = monitor,
                                          .better = better_of(mode),
                                          .min_delta = min_delta,
                                          .patience = patience,
                                          .from_epoch = from_epoch,
                                          .keep_best = keep_best});
      },
      "monitor"_a, "min_delta"_a, "patience"_a, "mode"_a, "keep_best"_a, "from_epoch"_a);
  m.def(
      "reduce_on_plateau",
      [](const std::string& monitor, double factor, std::uint32_t patience, const std::string& mode, double min_delta,
         std::uint32_t cooldown, double least) {
        return callbacks::reduce_on_plateau({.figure = monitor,
                                             .better = better_of(mode),
                                             .factor = factor,
                                             .patience = patience,
                                             .min_delta = min_delta,
                                             .cooldown = cooldown,
                                             .least = least});
      },
      "monitor"_a, "factor"_a, "patience"_a, "mode"_a, "min_delta"_a, "cooldown"_a, "least"_a);
  m.def("stop_on_nan", &callbacks::stop_on_nan);
  m.def(
      "is_better",
      [](const std::string& monitor, const std::string& mode, double now, double best, double min_delta) {
        return callbacks::is_better(monitor, better_of(mode), now, best, min_delta);
      },
      "monitor"_a, "mode"_a, "now"_a, "best"_a, "min_delta"_a = 0.0);
  nb::class_<KerasModel>(m, "Model")
      .def(nb::init<const Network&>(), "network"_a)
      .def_static(
          "load",
          [](const std::string& directory) {
            const nb::gil_scoped_release released;
            return new KerasModel(Model::load(directory));
          },
          "directory"_a)
      .def("compile", &KerasModel::compile, "optimizer"_a, "outputs"_a, "more"_a)
      .def("fit", &KerasModel::fit, "train"_a, "evaluation"_a.none(), "options"_a, "reporter"_a)
      .def("evaluate", &KerasModel::evaluate, "source"_a, "batch"_a)
      .def("predict", &KerasModel::predict, "source"_a, "batch"_a)
      .def("save", &KerasModel::save, "directory"_a, "metadata"_a)
      .def("parameters", &KerasModel::parameters)
      .def("set_parameters", &KerasModel::set_parameters, "values"_a)
      .def("params_sha256", &KerasModel::params_sha256);
  m.def("export_network", &export_network, "network"_a, "values"_a, "directory"_a);
  m.def("with_frozen", &with_frozen, "network"_a, "paths"_a);
  m.def("initial_values", &initial_values, "network"_a, "seed"_a);
  m.def(
      "metadata_of",
      [](const std::string& directory) {
        const nb::gil_scoped_release released;
        return read_model(file_system_of(directory), directory).metadata;
      },
      "directory"_a);
  m.def("close_all", &close_all);
}

}  // namespace troupe::python
