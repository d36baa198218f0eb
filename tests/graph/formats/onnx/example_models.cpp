#include "tests/graph/formats/onnx/example_models.hpp"

#include <cmath>
#include <functional>
#include <random>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/layers/resnet.hpp>

namespace troupe::testing {
namespace {

Output weight(Graph& g, const Shape& shape, std::uint32_t seed) {
  Tensor value = random_floats(shape, seed);
  const double scale = 1 / std::sqrt(static_cast<double>(shape.rank() > 1 ? shape[0] : 1));
  for (float& v : value.mutable_values<float>()) v *= static_cast<float>(scale);
  return variable(g, {.name = "w", .initial_value = constant(g, std::move(value))}).read();
}

// Runs the graph, and adds what the export needs.
ExampleModel finished(std::string name, std::unique_ptr<Graph> graph, const Outputs& inputs, const Outputs& outputs,
                      std::vector<Tensor> values) {
  ExampleModel out{.name = std::move(name), .graph = std::move(graph), .inputs = std::move(values)};
  for (const Output& input : inputs) out.what.inputs.push_back({"", input, {}});
  for (const Output& output : outputs) out.what.outputs.push_back({"", output, {}});
  const Output init = initializer(*out.graph);
  Session session(*out.graph, {.seed = 5});
  session.run_targets({init});
  for (const VariableInfo& v : variables(*out.graph))
    out.what.variables[v.name] = session.run(find_variable(*out.graph, v.name).read());
  Feeds feeds;
  for (std::size_t i = 0; i < inputs.size(); ++i) feeds.emplace_back(inputs[i], out.inputs[i]);
  out.outputs = session.run(feeds, outputs);
  return out;
}

// ONNX has other ops for some of the nodes.
ExampleModel changed_by_onnx(ExampleModel model) {
  model.comes_back = false;
  return model;
}

ExampleModel of_layers(std::string name, const Sequential& model, const Shape& x_shape) {
  auto graph = std::make_unique<Graph>();
  Shape fed = x_shape;
  fed.set_dim(0, kUnknown);
  const Output x = placeholder(*graph, DType::f32, fed, "x");
  VariablePool pool;
  LayerContext context{.graph = *graph, .variables = pool};
  const Output y = model.apply(context, x);
  return finished(std::move(name), std::move(graph), {x}, {y}, {random_floats(x_shape, 1)});
}

ExampleModel mlp() {
  return of_layers("mlp",
                   Sequential({layers::flatten(), layers::dense(16, Activation::relu), layers::layer_norm(),
                               layers::dense(8, Activation::tanh), layers::dense(5, Activation::softmax)}),
                   Shape{3, 4, 5});
}

ExampleModel cnn() {
  return of_layers(
      "cnn",
      Sequential({layers::conv2d(6, 3, Activation::relu, {.padding = Padding::same}), layers::max_pool(2),
                  layers::conv2d(8, 3, Activation::none, {.strides = {2, 2}}), layers::batch_norm(Activation::relu),
                  layers::average_pool(2), layers::flatten(), layers::dense(4)}),
      Shape{2, 13, 12, 3});
}

// Images as ONNX has them.
ExampleModel channels_first() {
  constexpr DataFormat kFirst = DataFormat::channels_first;
  auto graph = std::make_unique<Graph>();
  Graph& g = *graph;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, 4, 9, 8}, "x");
  const Output filter = weight(g, Shape{6, 2, 3, 3}, 2), bias = weight(g, Shape{6}, 3);
  ConvOptions options{.strides = {2, 1}, .groups = 2, .padding = Padding::explicit_pads, .pads = {1, 1, 0, 1}};
  options.format = kFirst;
  const Output h = relu(bias_add(conv(x, filter, options), bias, kFirst));
  const Output pooled = max_pool(h, {.ksize = {2, 2}, .strides = {}, .padding = Padding::valid, .format = kFirst});
  ConvTransposeOptions back{.strides = {2, 2}, .padding = Padding::explicit_pads, .pads = {0, 1, 1, 0}};
  back.format = kFirst;
  const Output grown = conv_transpose(pooled, weight(g, Shape{6, 3, 3, 3}, 4), back);
  const Output dilated =
      conv(grown, weight(g, Shape{5, 3, 3, 3}, 5), {.dilations = {2, 2}, .padding = Padding::valid, .format = kFirst});
  const Output line = conv(reshape(dilated, {-1, 5, 20}), weight(g, Shape{4, 5, 3}, 6), {.format = kFirst});
  return finished("channels_first", std::move(graph), {x}, {grown, global_avg_pool(dilated, kFirst), line},
                  {random_floats(Shape{2, 4, 9, 8}, 7)});
}

