#include "tests/fuzz/tensorflow_fuzz.hpp"

#include <cstdio>
#include <cstdlib>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/graph/formats/saved_model/model_text.hpp"
#include <troupe/actors/model/recorded_requests.hpp>
#include <troupe/graph/formats/saved_model/node.hpp>
#include <troupe/graph/formats/saved_model/saved_model.hpp>
#include <troupe/graph/formats/serialize.hpp>
#include <troupe/kernels/readers/leveldb_table.hpp>
#include <troupe/kernels/readers/tensor_bundle.hpp>

namespace troupe {
namespace {

using testing::MemoryFileSystem;

constexpr char kModel = 0, kIndex = 1, kEntry = 2, kRecorded = 3, kTensorflowInputs = 4;
constexpr const char* kBundle = "/b";

void promise_of_tensorflow(bool kept, const char* what, const std::string& why) {
  if (kept) return;
  std::fprintf(stderr, "broken promise of the reader of SavedModels: %s: %s\n", what, why.c_str());
  std::abort();
}

bool is_error_of_tensorflow(Code code) {
  return code == Code::data_loss || code == Code::invalid_argument || code == Code::unimplemented ||
         code == Code::resource_exhausted || code == Code::out_of_range || code == Code::not_found;
}

MemoryFileSystem bundle_files() {
  MemoryFileSystem files;
  const std::vector<NamedTensor> tensors = {{"a", Tensor::vector<float>({1, 2, 3})},
                                            {"b", Tensor::of<std::string>(Shape{2}, {"one", "two"})}};
  write_tensor_bundle(files, kBundle, TensorSource::of(tensors));
  return files;
}

std::string& index_of_bundle(MemoryFileSystem& files) { return files.content(std::string(kBundle) + ".index"); }

std::size_t read_bundle(MemoryFileSystem files) {
  TensorBundle bundle(files, kBundle);
  for (const TensorInfo& info : bundle.tensors()) bundle.read(info.name);
  return bundle.tensors().size();
}

std::size_t read_entry(std::string_view entry) {
  MemoryFileSystem files = bundle_files();
  TablePairs pairs = read_leveldb_table(index_of_bundle(files), "index");
  pairs.at(2).second = entry;
  index_of_bundle(files) = leveldb_table(pairs);
  return read_bundle(std::move(files));
}

// The objects of the checkpoint have the path "w" to a variable of 2 elements.
TensorflowFiles files_of_stranger() {
  return {.tensor =
              [](const std::string& key) {
                if (key == "w") return Tensor::vector<float>({3, 5});
                if (key != "_CHECKPOINTABLE_OBJECT_GRAPH") fail(Code::not_found, "no tensor '{}'", key);
                tensorflow::TrackableObjectGraph graph;
                auto& child = *graph.add_nodes()->add_children();
                child.set_node_id(1);
                child.set_local_name("w");
                auto& value = *graph.add_nodes()->add_attributes();
                value.set_name("VARIABLE_VALUE");
                value.set_checkpoint_key("w");
                return Tensor::scalar<std::string>(graph.SerializeAsString());
              },
          .asset = [](const std::string&) { return std::string("one\ttwo\nthree\n"); }};
}

std::size_t import_model(std::string_view bytes) {
  const TensorflowModel model = parse_tensorflow(bytes, files_of_stranger());
  try {
    const std::string written = serialize(*model.graph);
    promise_of_tensorflow(serialize(*parse_graph(written)) == written, "a graph is read as it was written", "");
  } catch (const Error& error) {
    promise_of_tensorflow(false, "a graph that is let in can be written and read", error.message());
  }
  return static_cast<std::size_t>(model.graph->size());
}

std::size_t read_recorded(std::string_view record) {
  std::uint64_t repeated_bytes = 1 << 20;
  const RecordedRequest request = recorded_request_from(record, repeated_bytes);
  try {
    const std::string written = to_record(request);
    repeated_bytes = 0;  // nothing is repeated in what is written
    const RecordedRequest again = recorded_request_from(written, repeated_bytes);
    promise_of_tensorflow(to_record(again) == written, "a recorded request is read as it was written", "");
  } catch (const Error& error) {
    promise_of_tensorflow(false, "a recorded request that is read can be written and read", error.message());
  }
  return request.inputs.size() + request.outputs.size();
}

// A loop that adds "w" to x three times, sets a list of 3 items, and calls a branch.
std::string loop_seed() {
  using testing::function_attribute, testing::function_text, testing::integer_text, testing::node_text;
  const std::string arguments = R"(input_arg { name: "i" type: 3 } input_arg { name: "l" type: 21 }
                                   input_arg { name: "v" type: 1 } input_arg { name: "h" type: 20 })";
  const std::string cond = function_text("cond", arguments + R"( output_arg { name: "again" type: 10 })",
                                         integer_text("n", 3) + node_text("Less", "less", {"i", "n:output:0"}),
                                         R"(ret { key: "again" value: "less:z:0" })");
  const std::string body = function_text(
      "body", arguments + R"( output_arg { name: "i1" type: 3 } output_arg { name: "l1" type: 21 }
                              output_arg { name: "v1" type: 1 } output_arg { name: "h1" type: 20 })",
      integer_text("one", 1) + node_text("AddV2", "next", {"i", "one:output:0"}) +
          node_text("ReadVariableOp", "read", {"h"}) + node_text("AddV2", "sum", {"v", "read:value:0"}) +
          node_text("If", "if", {"one:output:0", "sum:z:0"},
                    function_attribute("then_branch", "same") + function_attribute("else_branch", "same")) +
          node_text("TensorListSetItem", "set", {"l", "i", "if:output:0"}),
      R"(ret { key: "i1" value: "next:z:0" } ret { key: "l1" value: "set:output_handle:0" }
         ret { key: "v1" value: "sum:z:0" } ret { key: "h1" value: "h" })");
  const std::string same = function_text("same", R"(input_arg { name: "x" type: 1 } output_arg { name: "y" type: 1 })",
                                         node_text("Neg", "n", {"x"}), R"(ret { key: "y" value: "n:y:0" })");
  const std::string nodes = integer_text("zero", 0) + integer_text("three", 3) +
                            node_text("TensorListReserve", "list", {"zero:output:0", "three:output:0"}) +
                            node_text("While", "while", {"zero:output:0", "list:handle:0", "x", "w"},
                                      function_attribute("cond", "cond") + function_attribute("body", "body")) +
                            node_text("TensorListStack", "stack", {"while:output:1", "zero:output:0"});
  return testing::model_of(nodes, "stack:tensor:0", cond + body + same).SerializeAsString();
}

}  // namespace

