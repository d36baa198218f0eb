// Updates of variables by gradients. Formulas: graph/optimizers/optimizer_rules.hpp.
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/shapes.hpp>
#include <troupe/graph/optimizers/optimizer_rules.hpp>
#include <troupe/graph/optimizers/schedules.hpp>

namespace troupe {
namespace {

// One update rule: its slots (variables like `var`), further scalar inputs beside lr, and hyperparameters.
struct Rule {
  std::string name;
  std::vector<std::string> slots;
  bool counts_updates = false;  // takes t, the number of this update
  std::vector<AttrDef> hyperparameters;
};

// Inputs: var, slots, lr, [t], then grad or (indices, values).
ShapeFn apply_shape(int handles, int scalars, bool sparse) {
  return [=](ShapeContext& c) {
    Shape var = c.input(0);
    for (int i = 1; i < handles; ++i) var = shapes::merge(var, "var", c.input(i), "slot");
    for (int i = handles; i < handles + scalars; ++i) shapes::with_rank(c.input(i), 0, i == handles ? "lr" : "t");
    const int gradient = handles + scalars;
    if (!sparse) {
      shapes::merge(var, "var", c.input(gradient), "grad");
      return;
    }
    const Shape indices = shapes::with_rank(c.input(gradient), 1, "indices");
    const Shape& values = shapes::at_least_rank(c.input(gradient + 1), 1, "values");
    shapes::at_least_rank(var, 1, "var");
    if (values.has_rank()) shapes::merge_dim(indices[0], values[0], "the numbers of indices and of rows of 'values'");
    if (values.has_rank() && var.has_rank())
      shapes::merge(var.without(0), "a row of var", values.without(0), "a row of values");
  };
}

void add_hyperparameters(Op& op, const Rule& rule) {
  for (const AttrDef& attr : rule.hyperparameters) {
    if (attr.default_value)
      op.attr(attr.name, *attr.default_value);
    else
      op.attr(attr.name, attr.type);
  }
  op.attr("weight_decay", 0.0);
}

std::string many(const Rule& rule) { return "Apply" + rule.name + "Many"; }

Op apply_op(const Rule& rule, bool sparse) {
  Op op((sparse ? "SparseApply" : "Apply") + rule.name);
  op.input("var", DType::resource);
  for (const std::string& slot : rule.slots) op.input(slot, DType::resource);
  op.input("lr", "T");
  if (rule.counts_updates) op.input("t", DType::i64);
  if (sparse) {
    op.input("indices", DType::i64).input("values", "T");
  } else {
    op.input("grad", "T");
  }
  op.type("T", kFloatTypes);
  add_hyperparameters(op, rule);
  if (sparse) op.attr("exact", false);  // SlotUpdates (graph/optimizers/updates.hpp)
  return op.stateful()
      .update_rule(sparse ? "" : many(rule))
      .shape(apply_shape(1 + static_cast<int>(rule.slots.size()), rule.counts_updates ? 2 : 1, sparse));
}

// Inputs: the variables, the first slot of each, the second of each, lr, [t], the gradients.
ShapeFn apply_many_shape(int roles, int scalars) {
  return [=](ShapeContext& c) {
    const auto count = static_cast<int>(c.attributes().integer("N"));
    for (int i = 0; i < scalars; ++i) shapes::with_rank(c.input(roles * count + i), 0, i == 0 ? "lr" : "t");
    for (int v = 0; v < count; ++v) {
      Shape var = c.input(v);
      for (int role = 1; role < roles; ++role) var = shapes::merge(var, "var", c.input(role * count + v), "slot");
      shapes::merge(var, "var", c.input(roles * count + scalars + v), "grad");
    }
  };
}

// The updates of N variables in one sweep: the pass fuse_updates makes these from Apply nodes.
Op apply_many_op(const Rule& rule) {
  Op op(many(rule));
  op.input_list("vars", DType::resource, "N");
  for (const std::string& slot : rule.slots) op.input_list(slot, DType::resource, "N");
  op.input("lr", "T");
  if (rule.counts_updates) op.input("t", DType::i64);
  op.input_list("grads", "T", "N").type("T", kFloatTypes);
  add_hyperparameters(op, rule);
  return op.stateful().shape(apply_many_shape(1 + static_cast<int>(rule.slots.size()), rule.counts_updates ? 2 : 1));
}

AttrDef required(std::string name) { return {std::move(name), AttrType::real, std::nullopt, {}}; }
std::vector<AttrDef> required(std::initializer_list<const char*> names) {
  std::vector<AttrDef> out;
  for (const char* name : names) out.push_back(required(std::string(name)));
  return out;
}

std::vector<Rule> update_rules() {
  const AttrDef nesterov{"nesterov", AttrType::boolean, AttrValue(MomentumRule{}.nesterov), {}};
  const AttrDef adagrad_epsilon{"epsilon", AttrType::real, AttrValue(AdagradRule{}.epsilon), {}};
  return {
      {"SGD", {}, false, {}},
      {"Momentum", {"accum"}, false, {required("momentum"), nesterov}},
      {"Adagrad", {"accum"}, false, {adagrad_epsilon}},
      {"RMSProp", {"ms", "mom"}, false, required({"rho", "momentum", "epsilon"})},
      {"Adam", {"m", "v"}, true, required({"beta1", "beta2", "epsilon"})},
      {"Adadelta", {"accum", "accum_update"}, false, required({"rho", "epsilon"})},
      {"Ftrl", {"accum", "linear"}, false, required({"l1", "l2", "l2_shrinkage", "beta", "learning_rate_power"})},
      {"Lion", {"m"}, false, required({"beta1", "beta2"})},
      {"CenteredRMSProp", {"ms", "mom", "mg"}, false, required({"rho", "momentum", "epsilon"})},
      {"AMSGrad", {"m", "v", "vhat"}, true, required({"beta1", "beta2", "epsilon"})},
      {"Adamax", {"m", "u"}, true, required({"beta1", "beta2", "epsilon"})},
      {"Nadam", {"m", "v"}, true, required({"beta1", "beta2", "epsilon"})},
  };
}

}  // namespace

void register_update_ops(OpRegistry& ops) {
  // Of a weight after its update: graph/layers/weights.hpp, Constraint. Axes count from 0, of the variable.
  ops.add(Op("ConstrainVariable")
              .input("var", DType::resource)
              .type("T", kFloatTypes)
              .attr("kind", AttrType::string)
              .attr("low", 0.0)
              .attr("high", 1.0)
              .attr("rate", 1.0)
              .attr("axes", std::vector<std::int64_t>{0})
              .shape([](ShapeContext& c) {
                for (const std::int64_t axis : c.attributes().integers("axes"))
                  if (c.input(0).has_rank() && (axis < 0 || axis >= std::max(1, c.input(0).rank())))
                    invalid_argument("axis {} is none of var {}", axis, c.input(0).to_string());
              })
              .stateful());
  for (const Rule& rule : update_rules()) {
    ops.add(apply_op(rule, false));
    ops.add(apply_op(rule, true));
    ops.add(apply_many_op(rule));
  }
  // The learning rate of an update preceded by `step` others (graph/optimizers/schedules.hpp).
  ops.add(Op("LearningRate")
              .input("step", DType::i64)
              .output("rate", "T")
              .type("T", kFloatTypes)
              .attr("schedule", AttrType::string)
              .attr("reals", AttrType::reals)
              .attr("integers", AttrType::integers)
              .attr("warm_up", AttrType::integer)
              .shape([](ShapeContext& c) {
                shapes::with_rank(c.input(0), 0, "step");
                Schedule::of(c.attributes());
                c.set_output(0, Shape{});
              })
              .no_gradient());
  // By row number, one list after the other: the number of lists that have it (graph/training/sparse_mean.hpp).
  ops.add(Op("SlotsTouching")
              .input_list("indices", DType::i64, "N")
              .output("slots", "T")
              .type("T", kFloatTypes)
              .attr("N", AttrType::integer)
              .shape([](ShapeContext& c) {
                std::int64_t rows = 0;
                for (int i = 0; i < c.num_inputs(); ++i) {
                  const Shape indices = shapes::with_rank(c.input(i), 1, "indices");
                  rows = rows == kUnknown || indices[0] == kUnknown ? kUnknown : rows + indices[0];
                }
                c.set_output(0, Shape{rows});
              })
              .no_gradient());
  // Updates the state of a loss scale (graph/optimizers/loss_scaling.hpp) after a step: grad is not finite if the step
  // was skipped.
  ops.add(Op("ApplyLossScale")
              .input("var", DType::resource)
              .input("grad", "T")
              .type("T", {DType::f64})
              .attr("dynamic", true)
              .attr("growth_interval", AttrType::integer)
              .attr("largest", AttrType::real)
              .stateful()
              .update_rule()
              .shape([](ShapeContext& c) {
                for (int i : {0, 1}) shapes::merge(c.input(i), "var and grad", Shape{3}, "the state of a loss scale");
              }));
}

}  // namespace troupe