ExampleModel resnet50_narrow() {
  return of_layers("resnet50", resnet({.blocks = {3, 4, 6, 3}, .width = 8, .classes = 10}), Shape{2, 64, 64, 3});
}

// A cell of our own over the steps of a sequence.
ExampleModel scan_of_cells() {
  constexpr std::int64_t kHidden = 4, kInputs = 3;
  auto graph = std::make_unique<Graph>();
  Graph& g = *graph;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, 2, kInputs}, "x");
  const Output w = weight(g, Shape{kInputs + kHidden, 4 * kHidden}, 2), b = weight(g, Shape{4 * kHidden}, 3);
  const Output zeros = constant(g, Tensor::zeros(DType::f32, Shape{2, kHidden}));
  const Scanned made = scan(
      [&](const Outputs& state, const Outputs& rows) {
        const Outputs gates = split(bias_add(matmul(concat({rows[0], state[0]}, 1), w), b), 1, 4);
        const Output keep = mul(sigmoid(gates[0]), state[1]), fresh = mul(sigmoid(gates[1]), tanh(gates[2]));
        const Output c = add(keep, fresh), h = mul(sigmoid(gates[3]), tanh(c));
        return Scanned{{h, c}, {h}};
      },
      {zeros, zeros}, {x});
  return finished("scan", std::move(graph), {x}, {made.ys[0], made.state[1]}, {random_floats(Shape{5, 2, kInputs}, 4)});
}

// Both directions, with all that the op takes but what onnxruntime does not have.
ExampleModel lstm() {
  constexpr std::int64_t kHidden = 4, kInputs = 3, kBatch = 2;
  auto graph = std::make_unique<Graph>();
  Graph& g = *graph;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, kBatch, kInputs}, "x");
  const Output lengths = placeholder(g, DType::i64, Shape{kBatch}, "lengths");
  const Output w = weight(g, Shape{2, 4 * kHidden, kInputs}, 2), r = weight(g, Shape{2, 4 * kHidden, kHidden}, 3);
  LstmOptions options{.direction = Direction::bidirectional, .lengths = lengths};
  options.bias = weight(g, Shape{2, 8 * kHidden}, 4);
  options.initial_h = weight(g, Shape{2, kBatch, kHidden}, 5);
  options.initial_c = weight(g, Shape{2, kBatch, kHidden}, 6);
  options.peepholes = weight(g, Shape{2, 3 * kHidden}, 7);
  const LstmOutputs out = lstm(x, w, r, std::move(options));
  return finished("lstm", std::move(graph), {x, lengths}, {out.y, out.last_h, out.last_c},
                  {random_floats(Shape{5, kBatch, kInputs}, 8), Tensor::vector<std::int64_t>({5, 3})});
}

ExampleModel recurrent() {
  constexpr std::int64_t kHidden = 4, kInputs = 3;
  auto graph = std::make_unique<Graph>();
  Graph& g = *graph;
  const Output x = placeholder(g, DType::f32, Shape{2, kUnknown, kInputs}, "x");  // the batch is first
  const Output w = weight(g, Shape{1, 3 * kHidden, kInputs}, 2), r = weight(g, Shape{1, 3 * kHidden, kHidden}, 3);
  GruOptions options{.batch_major = true, .linear_before_reset = true};
  options.bias = weight(g, Shape{1, 6 * kHidden}, 4);
  const RnnOutputs first = gru(x, w, r, std::move(options));
  const Output rows = squeeze(first.y, {2}), own = weight(g, Shape{1, 5, kHidden}, 5);
  const RnnOutputs last =
      rnn(rows, own, weight(g, Shape{1, 5, 5}, 6),
          {.direction = Direction::reverse, .batch_major = true, .activations = {{"affine", 0.5, 0.25}}, .clip = 0.4});
  return finished("recurrent", std::move(graph), {x}, {first.last_h, last.y, last.last_h},
                  {random_floats(Shape{2, 6, kInputs}, 8)});
}

