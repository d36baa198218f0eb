#include "troupe/graph/training/towers.hpp"

#include <algorithm>
#include <set>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/name_pattern.hpp>
#include <troupe/graph/training/all_reduce.hpp>
#include <troupe/graph/training/backprop_order.hpp>

namespace troupe {
namespace {

// What a tower computes in one phase.
struct Part {
  std::vector<GradientAndVariable> gradients;
  Output figures;  // flat, f64
};

struct Tower {
  Outputs batch;
  std::vector<Part> parts;  // by phase
};

void check(const BatchSchema& schema, const TowerOptions& options) {
  check_schema(schema);
  if (options.slots < 1) invalid_argument("training graph: there must be at least 1 slot, not {}", options.slots);
  if (options.batch != kUnknown && options.batch < 1)
    invalid_argument("training graph: a batch must have at least 1 example, not {}", options.batch);
  if (options.micro_batches < 1)
    invalid_argument("training graph: there must be at least 1 micro-batch, not {}", options.micro_batches);
  for (const BatchComponent& component : schema)
    if (component.whole && options.micro_batches > 1)
      invalid_argument("training graph: '{}' is of a whole batch, which is not cut into {} micro-batches",
                       component.name, options.micro_batches);
  if (options.micro_batches > 1 && (options.batch == kUnknown || options.batch % options.micro_batches != 0))
    invalid_argument("training graph: batch size {} is not divisible by {} micro-batches",
                     options.batch == kUnknown ? "?" : std::to_string(options.batch), options.micro_batches);
}

// The part of a name before its last slash.
std::string_view folder_of(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : name.substr(0, slash);
}

class Builder {
 public:
  Builder(const Program& program, const BatchSchema& schema, const TowerOptions& options)
      : program_(program), schema_(schema), options_(options), graph_(*out_.graph) {}

  TrainingGraph inference() {
    const auto device = graph_.on_device(device_of(0));
    evaluation();
    out_.initializer = initializer(graph_);
    out_.parameters = variables_.all();
    return std::move(out_);
  }

  TrainingGraph run() {
    if (options_.loss_scaling) {
      const auto device = graph_.on_device(device_of(0));
      out_.loss_scale = loss_scale(graph_, *options_.loss_scaling);
      out_.loss_scale->on_shards = options_.on_shards;
    }
    if (options_.scalable_rates && !options_.on_shards)
      out_.rate_scale = constant(graph_, Tensor::scalar(1.0), kRateScale);
    for (int slot = 0; slot < options_.slots; ++slot) {
      const int first = graph_.size();
      const auto device = graph_.on_device(device_of(slot));
      towers_.push_back(slot == 0 ? tower() : further_tower(slot));
      out_.batches.push_back(towers_.back().batch);
      if (options_.slots > 1) mark(first, slot);
    }
    const auto device = graph_.on_device(device_of(0));
    for (std::size_t phase = 0; phase < out_.phases.size(); ++phase) update(phase);
    {
      const auto scope = graph_.scope("evaluation");
      evaluation();
    }
    out_.initializer = initializer(graph_);
    list_parameters();
    return std::move(out_);
  }

 private:
  std::string device_of(int slot) const {
    const auto& devices = options_.devices;
    return devices.empty() ? "" : devices[static_cast<std::size_t>(slot) % devices.size()];
  }
  static std::string scope_of(int slot) { return fmt::format("slot_{}", slot); }

  Outputs placeholders(std::int64_t batch) {
    Outputs out;
    for (const BatchComponent& component : schema_)
      out.push_back(placeholder(graph_, component.dtype, component.batch_shape(batch), component.name));
    return out;
  }

  // `averages`: null: not in training.
  ProgramOutputs apply(const Outputs& batch, std::vector<RunningAverage>* averages) {
    std::map<std::string, Output, std::less<>> components;
    for (std::size_t i = 0; i < batch.size(); ++i) components.emplace(schema_[i].name, batch[i]);
    ProgramContext context{graph_, schema_, components, variables_, averages != nullptr, averages};
    ProgramOutputs outputs = program_(context);
    for (const Objective& objective : outputs.objectives) {
      if (!objective.loss.valid()) invalid_argument("objective '{}' has no loss", objective.name);
      if (!objective.loss.shape().is_scalar() || !is_floating(objective.loss.dtype()))
        invalid_argument("the loss of objective '{}' is {}{}, but must be a floating scalar: take the mean",
                         objective.name, name(objective.loss.dtype()), objective.loss.shape().to_string());
    }
    return outputs;
  }

