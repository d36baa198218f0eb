// Trains on a cluster: every task runs this program. The final parameters are bit-identical to those of a run without a
// cluster.
//   example_cluster
//   troupe-launch --ps 2 --workers 2 -- example_cluster
//   example_cluster --job worker --task 0 --cluster cluster.json      and one such command for each other task
#include <fmt/core.h>

#include <troupe/troupe.hpp>

int main(int argc, char** argv) {
  using namespace troupe;
  try {
    const auto task = Task::from_command_line(argc, argv);  // takes the task options and leaves the others
    if (argc > 1) {
      fmt::print(stderr, "unknown option '{}'. Options of a task in a cluster:\n{}", argv[1],
                 Task::command_line_help());
      return 2;
    }
    const bool alone = task->cluster().tasks.empty();
    // Two batches per step, for any number of workers.
    const JobMode mode = alone ? JobMode(LocalMode{.slots = 2}) : SyncMode{.slots = 2};
    const DataSplits data = draw_digits({.train = 4000, .test = 500});
    Model model(
        {layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(64, Activation::relu), layers::dense(10)},
        Shape{28, 28, 1}, DType::u8);
    model.compile({.optimizer = optimizers::Adam{.learning_rate = 2e-3},
                   .loss = Loss::sparse_softmax_cross_entropy,
                   .metrics = {metrics::accuracy()}},
                  *task);
    const TrainingResult result =
        model.fit(data, {.mode = mode, .epochs = 4, .on_epoch = [](const EpochLogs& done) {
                           fmt::print("epoch {}: loss {:.2f}\n", done.epoch + 1, done["loss"]);
                         }});
    if (result.chief)  // other workers and parameter servers print nothing
      fmt::print("Test accuracy: {:.2f}\nParameters: {}\n", result["val_accuracy"], result.params_sha256);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.to_string());
    return 1;
  }
}