// [batch, positions, width], with heads that share keys and values where `groups` is not `heads`.
ExampleModel transformer_block(const std::string& name, std::int64_t heads, std::int64_t kv_heads, bool masked) {
  constexpr std::int64_t kWidth = 8;
  const std::int64_t depth = kWidth / heads;
  auto graph = std::make_unique<Graph>();
  Graph& g = *graph;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, kUnknown, kWidth}, "x");
  const Output mask = placeholder(g, DType::boolean, Shape{kUnknown, 1, 1, kUnknown}, "mask");
  const auto norm = [&](Output v, std::uint32_t seed) {
    const Output scale = weight(g, Shape{kWidth}, seed);
    return layer_norm(v, scale, weight(g, Shape{kWidth}, seed + 1));
  };
  const auto project = [&](Output v, std::int64_t from, std::int64_t to, std::uint32_t seed) {
    const Output product = matmul(v, weight(g, Shape{from, to}, seed));
    return bias_add(product, weight(g, Shape{to}, seed + 100));
  };
  const auto in_heads = [&](Output v, std::int64_t count, std::uint32_t seed) {
    const Output all = project(v, kWidth, count * depth, seed);
    return transpose(reshape_copying_zeros(all, Integers{0, 0, count, depth}), {0, 2, 1, 3});
  };
  const Output n = norm(x, 10), q = in_heads(n, heads, 12), k = in_heads(n, kv_heads, 13);
  AttentionOptions options{.causal = true};
  if (masked) options.mask = mask;
  const Output y = attention(q, k, in_heads(n, kv_heads, 14), std::move(options));
  const Output joined = reshape_copying_zeros(transpose(y, {0, 2, 1, 3}), Integers{0, 0, kWidth});
  const Output attended = add(x, project(joined, kWidth, kWidth, 15));
  const Output h = gelu(project(norm(attended, 16), kWidth, 16, 18));
  const Output out = add(attended, project(h, 16, kWidth, 19));
  Tensor keys(DType::boolean, Shape{2, 1, 1, 6});
  for (std::int64_t i = 0; i < keys.num_elements(); ++i) keys.mutable_data<bool>()[i] = i != 0 && i != 8;
  std::vector<Tensor> values{random_floats(Shape{2, 6, kWidth}, 20)};
  if (masked) values.push_back(keys);
  return finished(name, std::move(graph), masked ? Outputs{x, mask} : Outputs{x}, {out}, std::move(values));
}
ExampleModel transformer() { return transformer_block("transformer", 2, 2, false); }
ExampleModel grouped_transformer() { return transformer_block("grouped_transformer", 4, 2, true); }

// Positions of a vector, and a part of it only.
ExampleModel rotary() {
  auto graph = std::make_unique<Graph>();
  Graph& g = *graph;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, 2, 6, 8}, "x");
  const Output cosines = constant(g, random_floats(Shape{6, 3}, 1)), sines = constant(g, random_floats(Shape{6, 3}, 2));
  const Output turned = rotary_embedding(x, cosines, sines);
  return finished("rotary", std::move(graph), {x}, {attention(turned, turned, x)},
                  {random_floats(Shape{2, 2, 6, 8}, 3)});
}

// Scores of all positions, in ops of one's own.
ExampleModel dense_attention() {
  constexpr std::int64_t kWidth = 8;
  auto graph = std::make_unique<Graph>();
  Graph& g = *graph;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, kWidth}, "x");
  const auto project = [&](std::uint32_t seed) { return matmul(x, weight(g, Shape{kWidth, kWidth}, seed)); };
  const Output q = project(12), k = project(13), v = project(14);
  const Output scores = softmax(matmul(q, k, {.transpose_b = true}) * (1 / std::sqrt(8.0)));
  return finished("dense_attention", std::move(graph), {x}, {matmul(scores, v)}, {random_floats(Shape{6, kWidth}, 20)});
}

ExampleModel norms() {
  auto graph = std::make_unique<Graph>();
  Graph& g = *graph;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, 6, 5}, "x");
  const Output scale = weight(g, Shape{6}, 2), offset = weight(g, Shape{6}, 3), along = weight(g, Shape{5}, 4);
  const Output grouped = group_norm(x, scale, offset, 3), instances = instance_norm(x, scale, offset);
  const LayerNormOutputs layers = layer_norm_outputs(x, along, weight(g, Shape{5}, 5));
  return finished("norms", std::move(graph), {x},
                  {grouped, instances, rms_norm(x, along), layers.y, layers.mean, layers.inverse_deviation},
                  {random_floats(Shape{2, 6, 5}, 6)});
}