  // The figures of the objectives in a phase (all: of no particular one) as one flat tensor.
  Output flat_figures(const ProgramOutputs& outputs, std::optional<std::size_t> phase, const Outputs& batch,
                      FigureLayout* layout) {
    const auto scope = graph_.scope("figures");
    Outputs parts;
    std::set<std::string> names;
    const Output examples = examples_of(batch);
    const auto note = [&](const std::string& name, const Shape& shape, const FigureResult& result) {
      if (name.empty() || name.find_first_of(" \n") != std::string::npos)
        invalid_argument("a figure has the name '{}': it must not be empty or have spaces", name);
      if (!names.insert(name).second) invalid_argument("two figures have the name '{}'", name);
      if (!shape.fully_known()) invalid_argument("the sums of figure '{}' must have a known shape", name);
      if (!layout) return;
      layout->add(name, shape);
      out_.results[name] = [shape, result](const Tensor& sums) { return result(sums.reshaped(shape)); };
    };
    for (std::size_t i = 0; i < outputs.objectives.size(); ++i) {
      if (phase && !in_phase(i, *phase)) continue;
      parts.push_back(flat(mul(cast(outputs.objectives[i].loss, DType::f64), examples)));
      parts.push_back(examples);
      note(outputs.objectives[i].name, Shape{2}, mean_of_sums);
    }
    for (const Figure& figure : outputs.figures) {
      if (phase && !in_phase(figure.objective, *phase)) continue;
      if (!figure.sums.valid()) invalid_argument("figure '{}' has no sums", figure.name);
      note(figure.name, figure.sums.shape(), figure.result);
      parts.push_back(flat(cast(figure.sums, DType::f64)));
    }
    return parts.empty() ? constant(graph_, Tensor(DType::f64, Shape{0})) : concat(parts, 0);
  }
  bool in_phase(std::size_t objective, std::size_t phase) const { return options_.simultaneous || objective == phase; }

  static Output flat(Output x) { return x.shape().rank() == 1 ? x : reshape(x, Shape{x.shape().num_elements()}); }

  // The number of examples of a batch: f64 [1].
  Output examples_of(const Outputs& batch) {
    const std::int64_t known = batch.front().shape()[0];
    if (known != kUnknown) return constant(graph_, Tensor::vector<double>({static_cast<double>(known)}));
    return cast(slice(shape_of(batch.front()), {0}, {1}), DType::f64);
  }

  Tower tower() {
    Tower t{.batch = placeholders(options_.batch), .parts = {}};
    if (options_.micro_batches == 1)
      compute(t);
    else
      compute_in_parts(t);
    for (Part& part : t.parts) {
      part.gradients = clip_gradients(part.gradients, options_.clipping, out_.loss_scale ? &*out_.loss_scale : nullptr);
      for (GradientAndVariable& g : part.gradients)
        if (g.gradient.is_sparse()) sum_rows(g);
    }
    return t;
  }

  // Adds up the gradients of rows that the slot touches several times: a worker pushes each row once.
  void sum_rows(GradientAndVariable& g) {
    const auto scope = graph_.scope("sum_rows");
    const Outputs sums = add_outputs("SumRows", {g.gradient.indices, g.gradient.values},
                                     {{"K", std::int64_t{1}}, {"rows", g.variable.shape[0]}}, g.variable.name);
    g.gradient = {.indices = sums[0], .values = sums[1]};
  }

