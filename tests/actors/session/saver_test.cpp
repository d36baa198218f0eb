#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/actors/task_cluster.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/session/saver.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/hash_table.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Fits w to a target, on devices of its own if there are some.
struct Fit {
  explicit Fit(const std::string& first = "", const std::string& second = "") {
    w = variable(graph, {.name = "w", .initial_value = random_normal(graph, {3}), .device = first});
    count = variable(graph, {.name = "count", .shape = Shape{}, .trainable = false, .device = second});
    const Output loss = sum(square(w.read() - constant(graph, Tensor::vector<float>({1, 2, 3}))));
    const Output step = minimize(loss, optimizers::Adam{.learning_rate = 0.1});
    train = group(graph, {step, count.assign_add(constant(graph, Tensor::scalar(1.0f)))});
    init = initializer(graph);
    for (const VariableInfo& v : variables(graph)) reads.push_back(find_variable(graph, v.name).read());
  }
  std::string values(Session& session) {
    std::string out;
    for (const Tensor& t : session.run(reads)) out += t.to_string() + "\n";
    return out;
  }

  Graph graph;
  VariableRef w, count;
  Output train, init;
  Outputs reads;
};

class SaverTest : public ::testing::Test {
 protected:
  SaverOptions options(int keep = 5) { return {.directory = "/saves", .keep = keep}; }
  std::vector<std::string> folders() {
    std::vector<std::string> out;
    for (const DirectoryEntry& entry : files_.list("/saves")) out.push_back(entry.name);
    return out;
  }

  MemoryFileSystem files_;
  Fit fit_;
  Session session_{fit_.graph};
};

TEST_F(SaverTest, TrainingGoesOnFromASaveWithTheSameBits) {
  Saver saver(session_, fit_.graph, options(), files_);
  session_.run_targets({fit_.init});
  EXPECT_EQ(saver.restore(), std::nullopt);
  for (int i = 0; i < 3; ++i) session_.run_targets({fit_.train});
  saver.save(3);
  const std::string at_three = fit_.values(session_);
  for (int i = 0; i < 4; ++i) session_.run_targets({fit_.train});
  const std::string at_seven = fit_.values(session_);

  Fit later;
  Session other(later.graph);
  Saver restoring(other, later.graph, options(), files_);
  EXPECT_EQ(restoring.restore(), 3u);  // initializes, too
  EXPECT_EQ(later.values(other), at_three);
  for (int i = 0; i < 4; ++i) other.run_targets({later.train});
  EXPECT_EQ(later.values(other), at_seven);
}

// A graph with a variable, a table of vectors by words, and one of counts by numbers, which may be on another task.
struct Tables {
  explicit Tables(const std::string& device = {})
      : words(graph, DType::string, DType::f32, Shape{2}, {.name = "words"}),
        counts(graph, DType::i64, DType::i64, Shape{}, {.name = "counts", .device = device}) {
    variable(graph, {.name = "w", .initial_value = constant(graph, Tensor::vector<float>({5}))});
    fill = group(graph, {words.insert(constant(graph, Tensor::vector<std::string>({"a", "b"})),
                                      constant(graph, Tensor::of<float>({2, 2}, {1, 2, 3, 4}))),
                         counts.insert(constant(graph, Tensor::vector<std::int64_t>({7})),
                                       constant(graph, Tensor::vector<std::int64_t>({70})))});
    init = initializer(graph);
    const auto of_words = words.export_entries(), of_counts = counts.export_entries();
    entries = {of_words.keys, of_words.values, of_counts.keys, of_counts.values};
  }
  std::string values(Session& session) {
    std::string out;
    for (const Tensor& t : session.run(entries)) out += t.to_string() + "\n";
    return out;
  }

  Graph graph;
  MutableHashTable words, counts;
  Output fill, init;
  Outputs entries;
};