// What opset 17 has no single op for.
ExampleModel orders() {
  auto graph = std::make_unique<Graph>();
  Graph& g = *graph;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, 4}, "x");
  const Output ids = placeholder(g, DType::i64, Shape{kUnknown}, "ids");
  const Output segments = constant<std::int64_t>(g, 3), places = constant<std::int64_t>(g, {2, 0, 1});
  const Output rows = unsorted_segment_sum(x, ids, segments), means = unsorted_segment_mean(x, ids, segments);
  const Output sorted = sort(x), order = arg_sort(x, {.descending = true});
  const Output found = search_sorted(constant(g, Tensor::vector<float>({-0.5f, 0, 0.5f})), x);
  const Output bits = bitwise_xor(ids, constant<std::int64_t>(g, 5));
  const Output block = constant<std::int64_t>(g, {2}), pads = constant<std::int64_t>(g, {1, 1});
  const Output blocks = space_to_batch(expand_dims(x, -1), block, pads);
  const Output whole = batch_to_space(blocks, block, constant<std::int64_t>(g, {0, 1}));
  const Output ones = maximum(ids, constant<std::int64_t>(g, 0)), counts = bincount(ones);
  const Outputs parts = dynamic_partition(x, ones, 3);
  const Output angle = atan2(slice(x, {0, 0}, {-1, 2}), slice(x, {0, 2}, {-1, 2}));
  return changed_by_onnx(
      finished("orders", std::move(graph), {x, ids},
               {rows, means, sorted, order, found, bits, angle, roll(x, {1}, {1}), repeat(x, 2, 1),
                invert_permutation(places), mean(square(x), {0}), blocks, whole, counts, parts[0], parts[2]},
               {random_floats(Shape{5, 4}, 22), Tensor::vector<std::int64_t>({0, 2, -1, 2, 1})}));
}

// A loss, and its gradients.
ExampleModel training() {
  auto graph = std::make_unique<Graph>();
  Graph& g = *graph;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, 4}, "x"),
               labels = placeholder(g, DType::i64, Shape{kUnknown});
  const Output w = weight(g, Shape{4, 6}, 2), b = weight(g, Shape{6}, 3), v = weight(g, Shape{6, 3}, 4);
  const Output h = tanh(relu(bias_add(matmul(x, w), b))), logits = matmul(sigmoid(h), v);
  const Output loss = mean(sparse_softmax_cross_entropy(logits, labels));
  const Outputs ys{loss}, xs{w, b, v};
  Outputs outputs{loss};
  const std::vector<Gradient> found = gradients(ys, xs);
  for (std::size_t i = 0; i < xs.size(); ++i) outputs.push_back(dense(found[i], xs[i]));
  return changed_by_onnx(finished("training", std::move(graph), {x, labels}, outputs,
                                  {random_floats(Shape{5, 4}, 23), Tensor::vector<std::int64_t>({0, 2, 1, 1, 2})}));
}

ExampleModel branches() {
  auto graph = std::make_unique<Graph>();
  Graph& g = *graph;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown}, "x"), w = weight(g, Shape{3}, 2);
  const Output positive = greater(sum(x), constant(g, 0.0f)), doubled = x * 2.0;
  const Outputs made = if_else(
      positive, {},
      [&](Graph&, const Outputs&) {
        return Outputs{add(doubled, w), doubled};
      },
      [&](Graph& body, const Outputs&) {
        return Outputs{constant(body, Tensor::vector<float>({7, 8})), w};
      });
  return finished("branches", std::move(graph), {x}, made, {random_floats(Shape{3}, 21)});
}

ExampleModel loops() {
  auto graph = std::make_unique<Graph>();
  Graph& g = *graph;
  const Output x = placeholder(g, DType::f32, Shape{}, "x"), n = placeholder(g, DType::i64, Shape{}, "n");
  const Outputs powers = while_loop([&](const Outputs& v) { return less(v[0], constant(g, 50.0f)); },
                                    [&](const Outputs& v) {
                                      return Outputs{mul(v[0], x), v[1] + 1.0};
                                    },
                                    {constant(g, 1.0f), constant<std::int64_t>(g, 0)});
  const Output list =
      for_loop(n, [&](Output i, const Outputs& v) { return Outputs{list_insert(v[0], mul(cast(i, DType::f32), x))}; },
               {list_of(g, {})})[0];
  const Output rows = list_stack(list, DType::f32, Shape{}),
               last = list_get(list, constant<std::int64_t>(g, -1), DType::f32, Shape{});
  const Scanned sums = scan(
      [](const Outputs& s, const Outputs& row) {
        const Output next = add(s[0], row[0]);
        return Scanned{{next}, {next * 2.0}};
      },
      {constant(g, 0.0f)}, {rows}, {.reverse = true, .recompute = false, .name = {}});
  return finished("loops", std::move(graph), {x, n}, {powers[0], powers[1], rows, last, sums.ys[0], sums.state[0]},
                  {Tensor::scalar(3.0f), Tensor::scalar<std::int64_t>(4)});
}

