// A session restores what a training job saved, and a model takes its values.
#include <gtest/gtest.h>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/actors/training/classifier_job.hpp"
#include <troupe/actors/model/values.hpp>
#include <troupe/actors/session/saver.hpp>
#include <troupe/kernels/readers/digits.hpp>

namespace troupe::testing {
namespace {

TEST(SaverOfAJob, ASessionHasTheVariablesOfTheJob) {
  MemoryFileSystem files;
  TrainingState state;
  const Sequential layers({layers::flatten(), layers::dense(10)});
  const Optimizer adam = optimizers::Adam{.learning_rate = 0.01};
  const DataSplits data = draw_digits({.train = 64, .test = 1});
  {
    Task task;
    const ClassifierJob job(layers, adam, data);
    TrainingOptions options{.epochs = 2, .batch = 16, .checkpoint = "/job"};
    options.quiet = true;
    train_locally(job.plan(options, state, task, files));
  }
  ASSERT_FALSE(state.parameters.empty());

  for (const char* path : {"/job", "/job/checkpoint-000000000008"}) {
    EXPECT_EQ(params_sha256(load_values(files, path)), params_sha256(state.parameters)) << path;
    EXPECT_EQ(load_values(files, path, {.only = {"*/bias"}}).size(), 1u);
  }
  const TrainingGraph training = build_training_graph(classifier(layers, adam), classifier_schema({28, 28, 1}), {});
  Session session(*training.graph);
  Saver saver(session, *training.graph, {.directory = "/job"}, files);
  EXPECT_EQ(saver.restore(), 8u);
  Parameters values;
  for (const VariableRef& v : training.parameters) values[v.name] = session.run(v.read());
  EXPECT_EQ(params_sha256(values), params_sha256(state.parameters));
  std::size_t others = 0;
  for (const auto& [name, value] : state.ended->variables) {
    const Tensor found = session.run(find_variable(*training.graph, name).read());
    EXPECT_TRUE(bitwise_equal(found, value)) << name;  // slots, and the count of updates
    others += !values.contains(name);
  }
  EXPECT_EQ(others, 5u);  // m and v of two variables, and a count
}

}  // namespace
}  // namespace troupe::testing