TEST_F(SaverTest, HashTablesAreSavedAndRestored) {
  Tables saved;
  Session session(saved.graph);
  Saver saver(session, saved.graph, options(), files_);
  session.run_targets({saved.init});
  saver.save(1);  // the tables are empty
  session.run_targets({saved.fill});
  saver.save(2);
  const std::string filled = saved.values(session);
  EXPECT_EQ(filled, "string[2] = a b\nf32[2,2] = 1 2 3 4\ni64[1] = 7\ni64[1] = 70\n");

  TaskCluster tasks{std::vector<TaskName>{{"ps", 0}, {"worker", 0}}};
  Tables restored("/job:ps/task:0");
  Session other(tasks[1], restored.graph);
  Saver restoring(other, restored.graph, options(), files_);
  EXPECT_EQ(restoring.restore(), 2u);
  EXPECT_EQ(restored.values(other), filled);
  EXPECT_EQ(restoring.restore("/saves/checkpoint-000000000001"), 1u);
  EXPECT_EQ(restored.values(other), "string[0] =\nf32[0,2] =\ni64[0] =\ni64[0] =\n");
}

TEST_F(SaverTest, TablesAreChosenByName) {
  Tables saved;
  Session session(saved.graph);
  session.run_targets({saved.init});
  session.run_targets({saved.fill});
  SaverOptions words = options();
  words.only = {"words"};
  Saver(session, saved.graph, words, files_).save(1);
  const std::string filled = saved.values(session);
  const Output clear = saved.words.remove(constant(saved.graph, Tensor::vector<std::string>({"a"})));
  session.extend(saved.graph);
  session.run_targets({clear});
  Saver(session, saved.graph, words, files_).restore();
  EXPECT_EQ(saved.values(session), filled);
  EXPECT_THAT(error_of([&] { Saver(session, saved.graph, options(), files_).restore(); }).message(),
              HasSubstr("has no variable 'w'"));
}

TEST_F(SaverTest, TheNewestStay) {
  Saver saver(session_, fit_.graph, options(2), files_);
  session_.run_targets({fit_.init});
  for (const std::uint64_t step : {1, 5, 9, 12}) saver.save(step);
  EXPECT_THAT(folders(), ElementsAre("checkpoint-000000000009", "checkpoint-000000000012"));
  EXPECT_EQ(saver.restore("/saves/checkpoint-000000000009"), 9u);
}

TEST_F(SaverTest, ADamagedSaveIsPassedOver) {
  Saver saver(session_, fit_.graph, options(), files_);
  session_.run_targets({fit_.init});
  saver.save(1);
  const std::string first = fit_.values(session_);
  session_.run_targets({fit_.train});
  saver.save(2);
  files_.content("/saves/checkpoint-000000000002/MANIFEST")[20] ^= 1;
  EXPECT_EQ(saver.restore(), 1u);
  EXPECT_EQ(fit_.values(session_), first);
  EXPECT_THAT(saver.passed_over(), ElementsAre(::testing::Key("/saves/checkpoint-000000000002")));
  saver.save(2);  // in its place
  EXPECT_EQ(saver.restore(), 2u);
  EXPECT_THAT(saver.passed_over(), IsEmpty());
}

TEST_F(SaverTest, AnEarlierStepThanThatOfTheDirectoryIsRefused) {
  Saver saver(session_, fit_.graph, options(1), files_);
  session_.run_targets({fit_.init});
  saver.save(7);
  EXPECT_EQ(error_of([&] { saver.save(3); }).to_string(),
            "failed_precondition: cannot save step 3 in '/saves', which holds step 7: restore() first, or use another "
            "directory");
  saver.save(7);
}