  // Computes figures and gradients from its batch.
  void compute(Tower& t) {
    std::vector<RunningAverage> averages;
    const int begin = graph_.size();
    const ProgramOutputs outputs = apply(t.batch, &averages);
    const bool first = out_.phases.empty();
    if (first) out_.summaries = summaries_of(graph_, begin);
    if (outputs.objectives.empty()) invalid_argument("the program has no objective: nothing would be trained");
    if (first) begin_phases(outputs);
    for (std::size_t phase = 0; phase < out_.phases.size(); ++phase) {
      Part& part = t.parts.emplace_back();
      part.figures = flat_figures(outputs, phase, t.batch, first ? &out_.phases[phase].layout : nullptr);
      for (std::size_t i = 0; i < outputs.objectives.size(); ++i)
        if (in_phase(i, phase)) add_gradients(outputs.objectives[i], i, part);
    }
    const auto scope = graph_.scope("running_averages");
    for (GradientAndVariable& move : moves_of(averages))
      if (const auto phase = phase_of_average(move.variable.name)) t.parts[*phase].gradients.push_back(std::move(move));
  }

  // Knows which variables each objective trains when the program has made them all.
  void begin_phases(const ProgramOutputs& outputs) {
    std::map<std::string, std::string> trainer;
    for (const Objective& objective : outputs.objectives) {
      out_.optimizers.push_back(objective.optimizer);
      std::vector<VariableRef>& trained = trained_.emplace_back();
      for (const VariableRef& v : variables_.trainable()) {
        if (std::ranges::none_of(objective.train, [&](const std::string& p) { return matches(p, v.name); })) continue;
        if (const auto [other, added] = trainer.emplace(v.name, objective.name); !added)
          invalid_argument("objectives '{}' and '{}' both train '{}': give them patterns that do not overlap",
                           other->second, objective.name, v.name);
        trained.push_back(v);
      }
      if (trained.empty())
        invalid_argument("objective '{}' trains no variable: its patterns match none that is trainable",
                         objective.name);
      if (out_.phases.empty() || !options_.simultaneous) out_.phases.push_back({.name = objective.name});
    }
    if (options_.loss_scaling && outputs.objectives.size() > 1)
      fail(Code::unimplemented, "loss scaling (f16) with several objectives is not supported: use bf16");
  }

  void add_gradients(const Objective& objective, std::size_t index, Part& part) {
    const Output loss = out_.loss_scale ? out_.loss_scale->scaled(objective.loss, "scaled_loss") : objective.loss;
    for (GradientAndVariable& g : compute_gradients(loss, trained_[index])) part.gradients.push_back(std::move(g));
  }

  // The phase that trains variables of the average's layer; none: the layer is frozen, and so is the average.
  std::optional<std::size_t> phase_of_average(std::string_view average) const {
    for (std::size_t i = 0; i < trained_.size(); ++i)
      for (const VariableRef& v : trained_[i])
        if (folder_of(v.name) == folder_of(average)) return options_.simultaneous ? 0 : i;
    return std::nullopt;
  }

  void compute_in_parts(Tower& whole) {
    std::vector<Tower> parts;
    for (int k = 0; k < options_.micro_batches; ++k) {
      if (k == 0) {
        parts.push_back(computed_part(whole, k));
        whole.parts = parts.back().parts;
        continue;
      }
      const auto scope = graph_.scope(fmt::format("micro_{}", k));
      parts.push_back(computed_part(whole, k));
      accumulate(whole, parts.back());
    }
    const auto scope = graph_.scope("micro_mean");
    for (std::size_t phase = 0; phase < whole.parts.size(); ++phase) {
      std::vector<GradientAndVariable>& gradients = whole.parts[phase].gradients;
      for (const std::size_t i : backprop_order(gradients)) {
        const auto inner = graph_.scope(gradients[i].variable.name);
        gradients[i].gradient = average(gradients[i].gradient.dense, flows(parts, phase, i), "micro_batches");
      }
    }
  }

  Tower computed_part(const Tower& whole, int k) {
    Tower part = part_of(whole, k);
    compute(part);
    return part;
  }

  // Starts once the previous part is complete.
  Tower part_of(const Tower& whole, int k) {
    Outputs before;
    for (const Part& part : whole.parts) {
      before.push_back(part.figures);
      for (const GradientAndVariable& g : part.gradients)
        before.push_back(g.gradient.is_dense() ? g.gradient.dense : g.gradient.values);
    }
    const auto after = graph_.after(before);
    const std::int64_t size = options_.batch / options_.micro_batches;
    Tower out;
    for (std::size_t i = 0; i < schema_.size(); ++i) {
      const Output& x = whole.batch[i];
      Integers begin(static_cast<std::size_t>(x.shape().rank()), 0), sizes(begin.size(), -1);
      begin[0] = k * size;
      sizes[0] = size;
      out.batch.push_back(slice(x, begin, sizes, schema_[i].name + "_part"));
    }
    return out;
  }

