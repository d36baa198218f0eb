#include "tests/fuzz/rest_bodies_fuzz.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "apps/serve/entity_tags.hpp"
#include "apps/serve/inference_json.hpp"
#include "apps/serve/json_tensors.hpp"
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr DType kBodyDtypes[] = {DType::f32, DType::string,  DType::i64, DType::f64,
                                 DType::u8,  DType::boolean, DType::u64, DType::f16};
constexpr JsonLimits kBodyLimits{.most_elements = 10000};

// By bit of the first byte.
constexpr unsigned kDtype = 7, kTwoInputs = 8, kInference = 16, kBinary = 32;

[[noreturn]] void broken_promise_of_bodies(const char* what, const std::string& why) {
  std::fprintf(stderr, "broken promise of a body of REST: %s: %s\n", what, why.c_str());
  std::abort();
}

void check_body_error(const Error& error) {
  for (const Code code : {Code::invalid_argument, Code::resource_exhausted, Code::unimplemented})
    if (error.code() == code) return;
  broken_promise_of_bodies("errors are the client's", error.to_string());
}

ModelSignature body_signature(unsigned choice) {
  ModelSignature out;
  out.inputs["x"] = {.dtype = kBodyDtypes[choice & kDtype], .shape = Shape::unknown_rank()};
  if ((choice & kTwoInputs) != 0) out.inputs["y"] = {.dtype = DType::f32, .shape = Shape{kUnknown, 2}};
  return out;
}

bool has_nan(const Tensor& tensor) {
  if (tensor.dtype() != DType::f32 && tensor.dtype() != DType::f64 && tensor.dtype() != DType::f16) return false;
  std::string text = print_predictions({{"x", tensor}}, PredictBody::Format::columns);
  return text.find("NaN") != std::string::npos;
}

// A name behind the inputs is read by the general reader only.
template <class SignatureOf>
void check_general_reader(std::string_view text, const PredictBody& body, const SignatureOf& signature_of) {
  const std::size_t end = text.find_last_of('}');
  if (text.find("signature_name") != std::string_view::npos || text.find('\\') != std::string_view::npos) return;
  std::string named(text);
  named.insert(end, R"(,"signature_name":"")");
  try {
    const PredictBody other = parse_predict(named, signature_of, kBodyLimits);
    for (const auto& [name, tensor] : body.inputs)
      if (!bitwise_equal(tensor, other.inputs.at(name)) && !has_nan(tensor))
        broken_promise_of_bodies("both readers read the same", named);
  } catch (const Error& error) {
    broken_promise_of_bodies("what one reads the other reads", error.to_string() + ": " + named);
  }
}

std::size_t read_predict_body(unsigned choice, std::string_view text) {
  const ModelSignature signature = body_signature(choice);
  const auto signature_of = [&](const std::string&) -> const ModelSignature& { return signature; };
  PredictBody body;
  try {
    body = parse_predict(std::string(text), signature_of, kBodyLimits);
  } catch (const Error& error) {
    check_body_error(error);
    return 0;
  }
  check_general_reader(text, body, signature_of);
  std::string printed = print_predictions(body.inputs, PredictBody::Format::columns);
  printed.replace(printed.find("outputs"), 7, "inputs");
  try {
    const PredictBody again = parse_predict(printed, signature_of, kBodyLimits);
    for (const auto& [name, tensor] : body.inputs)
      if (const Tensor& other = again.inputs.at(name); !bitwise_equal(tensor, other) && !has_nan(tensor))
        broken_promise_of_bodies("what is printed is read", tensor.to_string() + " and " + other.to_string());
  } catch (const Error& error) {
    broken_promise_of_bodies("what is printed can be read", error.to_string() + ": " + printed);
  }
  return body.inputs.size();
}

std::size_t read_inference_body(unsigned choice, std::string_view text) {
  std::optional<std::size_t> json_bytes;
  if ((choice & kBinary) != 0) json_bytes = text.find_last_of('}') + 1;
  try {
    const InferenceRequest request = parse_inference(std::string(text), json_bytes, kBodyLimits);
    InferenceRequest binary{.all_binary = true};
    static_cast<void>(print_inference("m", 1, binary, request.inputs));
    return request.inputs.size();
  } catch (const Error& error) {
    check_body_error(error);
    return 0;
  }
}

void check_entity_tags(std::string_view list) {
  constexpr std::string_view kTag = R"("a")";
  if (has_entity_tag(list, kTag) && !has_weak_entity_tag(list, kTag))
    broken_promise_of_bodies("equal tags are weakly equal", std::string(list));
  const std::string longer = std::string(kTag) + ", " + std::string(list);
  if (!has_entity_tag(longer, kTag)) broken_promise_of_bodies("the first tag of a list is found", longer);
}

}  // namespace

std::size_t read_rest_body_of_stranger(std::string_view input) {
  check_entity_tags(input);
  if (input.empty()) return 0;
  const auto choice = static_cast<unsigned char>(input[0]);
  return (choice & kInference) != 0 ? read_inference_body(choice, input.substr(1))
                                    : read_predict_body(choice, input.substr(1));
}

std::vector<std::string> rest_body_seeds() {
  const auto seed = [](unsigned choice, const std::string& text) {
    return std::string(1, static_cast<char>(choice)) + text;
  };
  return {seed(0, R"({"instances":[[0.125000,-7e-3,12345678901234567890],[1E+2,-0,0.1]]})"),
          seed(0, R"({"signature_name":"s","instances":[[1,2.5e3,NaN],[-Infinity,0,-0.0]]})"),
          seed(1, R"({"instances":["a\u00e4\n",{"b64":"AP8="},""]})"),
          seed(2 | kTwoInputs, R"({"instances":[{"x":[1,-2],"y":[0.5,1]},{"y":[3,4],"x":[5,6]}]})"),
          seed(6 | kTwoInputs, R"({"inputs":{"x":[[[1]],[[18446744073709551615]]],"y":[]}})"),
          seed(5, R"({"inputs":[true,false]})"),
          seed(kInference,
               R"({"id":"1","inputs":[{"name":"a","shape":[2,1],"datatype":"FP32","data":[[1],[2]]}],"outputs":[)"
               R"({"name":"y","parameters":{"binary_data":true}}],"parameters":{"timeout":5}})"),
          seed(kInference | kBinary,
               R"({"inputs":[{"name":"a","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":6}}]})" +
                   std::string("\2\0\0\0ab", 6))};
}

}  // namespace troupe
