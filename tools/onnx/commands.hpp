// The commands of troupe-onnx. Each prints its result to stdout and returns the exit code. They throw Error for files
// that they cannot read or write.
#pragma once

#include <string>
#include <vector>

namespace troupe::onnx_tool {

// Imports a model, and prints what it takes and returns.
int check(const std::string& path, bool json);

// Prints what the file says: also of a model that cannot be imported.
int info(const std::string& path, bool json);

// Runs a model once. `inputs`: a folder with NAME.pb or input_K.pb for each input. `outputs`: a folder for output_K.pb;
// "": only prints what was computed.
int run(const std::string& path, const std::string& inputs, const std::string& outputs, bool json);

// Writes a model as a graph of ours, with its weights as initial values: as text if the file's name ends in .txt.
int import_model(const std::string& path, const std::string& out, bool json);

// Writes a graph of ours as a model; `inputs` and `outputs`: its tensors, by commas. Default of the inputs: all
// placeholders. Variables have their initial values.
int export_model(const std::string& path, const std::string& out, const std::string& inputs, const std::string& outputs,
                 bool json);

// Prints the ops of ONNX that import_onnx() knows, and those of ours that export_onnx() writes and does not.
int ops(bool json);

// Runs the models of folders in the layout of ONNX's tests, and compares their outputs. `again`: what is read back of
// each after it was written.
int test(const std::vector<std::string>& folders, bool again, bool json);

// A whole file. Throws not_found.
std::string read_file(const std::string& path);
// Throws unavailable.
void write_file(const std::string& path, const std::string& bytes);

}  // namespace troupe::onnx_tool
