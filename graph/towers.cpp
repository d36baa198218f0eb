#include "graph/towers.hpp"

#include "graph/all_reduce.hpp"
#include "graph/clipping.hpp"

namespace troupe {
namespace {

struct Tower {
  Output images;
  Output labels;
  Output loss_sum;
  Output correct;
  Output examples;
  std::vector<GradientAndVariable> gradients;
};

void check(const Shape& input_shape, Loss loss, const TowerOptions& options) {
  if (loss != Loss::sparse_softmax_cross_entropy)
    fail(Code::unimplemented,
         "training graph: the labels are classes, so the loss must be sparse softmax cross entropy");
  if (!input_shape.has_rank()) invalid_argument("training graph: the rank of an example must be known");
  if (options.slots < 1)
    invalid_argument("training graph: there must be at least 1 slot, not {}", options.slots);
  if (options.batch != kUnknown && options.batch < 1)
    invalid_argument("training graph: a batch has at least 1 example, not {}", options.batch);
}

class Builder {
 public:
  Builder(const Sequential& model, const Shape& input_shape, const TowerOptions& options)
      : model_(model), input_shape_(input_shape), options_(options), graph_(*out_.graph) {}

  TrainingGraph run(const Optimizer& optimizer) {
    if (options_.loss_scaling) {
      const auto device = graph_.on_device(device_of(0));
      out_.loss_scale = loss_scale(graph_, *options_.loss_scaling);
      out_.loss_scale->on_shards = options_.on_shards;
    }
    for (int slot = 0; slot < options_.slots; ++slot) {
      const int first = graph_.size();
      const auto device = graph_.on_device(device_of(slot));
      towers_.push_back(slot == 0 ? tower() : further_tower(slot));
      if (options_.slots > 1) mark(first, slot);
    }
    const auto device = graph_.on_device(device_of(0));
    collect();
    auto gradients = mean_gradients();
    if (options_.all_reduce) gradients = all_reduce_gradients(graph_, gradients);
    out_.train = out_.loss_scale ? apply_scaled_gradients(graph_, optimizer, *out_.loss_scale, gradients)
                                 : apply_gradients(graph_, optimizer, gradients);
    evaluation();
    out_.initializer = initializer(graph_);
    out_.trainable = variables_.all();
    return std::move(out_);
  }

 private:
  std::string device_of(int slot) const {
    const auto& devices = options_.devices;
    return devices.empty() ? "" : devices[static_cast<std::size_t>(slot) % devices.size()];
  }
  static std::string scope_of(int slot) { return fmt::format("slot_{}", slot); }

  Output images(std::int64_t batch) {
    return placeholder(graph_, DType::f32, Shape{batch}.concatenated(input_shape_), "images");
  }
  Output labels(std::int64_t batch) { return placeholder(graph_, DType::i32, Shape{batch}, "labels"); }
  Output logits_of(Output images, bool training) {
    LayerContext context{.graph = graph_, .training = training, .variables = variables_};
    return model_.apply(context, images);
  }

  Tower tower() {
    Tower t{.images = images(options_.batch), .labels = labels(options_.batch)};
    const Output logits = logits_of(t.images, true);
    Output mean_loss;
    {
      const auto scope = graph_.scope("loss");
      const Output each = losses::per_example(Loss::sparse_softmax_cross_entropy, logits, t.labels);
      mean_loss = mean(each, {}, {.name = "mean"});
      t.loss_sum = metrics::loss_sum(each, "sum");
      t.examples = element_count(each, "examples");
      if (out_.loss_scale) mean_loss = out_.loss_scale->scaled(mean_loss, "scaled");
    }
    {
      const auto scope = graph_.scope("accuracy");
      t.correct = metrics::correct_count(logits, t.labels, "correct");
    }
    t.gradients = compute_gradients(mean_loss, variables_.all());
    if (options_.clip_norm != 0)
      t.gradients = clip_by_global_norm(t.gradients, options_.clip_norm, out_.loss_scale ? &*out_.loss_scale : nullptr);
    return t;
  }

  // The same again: the variables exist already.
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

  Output total(Output Tower::*figure, const char* name) {
    Outputs parts;
    for (const Tower& t : towers_) parts.push_back(t.*figure);
    return parts.size() == 1 ? parts.front() : add_n(parts, name);
  }

  void collect() {
    for (const Tower& t : towers_) {
      out_.images.push_back(t.images);
      out_.labels.push_back(t.labels);
    }
    const auto scope = graph_.scope("all_slots");
    out_.loss_sum = total(&Tower::loss_sum, "loss_sum");
    out_.correct = total(&Tower::correct, "correct");
    out_.examples = total(&Tower::examples, "examples");
  }

  std::vector<GradientAndVariable> mean_gradients() {
    if (towers_.size() == 1) return towers_.front().gradients;
    const auto scope = graph_.scope("mean_gradients");
    std::vector<GradientAndVariable> out;
    for (std::size_t i = 0; i < towers_.front().gradients.size(); ++i) {
      const VariableRef& variable = towers_.front().gradients[i].variable;
      const auto inner = graph_.scope(variable.name);
      const auto device = graph_.on_device(variable.handle.source().device);
      out.push_back({mean_gradient(i), variable});
    }
    return out;
  }

  // Of variable i. Towers are alike: its gradients are all dense or all sparse.
  Gradient mean_gradient(std::size_t i) {
    Outputs denses, indices, values;
    for (const Tower& t : towers_) {
      const Gradient& g = t.gradients[i].gradient;
      denses.push_back(g.dense);
      indices.push_back(g.indices);
      values.push_back(g.values);
    }
    const auto divided = [&](Output sum) {
      return div(sum, scalar_like(sum, options_.slots, "slots"), "mean");
    };
    if (denses.front().valid()) return {.dense = divided(add_n(denses))};
    return {.indices = concat(indices, 0, "indices"), .values = divided(concat(values, 0))};
  }

  void evaluation() {
    const auto scope = graph_.scope("evaluation");
    out_.eval_images = images(kUnknown);
    out_.eval_labels = labels(kUnknown);
    const Output logits = logits_of(out_.eval_images, false);
    const Output each = losses::per_example(Loss::sparse_softmax_cross_entropy, logits, out_.eval_labels);
    out_.eval_loss_sum = metrics::loss_sum(each, "loss_sum");
    out_.eval_correct = metrics::correct_count(logits, out_.eval_labels, "correct");
    out_.predictions = softmax(logits, "predictions");
  }

  const Sequential& model_;
  const Shape& input_shape_;
  const TowerOptions& options_;
  TrainingGraph out_{.graph = std::make_unique<Graph>()};
  Graph& graph_;
  VariablePool variables_;
  std::vector<Tower> towers_;
};

}  // namespace

TrainingGraph build_training_graph(const Sequential& model, const Shape& input_shape, Loss loss,
                                   const Optimizer& optimizer, const TowerOptions& options) {
  check(input_shape, loss, options);
  return Builder(model, input_shape, options).run(optimizer);
}

}  // namespace troupe
