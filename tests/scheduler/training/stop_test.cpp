// Members that are stopped by their users: the job saves before it ends, or goes on without them.
#include "tests/scheduler/training/job_fixture.hpp"

namespace troupe::testing {
namespace {

class StopTest : public JobTest {
 protected:
  // Saves every 100 of 300 steps.
  void begin(JobOptions::OnLoss on_loss = JobOptions::OnLoss::fail, std::uint64_t save_every = 100) {
    make([&](JobOptions& o) {
      o.joining = {4};
      o.steps_per_epoch = 300;
      o.save_every = save_every;
      o.on_loss = on_loss;
    });
    EXPECT_FALSE(job->join({4, Incarnation{9}, 99, "batch=10\nseed=7\n", true}, now, out));
    join_all();
    save_when_due();
  }
  void save_when_due() { job->save_when_due(false, now, out); }
  void stop_worker(std::uint32_t worker) {
    out.clear();
    job->leave({worker, Incarnation{1}, false, 0, Error(Code::cancelled, "training was stopped")}, now, out);
    save_when_due();
  }
  void stop_shard() {
    out.clear();
    job->leave({4, Incarnation{9}, true, 0, Error(Code::cancelled, "training was stopped")}, now, out);
    save_when_due();
  }
  // Steps by one worker, or by two.
  void train(int steps, std::uint32_t second = 1) {
    for (int i = 0; i < steps; ++i)
      for (const std::uint32_t worker : {0u, second}) finish(worker, take(worker));
  }
  // The shard saves what it is told, and the checkpoint is written.
  void write(std::uint64_t step, const Error& error = {}) {
    out.clear();
    EXPECT_FALSE(job->saved({.shard = 4, .step = step, .files = "f", .error = error}));
    save_when_due();
    for (const SaveEvent& event : job->take_saves())
      if (event.kind == SaveEvent::Kind::commit) job->written();
    save_when_due();
  }
};

TEST_F(StopTest, TheJobSavesAndEndsOnAllTasks) {
  for (const bool shard : {false, true}) {
    begin();
    std::fill(std::begin(requests), std::end(requests), 0);
    train(3);
    shard ? stop_shard() : stop_worker(1);
    ASSERT_EQ(said<Save>().size(), 1u);
    const std::uint64_t step = said<Save>()[0].step;
    EXPECT_EQ(step, 4u);  // no shard has it yet
    EXPECT_EQ(job->stage(), Coordinator::Stage::training);
    train(2);  // the stopped one works on
    write(step);
    expect_failed(Code::cancelled, shard ? "/job:ps/task:4 was stopped; the job has saved step 4 and ended"
                                         : "/job:worker/task:1 was stopped; the job has saved step 4 and ended");
  }
}

TEST_F(StopTest, AStopOfMoreMembersSavesOnce) {
  begin();
  train(3);
  stop_worker(0);
  EXPECT_EQ(said<Save>().size(), 1u);
  stop_worker(1);
  stop_shard();
  EXPECT_EQ(said<Save>().size(), 0u);
  train(2);
  write(4);
  expect_failed(Code::cancelled, "/job:worker/task:0 was stopped");
}

TEST_F(StopTest, AFailedSaveEndsTheJobToo) {
  begin();
  train(3);
  stop_worker(0);
  train(2);
  write(4, Error(Code::resource_exhausted, "disk full"));
  expect_failed(Code::cancelled, "it could not be saved: /job:ps/task:4: disk full");
}

TEST_F(StopTest, AJobThatSavesNothingEndsAtOnce) {
  begin(JobOptions::OnLoss::fail, 0);
  train(3);
  stop_worker(1);
  expect_failed(Code::unavailable, "/job:worker/task:1 was lost: it left the job: training was stopped");
}

TEST_F(StopTest, AJobThatMayShrinkGoesOnWithoutTheWorkerWhichHears) {
  begin(JobOptions::OnLoss::reassign);
  train(3);
  stop_worker(1);
  ASSERT_EQ(said<JobFailed>().size(), 1u);
  EXPECT_EQ(said<JobFailed>()[0].error.code(), Code::cancelled);
  EXPECT_EQ(said<Save>().size(), 0u);
  EXPECT_EQ(job->stage(), Coordinator::Stage::training);
  // The last one is needed.
  stop_worker(0);
  ASSERT_EQ(said<Save>().size(), 1u);
  EXPECT_EQ(said<JobFailed>().size(), 0u);
  train(2, 0);
  write(4);
  expect_failed(Code::cancelled, "/job:worker/task:0 was stopped; the job has saved step 4 and ended");
}

// Evaluation may take long: the job does not wait for its end.
TEST_F(StopTest, WhileItEvaluatesTheJobSavesTheStepOfNow) {
  for (const bool ahead : {false, true}) {
    make([&](JobOptions& o) {
      o.joining = {4};
      o.epochs = 2;
      o.save_every = ahead ? 2 : 100;
    });
    EXPECT_FALSE(job->join({4, Incarnation{9}, 99, "batch=10\nseed=7\n", true}, now, out));
    join_all();
    std::fill(std::begin(requests), std::end(requests), 0);
    train(2);
    const Token last[] = {take(0), take(1)};
    out.clear();
    save_when_due();
    ASSERT_EQ(said<Save>().size(), ahead ? 1u : 0u);
    if (ahead) {
      EXPECT_EQ(said<Save>()[0].step, 4u);  // in the next epoch
    }
    finish(0, last[0]);
    finish(1, last[1]);
    ASSERT_EQ(job->stage(), Coordinator::Stage::evaluating);
    ahead ? stop_shard() : stop_worker(1);
    ASSERT_EQ(said<Save>().size(), 1u);
    EXPECT_EQ(said<Save>()[0].step, 3u);
    EXPECT_EQ(take(0).kind, TokenKind::evaluate);  // works on
    write(3);
    expect_failed(Code::cancelled, "was stopped; the job has saved step 3 and ended");
  }
}

TEST_F(StopTest, AtItsEndTheJobIsCompleted) {
  make([&](JobOptions& o) {
    o.joining = {4};
    o.save_every = 100;
  });
  EXPECT_FALSE(job->join({4, Incarnation{9}, 99, "batch=10\nseed=7\n", true}, now, out));
  join_all();
  train(3);
  finish_all(0, TokenKind::evaluate, 3);
  ASSERT_EQ(job->stage(), Coordinator::Stage::finishing);
  out.clear();
  save_when_due();
  ASSERT_EQ(said<Save>().size(), 1u);
  stop_shard();
  write(3);
  EXPECT_FALSE(job->barrier({0}, now, out));
  EXPECT_FALSE(job->barrier({1}, now, out));
  EXPECT_EQ(job->stage(), Coordinator::Stage::finished);
}

TEST_F(StopTest, OfAnEarlierIncarnationIsIgnored) {
  begin();
  train(3);
  out.clear();
  job->leave({1, Incarnation{77}, false, 0, Error(Code::cancelled, "training was stopped")}, now, out);
  save_when_due();
  EXPECT_TRUE(out.empty());
}

}  // namespace
}  // namespace troupe::testing