TEST_F(SaverTest, PatternsChooseVariables) {
  Saver only(session_, fit_.graph, {.directory = "/saves", .only = {"w*"}, .except = {"*/m"}}, files_);
  session_.run_targets({fit_.init});
  only.save(1);
  session_.run_targets({fit_.train});
  const float count = session_.run(fit_.count.read()).item<float>();
  only.restore();
  EXPECT_EQ(session_.run(fit_.count.read()).item<float>(), count);
  Saver all(session_, fit_.graph, options(), files_);
  EXPECT_THAT(error_of([&] { all.restore(); }).to_string(),
              HasSubstr("failed_precondition: '/saves/checkpoint-000000000001' has no variable '"));
  EXPECT_EQ(error_of([&] { Saver(session_, fit_.graph, {.directory = "/s", .only = {"x"}}, files_); }).to_string(),
            "invalid_argument: no variable matches 'x'");
  EXPECT_EQ(error_of([&] { Saver(session_, fit_.graph, {}, files_); }).to_string(),
            "invalid_argument: a saver needs a directory");
}

TEST_F(SaverTest, ASaveOfAnotherProgramIsRefusedAndChangesNothing) {
  Saver saver(session_, fit_.graph, options(), files_);
  session_.run_targets({fit_.init});
  saver.save(1);
  Graph graph;
  const VariableRef count = variable(graph, {.name = "count", .shape = Shape{}}),
                    w = variable(graph, {.name = "w", .shape = Shape{4}});
  const Output init = initializer(graph);
  Session other(graph);
  other.run_targets({init});
  Saver restoring(other, graph, options(), files_);
  EXPECT_EQ(error_of([&] { restoring.restore(); }).to_string(),
            "failed_precondition: '/saves/checkpoint-000000000001': 'w' is f32[3], but the session's is f32[4]: the "
            "save is of another program");
}

TEST_F(SaverTest, AFullDiskLeavesTheSaveBefore) {
  Saver saver(session_, fit_.graph, options(), files_);
  session_.run_targets({fit_.init});
  saver.save(1);
  files_.full_at = files_.operations();
  EXPECT_EQ(error_of([&] { saver.save(2); }).code(), Code::resource_exhausted);
  files_.full_at = MemoryFileSystem::kNever;
  EXPECT_EQ(saver.restore(), 1u);
}

TEST_F(SaverTest, ValuesAreAssignedByName) {
  session_.run_targets({fit_.init});
  assign_variables(session_, fit_.graph, {{"w", Tensor::vector<float>({4, 5, 6})}});
  EXPECT_TRUE(bitwise_equal(session_.run(fit_.w.read()), Tensor::vector<float>({4, 5, 6})));
  const auto refused = [&](const std::string& name, const Tensor& value) {
    return error_of([&] {
             assign_variables(session_, fit_.graph, {{"count", Tensor::scalar(9.0f)}, {name, value}});
           })
        .to_string();
  };
  EXPECT_EQ(refused("x", Tensor::scalar(1.0f)), "not_found: the graph has no variable 'x'");
  EXPECT_EQ(refused("w", Tensor::scalar(1.0f)),
            "invalid_argument: the value for 'w' is f32[], but the variable is f32[3]");
  EXPECT_EQ(session_.run(fit_.count.read()).item<float>(), 0);
}

TEST(SaverOnACluster, VariablesOfSeveralTasksAreInOneSave) {
  TemporaryDirectory directory;
  const TaskCluster tasks(std::vector<TaskName>{{"ps", 0}, {"ps", 1}, {"worker", 0}});
  const std::string saves = directory.file("saves");
  std::string saved;
  {
    Fit fit("/job:ps/task:0", "/job:ps/task:1");
    Session session(tasks[2], fit.graph);
    session.run_targets({fit.init});
    for (int i = 0; i < 3; ++i) session.run_targets({fit.train});
    saved = fit.values(session);
    Saver(session, fit.graph, {.directory = saves}).save(3);
  }
  Fit swapped("/job:ps/task:1", "/job:worker/task:0");
  Session session(tasks[2], swapped.graph);
  EXPECT_EQ(Saver(session, swapped.graph, {.directory = saves}).restore(), 3u);
  EXPECT_EQ(swapped.values(session), saved);
}

}  // namespace
}  // namespace troupe::testing
