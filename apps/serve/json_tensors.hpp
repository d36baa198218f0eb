// Bodies of TensorFlow Serving's REST API.
//
//   {"signature_name": "...", "instances": [...]}   rows: values, or objects by input      ->  {"predictions": [...]}
//   {"signature_name": "...", "inputs": ...}        whole tensors: one, or by input        ->  {"outputs": ...}
//
// Source of the format: https://www.tensorflow.org/tfx/serving/api_rest.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "apps/serve/json_limits.hpp"
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

struct PredictBody {
  enum class Format { rows, columns };
  Format format = Format::rows;
  std::string signature{};  // as given; "": none
  std::map<std::string, Tensor> inputs{};
};

// `signature_of`: the signature that a name means, "" for none given; its errors are passed on. Dtypes are the
// signature's, shapes those of the lists: rows are dimension 0. Throws invalid_argument, naming the place, for what is
// no such body or does not fit the signature's inputs, and resource_exhausted beyond the limits.
PredictBody parse_predict(std::string body,
                          const std::function<const ModelSignature&(const std::string&)>& signature_of,
                          const JsonLimits& limits = {});

// The answer to a body of that format. The only output stands without its name. Strings that are not UTF-8, or of an
// output whose name ends in "_bytes", are {"b64": "..."}. Throws invalid_argument for rows of outputs that do not have
// the same number of them.
std::string print_predictions(const std::map<std::string, Tensor>& outputs, PredictBody::Format format);

}  // namespace troupe
