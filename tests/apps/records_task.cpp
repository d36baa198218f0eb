// records_task PATTERN ORDER DIRECTORY [OPTIONS OF A TASK]: trains a small model for an epoch of the TFRecord files
// that match, alone or as a task of a cluster; ORDER is "forward" or "addressable". Prints the hash of the parameters,
// and writes its peak resident set, a number of KiB, to the file DIRECTORY/JOB-INDEX.
#include <fmt/core.h>

#include <fstream>
#include <span>
#include <string>

#include "tests/apps/records.hpp"
#include <troupe/devices/storage/crc32c.hpp>
#include <troupe/troupe.hpp>

namespace {

using namespace troupe;

// Work for the first batches: who waits for them makes input tasks read ahead as far as they may.
data::Element slow_at_first(const data::Element& element, const data::ElementContext& context) {
  constexpr std::uint64_t kSlow = 256;
  constexpr int kTimes = 1000;
  const std::span bytes(reinterpret_cast<const std::byte*>(element[0].raw()), element[0].num_bytes());
  std::uint32_t crc = 0;
  for (int i = 0; context.number < kSlow && i < kTimes; ++i) crc = crc32c(bytes, crc);
  return element;
}

PipelineSource source_of(const std::string& pattern, bool addressable) {
  const auto parser = std::make_shared<ExampleParser>(std::vector<ExampleFeature>{
      {.name = "bytes", .dtype = DType::u8, .shape = {testing::kRecordBytes}}, {.name = "label", .shape = {1}}});
  // Addressable, the shuffle's order is of the whole data set; else 4 MiB of records wait in its buffer.
  const data::Pipeline records = data::records(pattern, tfrecord_format(), parser, {.addressable = addressable});
  return PipelineSource(records.shuffle(7, {.buffer = 64}).map("slow at first", parser->schema(), slow_at_first));
}

void train(Task& task, const PipelineSource& source) {
  Model model({layers::rescaling(1 / 255.0), layers::dense(1)}, {testing::kRecordBytes}, DType::u8);
  model.compile({.optimizer = optimizers::SGD{.learning_rate = 1e-5}, .loss = Loss::mean_squared_error}, task);
  const bool alone = task.cluster().tasks.empty();
  const TrainingResult result = model.fit(
      source,
      {.mode = alone ? JobMode(LocalMode{}) : SyncMode{.slots = 1}, .epochs = 1, .batch = testing::kRecordsOfBatch});
  if (result.chief) fmt::print("{} steps, parameters {}\n", result.steps, result.params_sha256);
}

// VmHWM of Linux: with mapped files, and with memory shared with other tasks, which so counts in each of them. Not
// ru_maxrss, which counts what the process was before it executed this program.
std::string peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmHWM:" && status >> word) return word;
  fail(Code::unimplemented, "/proc/self/status has no VmHWM");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    auto task = Task::from_command_line(argc, argv);
    if (argc != 4) invalid_argument("records_task: {} arguments, not PATTERN, ORDER and DIRECTORY", argc - 1);
    const std::string file = fmt::format("{}/{}-{}", argv[3], task->name().job, task->name().index);
    train(*task, source_of(argv[1], argv[2] == std::string("addressable")));
    task.reset();
    std::ofstream(file) << peak_kib();
  } catch (const std::exception& error) {
    fmt::print(stderr, "records_task: {}\n", error.what());
    return 1;
  }
}
