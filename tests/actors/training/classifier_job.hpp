// A training plan for a classifier of labelled images.
#pragma once

#include "tests/graph/training/classifier.hpp"
#include <troupe/actors/training/dataset_source.hpp>
#include <troupe/actors/training/job_settings.hpp>
#include <troupe/actors/training/training_plan.hpp>

namespace troupe::testing {

struct ClassifierJob {
  ClassifierJob(const Sequential& layers, const Optimizer& optimizer, const DataSplits& data)
      : program(classifier(layers, optimizer)),
        description("optimizer=" + to_string(optimizer)),
        train(source_of(data.train)),
        test(data.test.size() > 0 ? std::make_unique<TensorDataset>(source_of(data.test)) : nullptr) {}

  // Refers to this object.
  TrainingPlan plan(const TrainingOptions& options, TrainingState& state, Task& task,
                    FileSystem& files = posix_file_system()) const {
    return {.program = program,
            .description = description,
            .train = train,
            .evaluation = test.get(),
            .options = options,
            .state = state,
            .task = task,
            .files = files};
  }

  Program program;
  std::string description;
  TensorDataset train;
  std::unique_ptr<TensorDataset> test;
};

}  // namespace troupe::testing