  // Rows of sparse gradients are joined at the end.
  static void accumulate(Tower& sum, const Tower& more) {
    const auto scope = more.batch.front().graph->scope("sum");
    for (std::size_t phase = 0; phase < sum.parts.size(); ++phase) {
      Part& so_far = sum.parts[phase];
      const Part& part = more.parts[phase];
      so_far.figures = add(so_far.figures, part.figures, "figures");
      for (const std::size_t i : backprop_order(part.gradients)) {
        const Gradient& gradient = part.gradients[i].gradient;
        Gradient& total = so_far.gradients[i].gradient;
        if (gradient.is_dense())
          total = {.dense = add(total.dense, gradient.dense, part.gradients[i].variable.name)};
        else
          total = gradient;  // the next part waits for it
      }
    }
  }

  // The gradients of variable i in a phase: all dense or all sparse, since the towers are alike.
  static std::vector<Gradient> flows(const std::vector<Tower>& towers, std::size_t phase, std::size_t i) {
    std::vector<Gradient> out;
    for (const Tower& t : towers) out.push_back(t.parts[phase].gradients[i].gradient);
    return out;
  }

  // Another tower: the variables already exist.
  Tower further_tower(int slot) {
    const auto scope = graph_.scope(scope_of(slot));
    return tower();
  }

  void mark(int first, int slot) {
    const std::size_t prefix = slot == 0 ? 0 : scope_of(slot).size() + 1;
    for (int id = first; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      graph_.set_attribute(node, "_slot", std::int64_t{slot});
      if (prefix > 0) graph_.set_attribute(node, "_original_name", node.name.substr(prefix));
    }
  }

  void update(std::size_t index) {
    TrainingPhase& phase = out_.phases[index];
    for (const Tower& t : towers_) phase.figures.push_back(t.parts[index].figures);
    auto gradients = mean_gradients(index);
    if (options_.all_reduce) gradients = all_reduce_gradients(graph_, gradients, {.sparse_mean = options_.sparse_mean});
    std::set<std::string> updated;
    for (const GradientAndVariable& g : gradients) updated.insert(g.variable.name);
    const int first = graph_.size();
    Outputs done;
    const std::string name = index == 0 ? "train" : "train_" + phase.name;
    if (!options_.simultaneous || out_.optimizers.size() == 1) {
      phase.train = apply(out_.optimizers[index], gradients, name);
    } else {
      for (std::size_t i = 0; i < out_.optimizers.size(); ++i)
        done.push_back(apply(out_.optimizers[i], of_objective(gradients, i), fmt::format("train_{}", i)));
      phase.train = group(graph_, done, name);
    }
    phase.train = constrain_updated(phase.train, gradients);
    for (int id = first; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (node.op->update_rule) updated.insert(graph_.node(node.inputs[0].node).name);  // also averages of weights
    }
    for (const std::string& variable : updated) phase.updated.push_back(find_variable(graph_, variable));
  }

  // The target `train`, after which weights that have a constraint are constrained.
  Output constrain_updated(Output train, const std::vector<GradientAndVariable>& gradients) {
    Outputs done;
    {
      const auto after = graph_.after({train});
      for (const VariablePool::Constrained& c : variables_.constrained())
        if (std::ranges::any_of(gradients,
                                [&](const GradientAndVariable& g) { return g.variable.name == c.variable.name; }))
          done.push_back(constrain(c.variable, c.constraint));
    }
    if (done.empty()) return train;
    done.push_back(train);
    return group(graph_, done, train.source().name + "_constrained");
  }

  Output apply(const Optimizer& optimizer, const std::vector<GradientAndVariable>& gradients, const std::string& name) {
    return out_.loss_scale ? apply_scaled_gradients(graph_, optimizer, *out_.loss_scale, gradients, name)
                           : apply_gradients(graph_, optimizer, gradients, name);
  }

