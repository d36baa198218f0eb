// Groups over links that are lost and come again, and tasks that stop, die and come again. Nobody may wait for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "tests/long_runs.hpp"
#include <troupe/scheduler/collective/group_table.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kSmall = 6, kRing = 9000;  // elements: everyone to everyone, around the ring

TaskName member(std::uint32_t rank) { return {"worker", static_cast<int>(rank)}; }

// Ranks that run the same program in a group: a broadcast, sums, a barrier. With every other seed, a rank whose group
// fails starts again, as another process, from the beginning, as a launcher would have it, and processes die; the job
// is done when a rank has come to the end, as all others have come to the last barrier then. Else such a rank leaves
// the group and stays: then all have to come to an end, or fail.
class World {
 public:
  World(std::uint64_t seed, GroupGuards guards)
      : random_(static_cast<unsigned>(seed)), starts_again_(seed % 2 == 0), guards_(guards), ranks_(2 + random_() % 3) {
    for (std::uint32_t r = 0; r < ranks_; ++r) processes_.push_back(fresh(r));
    for (std::uint32_t a = 0; a < ranks_; ++a)
      for (std::uint32_t b = 0; b < ranks_; ++b)
        if (a != b) ends_[{a, b}].pending.push_back(Event::up);
    faults_ = 1 + static_cast<int>(random_() % 8);
  }

  // Until the job is done, or nothing more happens. False: it stands still.
  bool run() {
    for (int step = 0; step < 200'000; ++step) {
      std::vector<std::function<void()>> possible;
      for (auto& [place, end] : ends_) {
        if (!end.pending.empty()) possible.push_back([this, place = place] { tell(place.first, place.second); });
        if (end.up && end.pending.empty() && !end.came.empty())
          possible.push_back([this, place = place] { deliver(place.first, place.second); });
      }
      for (std::uint32_t r = 0; r < ranks_; ++r)
        if (can_go_on(r)) possible.push_back([this, r] { go_on(r); });
      if (faults_ > 0 && random_() % 40 == 0) {
        --faults_;
        fault();
        continue;
      }
      if (possible.empty()) {
        if (faults_ == 0) return !starts_again_ && std::ranges::all_of(processes_, &Process::over);
        --faults_;
        fault();
        continue;
      }
      possible[random_() % possible.size()]();
      if (done_) return true;
    }
    return false;
  }
  bool right() const { return right_; }
  std::string stuck() const {
    std::string out;
    for (std::uint32_t r = 0; r < ranks_; ++r)
      out += fmt::format("rank {}, process {}, operation {}: {}\n", r, processes_[r].incarnation.value,
                         processes_[r].operation, processes_[r].table->waits_for());
    return out;
  }

 private:
  enum class Event { up, down };
  struct Process {
    Incarnation incarnation;
    std::unique_ptr<GroupTable> table;
    std::uint64_t group = 0;
    bool opened = false;
    bool running = false;
    bool over = false;
    int operation = 0;
  };
  // What one rank sees of its link to another.
  struct End {
    bool up = false;
    std::deque<Event> pending;        // that it has not heard of
    std::deque<CollectivePart> came;  // in order
  };
  static constexpr int kOperations = 6;

  Process fresh(std::uint32_t rank) {
    return {Incarnation{++last_incarnation_},
            std::make_unique<GroupTable>(
                member(rank), [](DType dtype, const Shape& shape) { return Tensor(dtype, shape); }, guards_)};
  }
  std::vector<TaskName> members() const {
    std::vector<TaskName> out;
    for (std::uint32_t r = 0; r < ranks_; ++r) out.push_back(member(r));
    return out;
  }

  bool can_go_on(std::uint32_t rank) const { return !processes_[rank].running && !processes_[rank].over; }
  void go_on(std::uint32_t rank) {
    Process& p = processes_[rank];
    GroupTable::Outbox out;
    if (!p.opened) {
      p.group = p.table->open("training", members(), {}, out);
      p.opened = true;
    } else if (p.operation == kOperations) {
      p.table->close(p.group, {}, out);
      p.over = true;
      done_ = starts_again_;
    } else {
      p.running = true;
      CollectiveSpec spec{.name = fmt::format("operation {}", p.operation)};
      Tensor tensor;
      if (p.operation == kOperations - 1) {
        spec.kind = CollectiveKind::barrier;
      } else {
        const std::int64_t size = p.operation % 2 == 0 ? kSmall : kRing;
        spec.kind = p.operation < 2 ? CollectiveKind::broadcast : CollectiveKind::all_reduce;
        spec.dtype = DType::f32;
        spec.shape = {size};
        tensor = Tensor::zeros(DType::f32, spec.shape);
        for (float& x : tensor.mutable_values<float>()) x = static_cast<float>(rank + 1);
      }
      p.table->begin(p.group, {0, static_cast<std::uint64_t>(p.operation)}, spec, std::move(tensor), false, 0, out);
    }
    take(rank, out);
  }

