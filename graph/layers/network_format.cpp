#include "troupe/graph/layers/network_format.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <troupe/graph/formats/serialize_proto.hpp>
#include <troupe/graph/layers/network_proto.hpp>

namespace troupe {
namespace {

constexpr std::uint32_t kModelVersion = 1;

proto::WeightConfig weight_to_proto(const std::string& name, const WeightOptions& options) {
  proto::WeightConfig message;
  if (options.initializer) {
    if (options.initializer.kind().empty())
      fail(
          Code::failed_precondition,
          "the initializer of '{}' is a function of the program's own and cannot be written: use one of initializers::",
          name);
    message.mutable_initializer()->set_kind(options.initializer.kind());
    for (const auto& [option, value] : options.initializer.options().all())
      (*message.mutable_initializer()->mutable_option())[option] = to_proto(value);
  }
  message.set_l1(options.regularizer.l1);
  message.set_l2(options.regularizer.l2);
  message.set_on_demand(options.on_demand);
  if (const Constraint& constraint = options.constraint) {
    message.mutable_constraint()->set_kind(static_cast<std::uint32_t>(constraint.kind));
    message.mutable_constraint()->set_low(constraint.low);
    message.mutable_constraint()->set_high(constraint.high);
    message.mutable_constraint()->set_rate(constraint.rate);
    for (const std::int64_t axis : constraint.axes) message.mutable_constraint()->add_axis(axis);
  }
  return message;
}

Attributes options_of(const auto& messages) {
  Attributes options;
  for (const auto& [name, value] : messages) options.set(name, from_proto(value));
  return options;
}

WeightOptions weight_from_proto(const proto::WeightConfig& message) {
  WeightOptions options{.regularizer = {message.l1(), message.l2()}, .on_demand = message.on_demand()};
  if (message.has_initializer())
    options.initializer = Initializer(message.initializer().kind(), options_of(message.initializer().option()));
  if (!message.has_constraint()) return options;
  const proto::ConstraintConfig& constraint = message.constraint();
  if (constraint.kind() > static_cast<std::uint32_t>(Constraint::Kind::non_negative))
    invalid_argument("there is no constraint {}", constraint.kind());
  options.constraint = {.kind = static_cast<Constraint::Kind>(constraint.kind()),
                        .low = constraint.low(),
                        .high = constraint.high(),
                        .rate = constraint.rate(),
                        .axes = {constraint.axis().begin(), constraint.axis().end()}};
  return options;
}

proto::LayerConfig layer_to_proto(const Layer& layer);

proto::NetworkConfig network_to_proto(const NetworkPlan& plan) {
  proto::NetworkConfig message;
  for (const InputSpec& spec : plan.inputs) {
    proto::NetworkConfig::Input& input = *message.add_input();
    input.set_name(spec.name);
    input.set_dtype(static_cast<std::uint32_t>(spec.dtype));
    *input.mutable_shape() = to_proto(AttrValue(spec.shape)).shape();
  }
  for (const NetworkPlan::Member& member : plan.members) {
    proto::NetworkConfig::Member& added = *message.add_member();
    added.set_name(member.name);
    try {
      *added.mutable_layer() = layer_to_proto(*member.layer);
    } catch (const Error& error) {
      throw error.within(fmt::format("layer '{}'", member.name));
    }
  }
  for (const NetworkPlan::Call& call : plan.calls) {
    proto::NetworkConfig::Call& added = *message.add_call();
    added.set_member(static_cast<std::uint32_t>(call.member));
    for (const int value : call.inputs) added.add_input(static_cast<std::uint32_t>(value));
  }
  for (const NetworkPlan::Result& result : plan.results) {
    proto::NetworkConfig::Result& added = *message.add_result();
    added.set_name(result.name);
    added.set_value(static_cast<std::uint32_t>(result.value));
  }
  message.set_compute(static_cast<std::uint32_t>(plan.compute));
  return message;
}

proto::LayerConfig layer_to_proto(const Layer& layer) {
  const LayerConfig config = layer.config();
  proto::LayerConfig message;
  message.set_kind(config.kind);
  for (const auto& [name, value] : config.options.all()) (*message.mutable_option())[name] = to_proto(value);
  for (const auto& [name, weight] : config.weights) (*message.mutable_weight())[name] = weight_to_proto(name, weight);
  for (const auto& [name, inner] : config.layers) (*message.mutable_layer())[name] = layer_to_proto(*inner);
  if (config.network) *message.mutable_network() = network_to_proto(*config.network);
  return message;
}

DType dtype_or_any(std::uint32_t number) {
  if (number == 0) return DType::invalid;
  const auto dtype = static_cast<DType>(number);
  if (number > 0xff || !is_data(dtype)) invalid_argument("there is no dtype {} of data", number);
  return dtype;
}

int number_of(std::uint32_t number) {
  if (number > 0x7fffffff) invalid_argument("number {} is too large", number);
  return static_cast<int>(number);
}

LayerPtr layer_from_proto(const proto::LayerConfig& message, const LayerRegistry& registry);

NetworkPlan network_from_proto(const proto::NetworkConfig& message, const LayerRegistry& registry) {
  NetworkPlan plan;
  for (const auto& input : message.input()) {
    proto::Attribute shape;
    *shape.mutable_shape() = input.shape();
    plan.inputs.push_back({input.name(), std::get<Shape>(from_proto(shape)), dtype_or_any(input.dtype())});
  }
  for (const auto& member : message.member()) {
    try {
      plan.members.push_back({member.name(), layer_from_proto(member.layer(), registry)});
    } catch (const Error& error) {
      throw error.within(fmt::format("layer '{}'", member.name()));
    }
  }
  for (const auto& call : message.call()) {
    NetworkPlan::Call& added = plan.calls.emplace_back();
    added.member = number_of(call.member());
    for (const std::uint32_t value : call.input()) added.inputs.push_back(number_of(value));
  }
  for (const auto& result : message.result()) plan.results.push_back({result.name(), number_of(result.value())});
  plan.compute = dtype_or_any(message.compute());
  return plan;
}

LayerPtr layer_from_proto(const proto::LayerConfig& message, const LayerRegistry& registry) {
  LayerConfig config{.kind = message.kind(), .options = options_of(message.option())};
  for (const auto& [name, weight] : message.weight()) config.weights.emplace(name, weight_from_proto(weight));
  for (const auto& [name, inner] : message.layer()) config.layers.emplace(name, layer_from_proto(inner, registry));
  if (message.has_network())
    config.network = std::make_shared<NetworkPlan>(network_from_proto(message.network(), registry));
  return registry.make(config);
}

// Errors while data is read are data_loss.
Network read_model(const proto::ModelConfig& message, const LayerRegistry& registry) {
  if (message.version() != kModelVersion)
    invalid_argument("the model has version {}, but this program reads version {}", message.version(), kModelVersion);
  if (!message.network().has_network()) invalid_argument("the model's outermost layer is not a network");
  return Network(network_from_proto(message.network().network(), registry), message.network().kind());
}

}  // namespace

proto::ModelConfig to_proto(const Network& network) {
  proto::ModelConfig message;
  message.set_version(kModelVersion);
  *message.mutable_network() = layer_to_proto(*network.layer());
  return message;
}

Network from_proto(const proto::ModelConfig& message, const LayerRegistry& registry) {
  try {
    return read_model(message, registry);
  } catch (...) {
    const Error error = current_error();
    throw Error(error.code() == Code::not_found ? Code::not_found : Code::invalid_argument, error.message());
  }
}

std::string serialize(const Network& network) {
  const proto::ModelConfig message = to_proto(network);
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // maps by key
    if (!message.SerializeToCodedStream(&coded)) invalid_argument("the model is too large to be serialized");
  }
  return bytes;
}

std::string to_text(const Network& network) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(to_proto(network), &text);
  return text;
}

Network parse_network(std::string_view bytes, const LayerRegistry& registry) {
  const google::protobuf::LogSilencer silence;  // bad input is reported to the caller, not to stderr
  proto::ModelConfig message;
  if (bytes.size() > 0x7fffffff || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail(Code::data_loss, "not a model: {} bytes do not parse", bytes.size());
  return from_proto(message, registry);
}

namespace {

class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (text.empty()) text = fmt::format("line {}, column {}: {}", line + 1, column + 1, message);
  }
  std::string text;
};

}  // namespace

Network parse_network_text(std::string_view text, const LayerRegistry& registry) {
  const google::protobuf::LogSilencer silence;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(100);  // as for bytes
  proto::ModelConfig message;
  if (!parser.ParseFromString(std::string(text), &message)) fail(Code::data_loss, "not a model: {}", error.text);
  return from_proto(message, registry);
}

}  // namespace troupe