ExampleModel images() {
  auto graph = std::make_unique<Graph>();
  Graph& g = *graph;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, 3, 4, 5}, "x");
  const Output rois = placeholder(g, DType::f32, Shape{2, 4}, "rois");
  const Output grown = resize(x, {6, 7}, {.axes = {2, 3}});
  const Output scaled = resize_by(x, {1.0, 1.0, 2.0, 0.7}, {.mode = ResizeMode::cubic, .axes = {}});
  const Output near = resize_by(x, {2.5}, {.mode = ResizeMode::nearest, .axes = {-1}});
  const Output region = constant(g, Tensor::of<float>(Shape{2}, {-0.2f, 0.9f}));
  const Output cropped = resize(
      x, {4},
      {.axes = {3}, .coordinates = ResizeCoordinates::tf_crop_and_resize, .extrapolation_value = 2, .roi = region});
  const Output places = constant(g, random_floats(Shape{2, 3, 3, 2}, 24));
  const Output at = grid_sample(x, places, {.padding = "border"});
  const Output aligned = roi_align(x, rois, constant<std::int64_t>(g, {1, 0}), {.output_height = 2, .max = true});
  const Output boxes = expand_dims(rois, 0), scores = constant(g, Tensor::of<float>(Shape{1, 1, 2}, {0.5f, 0.25f}));
  const Output chosen = non_max_suppression(boxes, scores, 2, {.score_threshold = 0.1});
  return changed_by_onnx(finished("images", std::move(graph), {x, rois},
                                  {grown, scaled, near, cropped, at, aligned, chosen},
                                  {random_floats(Shape{2, 3, 4, 5}, 23), random_floats(Shape{2, 4}, 25)}));
}

ExampleModel arrays() {
  auto graph = std::make_unique<Graph>();
  Graph& g = *graph;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, 4}, "x"), i = placeholder(g, DType::i64, Shape{2}, "i");
  const Outputs parts = split(x, 1, 2), columns = unstack(x, 1);
  const Output joined = stack({columns[3], columns[0]}, 1);
  const Output padded = pad(slice(x, {1, 0}, {-1, 3}), {0, 1}, {2, 0}, {.value = 9, .name = {}});
  const Output y = tile(transpose(parts[1]), {2, 1});
  const Output hot = one_hot(i, 3), rows = gather(x, i),
               ranged = range(constant(g, 1.0f), constant(g, 7.0f), constant(g, 2.0f));
  const Output means = mean(x, {1}, {.keep_dims = true, .name = {}}), largest = arg_max(x, 1);
  const Output chosen = select(greater(x, zeros_like(x)), x, square(x)),
               counts = mul(element_count(x), constant<std::int64_t>(g, 2));
  return changed_by_onnx(
      finished("arrays", std::move(graph), {x, i},
               {joined, padded, y, hot, rows, ranged, means, largest, chosen, counts, log1p(square(x)), x},
               {random_floats(Shape{3, 4}, 22), Tensor::vector<std::int64_t>({2, 0})}));
}

}  // namespace

Tensor random_floats(const Shape& shape, std::uint32_t seed) {
  std::mt19937 random(seed);
  Tensor out(DType::f32, shape);
  for (float& v : out.mutable_values<float>())
    v = static_cast<float>(random() >> 8) / static_cast<float>(1 << 23) - 1.0f;
  return out;
}

std::vector<ExampleModel> example_models() {
  std::vector<ExampleModel> out;
  for (const auto& make :
       {mlp, cnn, channels_first, resnet50_narrow, lstm, recurrent, scan_of_cells, transformer, grouped_transformer,
        rotary, dense_attention, norms, training, branches, loops, images, arrays, orders})
    out.push_back(make());
  return out;
}

}  // namespace troupe::testing
