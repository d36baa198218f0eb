#include "troupe/graph/training/towers.hpp"

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/training/all_reduce.hpp>
#include <troupe/graph/training/backprop_order.hpp>

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
  if (options.slots < 1) invalid_argument("training graph: there must be at least 1 slot, not {}", options.slots);
  if (options.batch != kUnknown && options.batch < 1)
    invalid_argument("training graph: a batch must have at least 1 example, not {}", options.batch);
  if (options.micro_batches < 1)
    invalid_argument("training graph: there must be at least 1 micro-batch, not {}", options.micro_batches);
  if (options.micro_batches > 1 && (options.batch == kUnknown || options.batch % options.micro_batches != 0))
    invalid_argument("training graph: batch size {} is not divisible by {} micro-batches",
                     options.batch == kUnknown ? "?" : std::to_string(options.batch), options.micro_batches);
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
    if (options_.all_reduce) gradients = all_reduce_gradients(graph_, gradients, {.sparse_mean = options_.sparse_mean});
    out_.train = out_.loss_scale ? apply_scaled_gradients(graph_, optimizer, *out_.loss_scale, gradients)
                                 : apply_gradients(graph_, optimizer, gradients);
    evaluation();
    out_.initializer = initializer(graph_);
    out_.parameters = variables_.all();
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
  // `averages`: collects running averages with the values to follow, in training.
  Output logits_of(Output images, std::vector<RunningAverage>* averages) {
    LayerContext context{
        .graph = graph_, .training = averages != nullptr, .variables = variables_, .averages = averages};
    return model_.apply(context, images);
  }

  Tower tower() {
    Tower t{.images = images(options_.batch), .labels = labels(options_.batch)};
    if (options_.micro_batches == 1)
      compute(t);
    else
      compute_in_parts(t);
    t.gradients = clip_gradients(t.gradients, options_.clipping, out_.loss_scale ? &*out_.loss_scale : nullptr);
    return t;
  }

  // Computes figures and gradients from its images and labels.
  void compute(Tower& t) {
    std::vector<RunningAverage> averages;
    const Output logits = logits_of(t.images, &averages);
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
    t.gradients = compute_gradients(mean_loss, variables_.trainable());
    const auto scope = graph_.scope("running_averages");
    for (GradientAndVariable& move : moves_of(averages)) t.gradients.push_back(std::move(move));
  }

  void compute_in_parts(Tower& whole) {
    std::vector<Tower> parts;
    for (int k = 0; k < options_.micro_batches; ++k) {
      if (k == 0) {
        parts.push_back(computed_part(whole, k));
        accumulate_first(whole, parts.back());
        continue;
      }
      const auto scope = graph_.scope(fmt::format("micro_{}", k));
      parts.push_back(computed_part(whole, k));
      accumulate(whole, parts.back());
    }
    const auto scope = graph_.scope("micro_mean");
    for (const std::size_t i : backprop_order(whole.gradients)) {
      const auto inner = graph_.scope(whole.gradients[i].variable.name);
      whole.gradients[i].gradient = average(whole.gradients[i].gradient.dense, flows(parts, i), "micro_batches");
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
    if (k > 0) {
      before = {whole.loss_sum, whole.correct};
      for (const GradientAndVariable& g : whole.gradients)
        before.push_back(g.gradient.is_dense() ? g.gradient.dense : g.gradient.values);
    }
    const auto after = graph_.after(before);
    const std::int64_t size = options_.batch / options_.micro_batches;
    const auto rows = [&](Output x, Name name) {
      Integers begin(static_cast<std::size_t>(x.shape().rank()), 0), sizes(begin.size(), -1);
      begin[0] = k * size;
      sizes[0] = size;
      return slice(x, begin, sizes, std::move(name));
    };
    return {.images = rows(whole.images, "images_part"), .labels = rows(whole.labels, "labels_part")};
  }

  static void accumulate_first(Tower& sum, const Tower& part) {
    sum.loss_sum = part.loss_sum;
    sum.correct = part.correct;
    sum.examples = part.examples;
    sum.gradients = part.gradients;
  }
  // Rows of sparse gradients are joined at the end.
  void accumulate(Tower& sum, const Tower& part) {
    const auto scope = graph_.scope("sum");
    sum.loss_sum = add(sum.loss_sum, part.loss_sum, "loss");
    sum.correct = add(sum.correct, part.correct, "correct");
    sum.examples = add(sum.examples, part.examples, "examples");
    for (const std::size_t i : backprop_order(part.gradients)) {
      const Gradient& more = part.gradients[i].gradient;
      Gradient& so_far = sum.gradients[i].gradient;
      if (more.is_dense())
        so_far = {.dense = add(so_far.dense, more.dense, part.gradients[i].variable.name)};
      else
        so_far = more;  // the next part waits for it
    }
  }

  // The gradients of variable i: all dense or all sparse, since the towers are alike.
  static std::vector<Gradient> flows(const std::vector<Tower>& towers, std::size_t i) {
    std::vector<Gradient> out;
    for (const Tower& t : towers) out.push_back(t.gradients[i].gradient);
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
      const std::vector<Gradient> each = flows(towers_, i);
      Outputs dense;
      for (const Gradient& g : each) dense.push_back(g.dense);
      const bool by_row = options_.sparse_mean == SparseMean::touching_slots;
      out.push_back(towers_.front().gradients[i]);
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

  void evaluation() {
    const auto scope = graph_.scope("evaluation");
    out_.eval_images = images(kUnknown);
    out_.eval_labels = labels(kUnknown);
    const Output logits = logits_of(out_.eval_images, nullptr);
    const Output each = losses::per_example(Loss::sparse_softmax_cross_entropy, logits, out_.eval_labels);
    out_.eval_loss_sum = metrics::loss_sum(each, "loss_sum");
    out_.eval_correct = metrics::correct_count(logits, out_.eval_labels, "correct");
    if (is_softmax(logits))
      invalid_argument(
          "the loss takes logits, but the model ends in '{}': remove the softmax of the last layer "
          "(predictions are probabilities anyway)",
          logits.source().name);
    out_.predictions = softmax(logits, {.name = "predictions"});
  }

  const Sequential& model_;
  const Shape& input_shape_;
  const TowerOptions& options_;
  TrainingGraph out_{.graph = std::make_unique<Graph>(options_.ops ? *options_.ops : standard_ops())};
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