  void take(std::uint32_t rank, GroupTable::Outbox& out) {
    for (auto& sent : out.sent) {
      const auto to = static_cast<std::uint32_t>(sent.to.index);
      // On its way if the link is there for both, or is about to be for the other.
      if (linked(rank, to)) ends_.at({to, rank}).came.push_back(std::move(sent.part));
    }
    bool failed = false;
    for (auto& [group, ended] : out.ended) {
      if (ended.error) {
        failed = true;
        continue;
      }
      Process& p = processes_[rank];
      if (!ended.result.empty()) check(p.operation, ended.result[0]);
      p.running = false;
      ++p.operation;
    }
    if (failed) end(rank);
  }
  void end(std::uint32_t rank) {
    if (starts_again_) return die(rank);
    Process& p = processes_[rank];
    p.running = false;
    p.over = true;
    GroupTable::Outbox out;
    p.table->close(p.group, {}, out);
    take(rank, out);
  }
  void check(int operation, const Tensor& result) {
    const float expected = operation < 2 ? 1.f : static_cast<float>(ranks_ * (ranks_ + 1)) / 2;
    for (const float x : result.values<float>()) right_ = right_ && x == expected;
  }

  // The last that each end will hear is that the link is up.
  bool linked(std::uint32_t from, std::uint32_t to) const {
    const End& mine = ends_.at({from, to});
    const End& theirs = ends_.at({to, from});
    return mine.up && mine.pending.empty() && (theirs.pending.empty() ? theirs.up : theirs.pending.back() == Event::up);
  }
  void lose(std::uint32_t a, std::uint32_t b) {
    for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
      End& end = ends_.at({x, y});
      end.came.clear();
      if (!end.pending.empty() && end.pending.back() == Event::up)
        end.pending.pop_back();  // never was
      else
        end.pending.push_back(Event::down);
    }
    for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) ends_.at({x, y}).pending.push_back(Event::up);
  }
  // Its peers lose it; what it was itself is gone.
  void die(std::uint32_t rank) {
    for (std::uint32_t other = 0; other < ranks_; ++other) {
      if (other == rank) continue;
      lose(rank, other);
      End& mine = ends_.at({rank, other});
      mine = {};
      mine.pending.push_back(Event::up);
    }
    processes_[rank] = fresh(rank);
  }
  void fault() {
    const std::uint32_t a = random_() % ranks_;
    if (starts_again_ && random_() % 4 == 0) return die(a);
    lose(a, (a + 1 + random_() % (ranks_ - 1)) % ranks_);
  }
  void tell(std::uint32_t rank, std::uint32_t other) {
    End& end = ends_.at({rank, other});
    const Event event = end.pending.front();
    end.pending.pop_front();
    GroupTable::Outbox out;
    if (event == Event::up) {
      end.up = true;
      processes_[rank].table->up(member(other), processes_[other].incarnation, out);
    } else {
      end.up = false;
      processes_[rank].table->down(member(other), Error(Code::unavailable, "silence"), false, out);
    }
    take(rank, out);
  }
  void deliver(std::uint32_t rank, std::uint32_t from) {
    End& end = ends_.at({rank, from});
    CollectivePart part = std::move(end.came.front());
    end.came.pop_front();
    GroupTable::Outbox out;
    processes_[rank].table->came(member(from), std::move(part), out);
    take(rank, out);
  }

  std::mt19937 random_;
  const bool starts_again_;
  const GroupGuards guards_;
  const std::uint32_t ranks_;
  std::uint64_t last_incarnation_ = 0;
  std::vector<Process> processes_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, End> ends_;
  int faults_ = 0;
  bool done_ = false;
  bool right_ = true;
};

std::uint64_t seeds_that_stand_still(std::uint64_t seeds, GroupGuards guards, std::string* stuck = nullptr) {
  std::uint64_t out = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    World world(seed, guards);
    const bool ended = world.run();
    EXPECT_TRUE(world.right()) << "seed " << seed;
    if (ended) continue;
    ++out;
    if (stuck) *stuck += fmt::format("seed {}:\n{}", seed, world.stuck());
  }
  return out;
}

TEST(GroupTable, NoGroupStandsStillWhateverLinksAreLostAndTasksComeAgain) {
  std::string stuck;
  EXPECT_EQ(seeds_that_stand_still(testing::seeds(10000), {}, &stuck), 0u) << stuck;
}

TEST(GroupTable, WithoutAGuardSomeStandStill) {
  const std::uint64_t seeds = testing::seeds(10000);
  EXPECT_GT(seeds_that_stand_still(seeds, {.fail_what_runs = false}), 0u);
  EXPECT_GT(seeds_that_stand_still(seeds, {.tell_of_lost_links = false}), 0u);
}

}  // namespace
}  // namespace troupe
