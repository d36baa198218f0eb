#include "tools/bench/compared_training.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "tools/bench/child.hpp"
#include "tools/bench/kernel_step.hpp"

namespace troupe::bench {
namespace {

constexpr double kTolerance = 2e-4;                // of losses
constexpr std::chrono::minutes kPeerPatience(10);  // compiling may delay the first answer by minutes

std::string file_of(std::string variable) {
  std::ranges::replace(variable, '/', '.');
  return variable;
}

}  // namespace

ComparedTraining::ComparedTraining(const Program& program, const BatchSchema& schema, std::vector<Tensor> batch)
    : graph_(build_training_graph(program, schema, {.batch = batch.front().shape()[0]})),
      session_(std::make_unique<Session>(task_, *graph_.graph)),
      batch_(std::move(batch)) {
  for (std::size_t i = 0; i < schema.size(); ++i) files_.write(schema[i].name, batch_[i]);
  session_->run({}, std::vector<Output>{}, {graph_.initializer}, {.random_step = 0});
  for (const VariableRef& v : graph_.parameters) files_.write(file_of(v.name), session_->run(v.read()));
  call_ = session_->callable(graph_.batches[0], {graph_.phases[0].figures[0]}, {graph_.phases[0].train});
  for (int i = 0; i < kComparedSteps; ++i) losses_.push_back(static_cast<float>(step()));
}

// The first figure is the objective's: the sum of losses, and the number of examples.
double ComparedTraining::loss_of(const std::vector<Tensor>& figures) {
  const double* sums = figures[0].data<double>();
  return sums[0] / sums[1];
}

std::optional<Peer> training_peer(const std::string& name, const TensorFiles& files, const std::vector<float>& losses,
                                  const Settings& settings, double scale) {
  try {
    auto child = std::make_shared<Child>(std::vector<std::string>{
        settings.python, build_directory() + "/include/troupe/tools/bench/peers/training_peer.py", files.directory(),
        name, std::to_string(kComparedSteps)});
    const std::string answer = child->read_line(kPeerPatience), ready = "ready ";
    if (!answer.starts_with(ready)) fail(Code::unavailable, "{}", answer);
    check_close(Tensor::of<float>(Shape{kComparedSteps}, losses),
                files.read("losses", Shape{kComparedSteps}).data<float>(), kTolerance);
    return Peer{answer.substr(ready.size()), [child, scale] {
                  child->write_line("run");
                  return scale * std::stod(child->read_line(kPeerPatience));
                }};
  } catch (const Error& error) {
    if (error.code() == Code::internal) throw;
    fmt::print(stderr, "troupe-bench: peer {} is not available: {}\n", name, error.message());
    return std::nullopt;
  }
}

Contest compare_with(const std::shared_ptr<ComparedTraining>& training, const std::vector<std::string>& peers,
                     const Settings& settings, double scale, const std::function<int()>& steps) {
  Contest contest{.troupe =
                      [=, slice = settings.slice_seconds()] {
                        int done = 0;
                        const auto begin = std::chrono::steady_clock::now();
                        double seconds = 0;
                        while (done == 0 || seconds < slice) {
                          if (steps)
                            done += steps();
                          else
                            training->step(), ++done;
                          seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
                        }
                        return scale * seconds / done;
                      },
                  .peers = {},
                  .rounds = 3};
  for (const std::string& name : peers)
    if (auto peer = training->peer(name, settings, scale)) contest.peers.push_back(std::move(*peer));
  return contest;
}

}  // namespace troupe::bench
