// Runs a signature of a model on named tensors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/model/commands.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/model/any_model.hpp>
#include <troupe/actors/model/loaded_model.hpp>

namespace troupe::model_tool {

using NamedTensors = std::map<std::string, Tensor>;

// "a model of TensorFlow".
std::string title(ModelFormat format);
// "f32[?,3]".
std::string type_text(const ModelSignature::TensorSpec& spec);
// "x f32[?,3], lengths i64[?]".
std::string specs_text(const std::map<std::string, ModelSignature::TensorSpec>& specs);

class Runner {
 public:
  // `inference`: with the passes that change bits. Throws not_found for the signature, or a variable without a value.
  Runner(Task& task, const AnyModel& model, const std::string& signature, bool inference = false);

  const std::string& signature_name() const { return name_; }
  const ModelSignature& signature() const { return call_.signature(); }
  // Throws invalid_argument that names the input, what the signature takes and what `source` has, unless there is a
  // tensor of its type for each.
  void check_inputs(const NamedTensors& inputs, const std::string& source) const;
  NamedTensors run(const NamedTensors& inputs) const;

 private:
  std::string name_;
  ModelCallable call_;
};

// Pseudo-random inputs, the same in each run: reals in [-1, 1), integers 0 and 1 (which are indices of anything), u8 of
// all values, words. Dimensions that are not known are `batch` in front, `size` elsewhere.
NamedTensors random_inputs(const ModelSignature& signature, std::int64_t batch, std::int64_t size);
// Those of a file, or random ones if there is none.
NamedTensors inputs_of(FileSystem& files, const Options& options, const Runner& runner, std::int64_t batch);

// Writes them to the file that the options name, and prints them.
void print_outputs(FileSystem& files, const NamedTensors& outputs, const Options& options);

// The largest |a - b| / (1 + |b|) of reals; throws failed_precondition that names the output for other types, shapes,
// or other elements than reals that differ.
double difference_of(const NamedTensors& found, const NamedTensors& wanted);

// A word on stderr about what takes long, if that is a terminal; it is gone at the end.
class Stage {
 public:
  explicit Stage(const std::string& what);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

 private:
  bool shown_;
};

}  // namespace troupe::model_tool
