// The memory of tasks that train on a data set far larger than it: real processes, which the test compares with the
// same ones on a single batch. What a task maps or shares counts (records_task.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "tests/apps/process.hpp"
#include "tests/apps/records.hpp"
#include "tests/long_runs.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/devices/storage/file_system.hpp>
#include <troupe/kernels/readers/example.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>
#include <troupe/messages/buffer.hpp>

namespace troupe {
namespace {

using testing::kRecordBytes;
using testing::kRecordsOfBatch;
using testing::Process;
using testing::TemporaryDirectory;

constexpr std::int64_t kMiB = 1 << 20;

// 512 MiB; in a long run 4 GiB: TROUPE_LONG_TESTS=1 build/release/bin/test_pipeline_memory
std::int64_t data_set() { return (testing::is_long_run() ? 4096 : 512) * kMiB; }
constexpr std::int64_t kBound = 64 * kMiB;  // above the memory of an empty pipeline

class PipelineMemory : public ::testing::Test {
 protected:
  struct Run {
    std::string out;
    std::map<std::string, std::int64_t> peaks;  // bytes, by task
  };

  static void SetUpTestSuite() {
    directory_ = std::make_unique<TemporaryDirectory>();
    write_records("all", data_set() / kRecordBytes);
    write_records("batch", kRecordsOfBatch);
  }
  static void TearDownTestSuite() { directory_.reset(); }

  // Files NAME-0.tfrecord ... of so many records in all.
  static void write_records(const std::string& name, std::int64_t records) {
    constexpr std::int64_t kFiles = 8;
    for (std::int64_t i = 0; i < kFiles; ++i) {
      const auto file = posix_file_system().create(directory_->file(fmt::format("{}-{}.tfrecord", name, i)));
      TfRecordWriter writer(*file);
      for (std::int64_t record = i * records / kFiles; record < (i + 1) * records / kFiles; ++record) {
        const Tensor bytes = Tensor::scalar(std::string(kRecordBytes, static_cast<char>(record % 251)));
        const Tensor label = Tensor::vector<float>({static_cast<float>(record % 7)});
        writer.append(example_of(std::vector<NamedTensor>{{"bytes", bytes}, {"label", label}}));
      }
      writer.finish();
      file->close();
    }
  }

  static Run run(const std::string& records, const std::string& order, bool cluster) {
    const TemporaryDirectory peaks;
    std::vector<std::string> command;
    if (cluster) command = {testing::program("troupe-launch"), "--ps", "1", "--workers", "1", "--inputs", "2", "--"};
    command.insert(command.end(),
                   {testing::program("records_task"), directory_->file(records + "-*.tfrecord"), order, peaks.path()});
    Process process(command);
    EXPECT_EQ(process.wait(), 0) << process.err;
    Run out{.out = process.out, .peaks = {}};
    for (const auto& file : std::filesystem::directory_iterator(peaks.path()))
      out.peaks[file.path().filename()] = std::stoll("0" + testing::content_of(file.path())) << 10;
    return out;
  }

  // Trains with both data sets, and returns what the larger one printed.
  static std::string expect_bounded(const std::string& order, bool cluster) {
    const Run empty = run("batch", order, cluster), all = run("all", order, cluster);
    EXPECT_EQ(all.peaks.size(), cluster ? 4u : 1u);
    if (empty.peaks.empty()) {
      ADD_FAILURE() << "no task has told its peak";
      return {};
    }
    for (const auto& [task, peak] : all.peaks) {
      // An input task that comes when the one batch is done tells nothing: then that of the least task counts.
      const auto own = empty.peaks.find(task);
      const std::int64_t before =
          own != empty.peaks.end()
              ? own->second
              : std::ranges::min_element(empty.peaks, {}, [](const auto& p) { return p.second; })->second;
      const std::int64_t more = peak - before;
      fmt::print("{} {}: {} MiB, of one batch {} MiB: {} MiB more\n", order, task, peak / kMiB, before / kMiB,
                 more / kMiB);
      EXPECT_LE(more, kBound) << order << " " << task;
    }
    return all.out;
  }

  static std::unique_ptr<TemporaryDirectory> directory_;
};
std::unique_ptr<TemporaryDirectory> PipelineMemory::directory_;

TEST_F(PipelineMemory, IsBoundedInEachTaskThatReadsInOrder) {
  EXPECT_EQ(expect_bounded("forward", true), expect_bounded("forward", false));
}

TEST_F(PipelineMemory, IsBoundedInEachTaskThatReadsByNumber) {
  EXPECT_EQ(expect_bounded("addressable", true), expect_bounded("addressable", false));
}

TEST(BatchMemory, IsUsedAgainForBatchesOfItsSize) {
  std::vector<BufferRef> buffers, between;  // what is freed has neighbours in use
  std::set<void*> places;
  for (int i = 0; i < 20; ++i) {
    buffers.push_back(allocate_host(kRecordBytes));
    between.push_back(allocate_host(1000));
    places.insert(buffers.back()->data());
  }
  for (int round = 0; round < 10; ++round) {
    buffers.clear();
    for (int i = 0; i < 20; ++i) {
      buffers.push_back(allocate_host(kRecordBytes));
      places.insert(buffers.back()->data());
    }
  }
  EXPECT_EQ(places.size(), 20u);
}

}  // namespace
}  // namespace troupe