  // Simultaneous objectives: the gradients of variables that objective i trains; running averages go with the first.
  std::vector<GradientAndVariable> of_objective(const std::vector<GradientAndVariable>& gradients, std::size_t i) {
    std::vector<GradientAndVariable> out;
    for (const GradientAndVariable& g : gradients) {
      const bool trained =
          std::ranges::any_of(trained_[i], [&](const VariableRef& v) { return v.name == g.variable.name; });
      if (trained || (g.moved_by && i == 0)) out.push_back(g);
    }
    return out;
  }

  std::vector<GradientAndVariable> mean_gradients(std::size_t phase) {
    if (towers_.size() == 1) return towers_.front().parts[phase].gradients;
    const auto scope = graph_.scope("mean_gradients");
    std::vector<GradientAndVariable> out;
    const std::vector<GradientAndVariable>& first = towers_.front().parts[phase].gradients;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const VariableRef& variable = first[i].variable;
      const auto inner = graph_.scope(variable.name);
      const auto device = graph_.on_device(variable.handle.source().device);
      const std::vector<Gradient> each = flows(towers_, phase, i);
      Outputs dense;
      for (const Gradient& g : each) dense.push_back(g.dense);
      const bool by_row = options_.sparse_mean == SparseMean::touching_slots;
      out.push_back(first[i]);
      out.back().gradient = average(each[0].is_dense() ? add_n(dense) : Output(), each, "slots", by_row);
    }
    return out;
  }

  // The sum of dense gradients divided by their number; or the rows of sparse ones one after the other, each divided by
  // that number or, by row, by the number of gradients that have the row.
  Gradient average(Output dense_sum, const std::vector<Gradient>& each, const char* what, bool by_row = false) {
    const auto divided = [&](Output sum) {
      return div(sum, scalar_like(sum, static_cast<double>(each.size()), what), "mean");
    };
    if (dense_sum.valid()) return {.dense = divided(dense_sum)};
    Outputs indices, values;
    for (const Gradient& g : each) {
      indices.push_back(g.indices);
      values.push_back(g.values);
    }
    const Output rows = concat(indices, 0, "indices"), joined = concat(values, 0);
    if (!by_row) return {.indices = rows, .values = divided(joined)};
    Output touching = add_op("SlotsTouching", indices, {{"T", joined.dtype()}}, what);
    for (int axis = 1; axis < joined.shape().rank(); ++axis) touching = expand_dims(touching, axis);
    return {.indices = rows, .values = div(joined, touching, "mean")};
  }

  // In a scope of its own, unless there is nothing else: variables then have the names that they have in training.
  void evaluation() {
    out_.eval_batch = placeholders(kUnknown);
    const ProgramOutputs outputs = apply(out_.eval_batch, nullptr);
    out_.eval_figures = flat_figures(outputs, std::nullopt, out_.eval_batch, &out_.eval_layout);
    out_.predictions = outputs.predictions;
  }

  void list_parameters() {
    out_.parameters = variables_.all();
    std::set<std::string> updated;
    for (const TrainingPhase& phase : out_.phases)
      for (const VariableRef& v : phase.updated) updated.insert(v.name);
    for (const VariableRef& v : out_.parameters)
      if (!updated.contains(v.name)) out_.frozen.push_back(v);
  }

  const Program& program_;
  const BatchSchema& schema_;
  const TowerOptions& options_;
  TrainingGraph out_{.graph = std::make_unique<Graph>(options_.ops ? *options_.ops : standard_ops())};
  Graph& graph_;
  VariablePool variables_;
  std::vector<std::vector<VariableRef>> trained_;  // by objective
  std::vector<Tower> towers_;
};

}  // namespace

TrainingGraph build_training_graph(const Program& program, const BatchSchema& schema, const TowerOptions& options) {
  check(schema, options);
  return Builder(program, schema, options).run();
}

TrainingGraph build_inference_graph(const Program& program, const BatchSchema& schema, const OpRegistry* ops) {
  const TowerOptions options{.ops = ops};
  check(schema, options);
  return Builder(program, schema, options).inference();
}

}  // namespace troupe
