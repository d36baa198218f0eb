// How a version that a source has found (version_source.hpp) becomes a model: a server's own loader reads any format of
// actors/model/any_model.hpp, and a program may bring another (ModelServerOptions::loader):
//
//   class Doubling final : public ModelLoader {
//     ServableModel load(const std::string& model, const FoundVersion& version) override {
//       ServableModel out;
//       out.model.graph = ...;  // in memory
//       out.model.signatures["predict"] = ...;
//       return out;
//     }
//   };
//
// The server compiles the model, warms it up, gives it requests and ends it: a loader only makes it.
#pragma once

#include <string>
#include <vector>

#include <troupe/actors/model/any_model.hpp>
#include <troupe/actors/serving/servable.hpp>
#include <troupe/actors/serving/version_source.hpp>

namespace troupe {

struct ServableModel {
  AnyModel model{};  // at least a graph, signatures, and values of the graph's variables
  // Run before the version is ready; signatures without any run on zeros.
  std::vector<ServingRequest> warm_up{};
  std::string warm_up_file{};  // where they are from, in errors
};

class ModelLoader {
 public:
  virtual ~ModelLoader() = default;
  // Called on threads of low priority, for several versions at once. What it throws is why the version is not served:
  // it is tried again, as ServableManager::Options say.
  virtual ServableModel load(const std::string& model, const FoundVersion& version) = 0;
};

// Reads the version's path, on the file system of its scheme, and requests that were recorded for it. Throws errors of
// reading.
class FormatLoader final : public ModelLoader {
 public:
  explicit FormatLoader(const OpRegistry& ops = standard_ops()) : ops_(ops) {}  // outlives what is loaded
  ServableModel load(const std::string& model, const FoundVersion& version) override;

 private:
  const OpRegistry& ops_;
};

}  // namespace troupe
