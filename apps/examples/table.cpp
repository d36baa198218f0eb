// Predicts the last column of a table from the others, with a hand-written loop over batches of rows.
//   example_table
#include <fmt/core.h>

#include <vector>

#include <troupe/troupe.hpp>

namespace {

using namespace troupe;

constexpr std::int64_t kRows = 400, kBatch = 40, kColumns = 2, kHidden = 16;

// Columns: two numbers in [-1, 1), and whether they are in the same half of their range.
struct Table {
  std::vector<float> features;
  std::vector<std::int32_t> labels;
};

Table make_table() {
  Table table;
  std::uint32_t state = 1;  // a small generator: the same table on every machine
  const auto next = [&] { return static_cast<float>((state = state * 1664525 + 1013904223) >> 8) / (1 << 23) - 1; };
  for (int row = 0; row < kRows; ++row) {
    const float a = next(), b = next();
    table.features.insert(table.features.end(), {a, b});
    table.labels.push_back((a < 0) == (b < 0) ? 1 : 0);
  }
  return table;
}

Output dense(Output x, const Shape& shape, const char* name) {
  Graph& graph = *x.graph;
  const VariableRef w = variable(graph, {.name = name, .initial_value = random_normal(graph, shape, 0, 0.5)});
  const VariableRef b = variable(graph, {.name = std::string(name) + "_bias", .shape = Shape{shape.dim(1)}});
  return matmul(x, w.read()) + b.read();
}

void train(const Table& table) {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {kUnknown, kColumns}, "x");
  const Output label = placeholder(graph, DType::i32, {kUnknown}, "label");
  const Output logits = dense(relu(dense(x, {kColumns, kHidden}, "hidden")), {kHidden, 2}, "logits");
  const Output loss = losses::sparse_softmax_cross_entropy(logits, label);
  const Output correct = metrics::correct_count(logits, label);
  const Output step = minimize(loss, optimizers::Adam{.learning_rate = 0.02});
  const Output init = initializer(graph);

  Session session(graph);
  session.run_targets({init});
  const auto rows = [&](std::int64_t first, std::int64_t count) -> Feeds {
    const std::span<const float> features(table.features);
    const std::span<const std::int32_t> labels(table.labels);
    return {{x, Tensor::of<float>({count, kColumns}, features.subspan(first * kColumns, count * kColumns))},
            {label, Tensor::of<std::int32_t>({count}, labels.subspan(first, count))}};
  };
  for (int epoch = 0; epoch < 40; ++epoch)
    for (std::int64_t row = 0; row < kRows; row += kBatch) session.run(rows(row, kBatch), {}, {step});
  const auto right = session.run(rows(0, kRows), correct).item<std::int64_t>();
  fmt::print("{:.0f} % of {} rows are right\n", 100.0 * static_cast<double>(right) / kRows, kRows);
}

}  // namespace

int main() {
  try {
    train(make_table());
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.to_string());
    return 1;
  }
}
