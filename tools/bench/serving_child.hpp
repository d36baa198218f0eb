// troupe-serve as a child, with the models of a folder of its own.
//
//   ModelFolder folder;
//   folder.publish("mlp", 1, model);
//   ServingChild server(folder, {"--model", "mlp=" + folder.path("mlp")});
//   HttpLoad load(server.rest_port(), 64);
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/child.hpp"
#include "tools/bench/compared_step.hpp"
#include <troupe/actors/model/saved_model.hpp>

namespace troupe::bench {

class ModelFolder {
 public:
  std::string path(const std::string& model) const { return files_.directory() + "/" + model; }
  // A version appears whole.
  void publish(const std::string& model, std::int64_t version, const SavedModel& what) const;
  void remove(const std::string& model, std::int64_t version) const;
  // Writes TensorFlow Serving's file of models, and returns its path.
  std::string configure(const std::vector<std::string>& models) const;
  std::string log() const { return files_.directory() + "/log.txt"; }

 private:
  TensorFiles files_;
};

class ServingChild {
 public:
  // Beside options of ports. Returns once the models answer. Throws unavailable with what the program said last.
  ServingChild(const ModelFolder& folder, const std::vector<std::string>& options);
  ~ServingChild();  // asks it to end
  ServingChild(const ServingChild&) = delete;
  ServingChild& operator=(const ServingChild&) = delete;

  std::uint16_t rest_port() const { return rest_port_; }
  // Throws unimplemented if this program has no gRPC.
  std::uint16_t grpc_port() const;

  // Makes it read its file of models again.
  void configure_again() const;
  // Returns once a version is in this state, "Ready" or "Unloaded".
  void await(const std::string& model, std::int64_t version, const std::string& state);
  double resident_mib() const;

 private:
  const std::string log_;
  Child child_;
  std::uint16_t rest_port_ = 0, grpc_port_ = 0;
};

}  // namespace troupe::bench