std::size_t import_tensorflow_of_stranger(std::string_view input) {
  if (input.empty()) return 0;
  const char kind = static_cast<char>(static_cast<unsigned char>(input[0]) % kTensorflowInputs);
  input.remove_prefix(1);
  try {
    if (kind == kModel) return import_model(input);
    if (kind == kEntry) return read_entry(input);
    if (kind == kRecorded) return read_recorded(input);
    MemoryFileSystem files = bundle_files();
    index_of_bundle(files) = input;
    return read_bundle(std::move(files));
  } catch (const Error& error) {
    promise_of_tensorflow(is_error_of_tensorflow(error.code()), "errors are of six codes", error.to_string());
    promise_of_tensorflow(!error.message().empty(), "errors say what is wrong", "");
    return 0;
  }
}

std::vector<std::string> tensorflow_seeds() {
  using testing::integer_text, testing::node_text;
  std::vector<std::string> out = {std::string(1, kModel) + loop_seed()};
  MemoryFileSystem files = bundle_files();
  out.push_back(std::string(1, kIndex) + index_of_bundle(files));
  out.push_back(std::string(1, kEntry) + read_leveldb_table(index_of_bundle(files), "index").at(2).second);
  const RecordedRequest request{
      .signature = "s",
      .inputs = {{"x", Tensor::of<float>({1, 2}, {1, 2})}, {"t", Tensor::vector<std::string>({"one", "two"})}},
      .outputs = {{"y", Tensor::scalar<std::int64_t>(3)}, {"b", Tensor::scalar(true)}}};
  out.push_back(std::string(1, kRecorded) + to_record(request, {.model = "m", .version = 2}));
  // A model of each op, with those inputs that it takes.
  const std::string some =
      integer_text("one", 1) + node_text("ReadVariableOp", "read", {"w"}) + node_text("Shape", "shape", {"x"});
  using Inputs = std::initializer_list<std::string_view>;
  for (const std::string& op : tensorflow_ops()) {
    if (!find_tensorflow_op(op)) continue;
    for (const Inputs& inputs : {Inputs{"x"}, Inputs{"x", "read:value:0"}, Inputs{"x", "one:output:0"},
                                 Inputs{"x", "shape:output:0"}, Inputs{"x", "one:output:0", "one:output:0"}}) {
      const std::string model =
          testing::model_of(some + node_text(op, "node", inputs, R"(attr { key: "axis" value { i: 1 } })"), "node:0")
              .SerializeAsString();
      try {
        import_model(model);
        out.push_back(std::string(1, kModel) + model);
        break;
      } catch (const Error&) {
      }
    }
  }
  return out;
}

}  // namespace troupe
