// Pipelines: descriptions, and the elements that tables and streams make of them, compared with lists made by a few
// lines per stage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "tests/error_of.hpp"
#include <troupe/graph/data/pipeline.hpp>
#include <troupe/messages/philox.hpp>
#include <troupe/scheduler/data/element_stream.hpp>
#include <troupe/scheduler/data/element_table.hpp>
#include <troupe/scheduler/data/permutation.hpp>

namespace troupe::testing {
namespace {

using data::Element;
using data::Pipeline;
using ::testing::HasSubstr;
using Numbers = std::vector<std::int64_t>;

const BatchSchema kNumber = {{"number", DType::i64, Shape{}}};

std::int64_t number_in(const Element& element) { return element.at(0).item<std::int64_t>(); }
Element element_of(std::int64_t number) { return {Tensor::scalar(number)}; }

// A pipeline of numbers, and its elements in an epoch.
struct Pair {
  Pipeline pipeline;
  std::function<Numbers(std::uint64_t epoch)> expected;
};

Pair range_pair(std::int64_t n) {
  return {data::range(0, n), [n](std::uint64_t) {
            Numbers out(static_cast<std::size_t>(n));
            std::iota(out.begin(), out.end(), 0);
            return out;
          }};
}

Pair mapped(const Pair& from) {
  return {from.pipeline.map("add", kNumber,
                            [](const Element& e, const data::ElementContext& c) {
                              return element_of(2 * number_in(e) + static_cast<std::int64_t>(c.number + 100 * c.epoch));
                            }),
          [from](std::uint64_t epoch) {
            Numbers out = from.expected(epoch);
            for (std::size_t i = 0; i < out.size(); ++i)
              out[i] = 2 * out[i] + static_cast<std::int64_t>(i + 100 * epoch);
            return out;
          }};
}

Pair filtered(const Pair& from, std::int64_t divisor) {
  return {from.pipeline.filter("some", [=](const Element& e) { return number_in(e) % divisor != 1; }),
          [=](std::uint64_t epoch) {
            Numbers out = from.expected(epoch);
            std::erase_if(out, [=](std::int64_t x) { return x % divisor == 1; });
            return out;
          }};
}

Pair flat_mapped(const Pair& from) {
  return {from.pipeline.flat_map("copies", kNumber,
                                 [](const Element& e, const data::ElementContext&) {
                                   return std::vector<Element>(static_cast<std::size_t>(number_in(e) & 3), e);
                                 }),
          [from](std::uint64_t epoch) {
            Numbers out;
            for (const std::int64_t x : from.expected(epoch)) out.insert(out.end(), static_cast<std::size_t>(x & 3), x);
            return out;
          }};
}

Pair taken(const Pair& from, std::size_t first, std::size_t count) {
  return {from.pipeline.skip(first).take(count), [=](std::uint64_t epoch) {
            Numbers out = from.expected(epoch);
            out.erase(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(std::min(first, out.size())));
            out.resize(std::min(count, out.size()));
            return out;
          }};
}

Pair sharded(const Pair& from, std::size_t shards, std::size_t index) {
  return {from.pipeline.shard(shards, index), [=](std::uint64_t epoch) {
            const Numbers all = from.expected(epoch);
            Numbers out;
            for (std::size_t i = index; i < all.size(); i += shards) out.push_back(all[i]);
            return out;
          }};
}

Pair repeated(const Pair& from, std::uint64_t times) {
  return {from.pipeline.repeat(times), [=](std::uint64_t epoch) {
            Numbers out;
            for (std::uint64_t i = 0; i < times; ++i)
              for (const std::int64_t x : from.expected(epoch * times + i)) out.push_back(x);
            return out;
          }};
}

Pair shuffled(const Pair& from, std::uint64_t seed, std::uint64_t buffer, bool each_epoch) {
  const bool whole = from.pipeline.addressable();
  return {from.pipeline.shuffle(seed, {.buffer = buffer, .each_epoch = each_epoch}), [=](std::uint64_t epoch) {
            const Numbers all = from.expected(epoch);
            const std::uint64_t drawn = each_epoch ? epoch : 0;
            Numbers out;
            if (whole) {
              for (const std::uint32_t i : permutation(seed, drawn, all.size())) out.push_back(all[i]);
              return out;
            }
            for (std::size_t block = 0; block * buffer < all.size(); ++block) {
              const std::size_t first = block * buffer, size = std::min<std::size_t>(buffer, all.size() - first);
              for (const std::uint32_t i : permutation(mix64(seed ^ mix64(block)), drawn, size))
                out.push_back(all[first + i]);
            }
            return out;
          }};
}

Pair regrouped(const Pair& from, std::int64_t size, bool drop) {
  return {from.pipeline.batch(size, {.drop_rest = drop}).unbatch(), [=](std::uint64_t epoch) {
            Numbers out = from.expected(epoch);
            if (drop) out.resize(out.size() - out.size() % static_cast<std::size_t>(size));
            return out;
          }};
}

Pair windowed(const Pair& from, std::size_t size, std::size_t shift) {
  return {from.pipeline.window(static_cast<std::int64_t>(size), static_cast<std::int64_t>(shift)).unbatch(),
          [=](std::uint64_t epoch) {
            const Numbers all = from.expected(epoch);
            Numbers out;
            for (std::size_t first = 0; first + size <= all.size(); first += shift)
              out.insert(out.end(), all.begin() + static_cast<std::ptrdiff_t>(first),
                         all.begin() + static_cast<std::ptrdiff_t>(first + size));
            return out;
          }};
}

Pair concatenated(const Pair& a, const Pair& b) {
  return {a.pipeline.concatenate(b.pipeline), [=](std::uint64_t epoch) {
            Numbers out = a.expected(epoch);
            for (const std::int64_t x : b.expected(epoch)) out.push_back(x);
            return out;
          }};
}

Pair summed(const Pair& a, const Pair& b) {
  const Pipeline other = b.pipeline.map("rename", {{"other", DType::i64, Shape{}}},
                                        [](const Element& e, const data::ElementContext&) { return e; });
  return {data::zip({a.pipeline, other})
              .map("sum", kNumber,
                   [](const Element& e, const data::ElementContext&) {
                     return element_of(e[0].item<std::int64_t>() - e[1].item<std::int64_t>());
                   }),
          [=](std::uint64_t epoch) {
            const Numbers x = a.expected(epoch), y = b.expected(epoch);
            Numbers out;
            for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) out.push_back(x[i] - y[i]);
            return out;
          }};
}

// Split k has the numbers 1000 k, 1000 k + 1, ...
class NumberSplits final : public data::ElementSource {
 public:
  explicit NumberSplits(std::vector<std::int64_t> sizes) : sizes_(std::move(sizes)) {}
  std::uint64_t splits() const override { return sizes_.size(); }
  std::unique_ptr<data::ElementCursor> open(std::uint64_t split) const override {
    return std::make_unique<Cursor>(1000 * static_cast<std::int64_t>(split), sizes_.at(split));
  }

 private:
  class Cursor final : public data::ElementCursor {
   public:
    Cursor(std::int64_t first, std::int64_t size) : first_(first), size_(size) {}
    bool next(Element& element) override {
      if (at_ == size_) return false;
      element = element_of(first_ + at_++);
      return true;
    }
    std::uint64_t position() const override { return static_cast<std::uint64_t>(at_); }
    void seek(std::uint64_t position) override { at_ = static_cast<std::int64_t>(position); }

   private:
    std::int64_t first_, size_, at_ = 0;
  };
  std::vector<std::int64_t> sizes_;
};

Pair splits_pair(std::vector<std::int64_t> sizes, std::uint64_t cycle, bool shuffle) {
  return {data::from_source("splits", kNumber, std::make_shared<NumberSplits>(sizes),
                            {.cycle = cycle, .shuffle = shuffle, .seed = 8}),
          [=](std::uint64_t epoch) {
            // The splits in their order, those being read, and what they have given.
            std::vector<std::uint32_t> order(sizes.size());
            std::iota(order.begin(), order.end(), 0u);
            if (shuffle) order = permutation(8, epoch, sizes.size());
            std::vector<std::pair<std::uint32_t, std::int64_t>> open;
            std::size_t begun = 0;
            for (; begun < std::min<std::size_t>(cycle, sizes.size()); ++begun) open.emplace_back(order[begun], 0);
            Numbers out;
            for (std::size_t turn = 0; !open.empty();) {
              auto& [split, given] = open[turn];
              if (given < sizes[split]) {
                out.push_back(1000 * split + given++);
                turn = (turn + 1) % open.size();
              } else if (begun < sizes.size()) {
                open[turn] = {order[begun++], 0};
              } else {
                open.erase(open.begin() + static_cast<std::ptrdiff_t>(turn));
                if (turn == open.size()) turn = 0;
              }
            }
            return out;
          }};
}

// Number n becomes n & 3 numbers from 10 n on; those of every third number are read in order.
Pair interleaved(const Pair& from, std::size_t cycle, std::size_t block) {
  const auto part = [](const Element& e, const data::ElementContext&) {
    const std::int64_t n = number_in(e);
    const Pipeline numbers = data::range(10 * n, 10 * n + (n & 3));
    return n % 3 == 0 ? numbers.filter("all", [](const Element&) { return true; }) : numbers;
  };
  return {from.pipeline.interleave("parts", kNumber, part, {.cycle = cycle, .block = block}), [=](std::uint64_t epoch) {
            const Numbers all = from.expected(epoch);
            std::vector<Numbers> open;
            std::size_t begun = 0;
            const auto begin = [&] {
              Numbers part;
              for (std::int64_t i = (all[begun] & 3) - 1; i >= 0; --i) part.push_back(10 * all[begun] + i);
              ++begun;
              return part;
            };
            while (open.size() < cycle && begun < all.size()) open.push_back(begin());
            Numbers out;
            for (std::size_t turn = 0, given = 0; !open.empty();) {
              if (!open[turn].empty()) {
                out.push_back(open[turn].back());
                open[turn].pop_back();
                if (++given < block) continue;
                turn = (turn + 1) % open.size();
              } else if (begun < all.size()) {
                open[turn] = begin();
              } else {
                open.erase(open.begin() + static_cast<std::ptrdiff_t>(turn));
                if (turn == open.size()) turn = 0;
              }
              given = 0;
            }
            return out;
          }};
}

Pair bucketed(const Pair& from, bool drop) {
  const auto length = [](const Element& e) { return number_in(e) & 7; };
  const std::vector<std::int64_t> sizes = {2, 3, 1};
  return {from.pipeline.bucketed_batch(length, {.boundaries = {2, 5}, .sizes = sizes, .drop_rest = drop}).unbatch(),
          [=](std::uint64_t epoch) {
            std::vector<Numbers> buckets(3);
            Numbers out;
            const auto empty = [&](Numbers& bucket) {
              out.insert(out.end(), bucket.begin(), bucket.end());
              bucket.clear();
            };
            for (const std::int64_t x : from.expected(epoch)) {
              const std::size_t i = (x & 7) < 2 ? 0 : (x & 7) < 5 ? 1 : 2;
              buckets[i].push_back(x);
              if (std::ssize(buckets[i]) == sizes[i]) empty(buckets[i]);
            }
            for (Numbers& bucket : buckets)
              if (!drop) empty(bucket);
            return out;
          }};
}

Pair cached(const Pair& from) {
  return {from.pipeline.cache(), [from](std::uint64_t) { return from.expected(0); }};
}

Pair numbered(const Pair& from) {
  return {from.pipeline.enumerate("at").map("add", kNumber,
                                            [](const Element& e, const data::ElementContext&) {
                                              return element_of(number_in(e) - 3 * e.at(1).item<std::int64_t>());
                                            }),
          [from](std::uint64_t epoch) {
            Numbers out = from.expected(epoch);
            for (std::size_t i = 0; i < out.size(); ++i) out[i] -= 3 * static_cast<std::int64_t>(i);
            return out;
          }};
}

// Split k makes the numbers 100 k, 100 k + 1, ...: sizes[k] of them.
Pair generated(std::vector<std::int64_t> sizes, std::uint64_t cycle) {
  const auto begin = [sizes](std::uint64_t split) -> data::Generator {
    const std::int64_t first = 100 * static_cast<std::int64_t>(split);
    return [at = first, end = first + sizes.at(split)]() mutable {
      return at < end ? std::optional(element_of(at++)) : std::nullopt;
    };
  };
  return {data::generate("made", kNumber, begin, sizes.size(), {.cycle = cycle}), [=](std::uint64_t) {
            Numbers out = splits_pair(sizes, cycle, false).expected(0);
            for (std::int64_t& x : out) x = x / 1000 * 100 + x % 1000;
            return out;
          }};
}

class Chain {
 public:
  explicit Chain(std::uint64_t seed) : random_(seed) {}
  Pair draw(int stages) {
    Pair pair = below(3) == 0 ? draw_splits() : range_pair(static_cast<std::int64_t>(below(40)));
    for (int i = 0; i < stages; ++i) pair = then(pair);
    return pair;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  Pair draw_splits() {
    std::vector<std::int64_t> sizes(1 + below(6));
    for (std::int64_t& size : sizes) size = static_cast<std::int64_t>(below(9));
    if (below(3) == 0) return generated(sizes, 1 + below(4));
    return splits_pair(sizes, 1 + below(4), below(2) == 0);
  }
  Pair then(const Pair& pair) {
    switch (below(17)) {
      case 0:
        return mapped(pair);
      case 1:
        return filtered(pair, static_cast<std::int64_t>(2 + below(4)));
      case 2:
        return flat_mapped(pair);
      case 3:
        return taken(pair, below(6), below(40));
      case 4: {
        const std::uint64_t shards = 1 + below(3);
        return sharded(pair, shards, below(shards));
      }
      case 5:
        return repeated(pair, below(3));
      case 6:
        return regrouped(pair, static_cast<std::int64_t>(1 + below(5)), below(2) == 0);
      case 7:
        return windowed(pair, 1 + below(4), 1 + below(5));
      case 8:
        return concatenated(pair, draw(1));
      case 9:
        return summed(pair, draw(1));
      case 10: {
        const std::size_t cycle = 1 + below(4);
        return interleaved(pair, cycle, 1 + below(3));
      }
      case 11:
        return bucketed(pair, below(2) == 0);
      case 12:
        return numbered(pair);
      case 13:
        return cached(pair);
      default:
        return shuffled(pair, below(100), 1 + below(9), below(2) == 0);
    }
  }
  std::mt19937_64 random_;
};

std::vector<std::int64_t> rest_of(ElementStream& stream) {
  Numbers out;
  while (const auto element = stream.next()) out.push_back(number_in(*element));
  return out;
}

TEST(Pipeline, RandomOnesHaveTheElementsOfTheirStagesAndGoOnFromAnyPosition) {
  int addressable = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Pair pair = Chain(seed).draw(1 + static_cast<int>(seed % 5));
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, pair.pipeline.describe()));
    const auto stream = open_stream(pair.pipeline.stage());
    for (const std::uint64_t epoch : {3u, 0u}) {
      const Numbers expected = pair.expected(epoch);
      ASSERT_EQ(pair.pipeline.size().value_or(expected.size()), expected.size());
      std::vector<StreamPosition> positions(1);
      stream->start(epoch);
      stream->save(positions[0]);
      Numbers got;
      while (const auto element = stream->next()) {
        got.push_back(number_in(*element));
        stream->save(positions.emplace_back());
      }
      ASSERT_EQ(got, expected);
      for (std::size_t at = 0; at < positions.size(); at += 1 + at / 8) {
        stream->start(epoch);
        PositionReader in(positions[at]);
        stream->restore(in);
        ASSERT_TRUE(in.at_end());
        ASSERT_EQ(rest_of(*stream), Numbers(expected.begin() + static_cast<std::ptrdiff_t>(at), expected.end())) << at;
      }
      // Some passed over, some to rows; the others are made when the stream has gone elsewhere, the last first.
      stream->start(epoch);
      std::vector<std::pair<std::size_t, PendingElement>> pending;
      std::vector<Tensor> row = {Tensor(DType::i64, Shape{1})};
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (i % 3 == 0) {
          pending.emplace_back(i, *stream->next_pending());
        } else if ((i + seed) % 4 == 0) {
          ASSERT_TRUE(stream->next_row(0, row));
          ASSERT_EQ(row[0].data<std::int64_t>()[0], expected[i]) << i;
        } else {
          ASSERT_TRUE(stream->skip());
        }
      }
      ASSERT_FALSE(stream->skip());
      stream->start(7);
      for (; !pending.empty(); pending.pop_back())
        ASSERT_EQ(number_in(pending.back().second.make()), expected[pending.back().first]);
      if (!pair.pipeline.addressable()) continue;
      ++addressable;
      const auto table = open_table(pair.pipeline.stage());
      for (std::size_t i = expected.size(); i-- > 0;) {
        ASSERT_EQ(number_in(table->read(epoch, i)), expected[i]);
        std::vector<Tensor> rows = {Tensor(DType::i64, Shape{3})};
        table->read_row(epoch, i, 1, rows);
        ASSERT_EQ(rows[0].data<std::int64_t>()[1], expected[i]);
      }
    }
  }
  EXPECT_GT(addressable, 80);
  EXPECT_LT(addressable, 700);
}

TEST(Pipeline, SplitsAreReadInTurn) {
  const auto numbers_of = [](const Pair& pair, std::uint64_t epoch) {
    const auto stream = open_stream(pair.pipeline.stage());
    stream->start(epoch);
    return rest_of(*stream);
  };
  EXPECT_EQ(numbers_of(splits_pair({3, 1, 2, 1}, 2, false), 0), (Numbers{0, 1000, 1, 2000, 2, 2001, 3000}));
  EXPECT_EQ(numbers_of(splits_pair({2, 0, 1}, 1, false), 0), (Numbers{0, 1, 2000}));
  const Pair shuffled = splits_pair({1, 1, 1, 1, 1, 1}, 1, true);
  EXPECT_NE(numbers_of(shuffled, 0), numbers_of(shuffled, 1));
  EXPECT_EQ(shuffled.pipeline.forward_because(), "stage 'splits' reads its files in order");
}

TEST(Pipeline, SaysWhyItIsReadInOrder) {
  const Pipeline numbers = data::range(0, 10);
  EXPECT_TRUE(numbers.shuffle(1).batch(4).addressable());
  const Pipeline some = numbers.filter("even", [](const Element&) { return true; }).take(3);
  EXPECT_EQ(some.forward_because(), "stage 'filter even' leaves out elements");
  EXPECT_EQ(some.size(), std::nullopt);
  EXPECT_THAT(error_of([&] { open_table(some.stage()); }).message(), HasSubstr("leaves out elements"));
  EXPECT_EQ(numbers.shuffle(1).batch(4).describe(),
            "range: number i64[]; 10 elements\nshuffle (seed 1, buffer 65536): number i64[]; 10 elements\nbatch 4: "
            "number i64[?]; 3 elements\n");
}

TEST(Pipeline, TensorsOfAnyTypeKeepTheirRows) {
  const Pipeline pipeline =
      data::tensors({{"x", Tensor::of<float>(Shape{3, 2}, {1, 2, 3, 4, 5, 6})},
                     {"word", Tensor::of<std::string>(Shape{3}, {"a", "b", "a word too long for a small string"})}});
  const auto table = open_table(pipeline.shuffle(5).stage());
  std::vector<Tensor> rows = {Tensor(DType::f32, Shape{3, 2}), Tensor(DType::string, Shape{3})};
  for (std::uint64_t i = 0; i < 3; ++i) table->read_row(2, i, static_cast<std::int64_t>(i), rows);
  const auto order = permutation(5, 2, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(rows[0].data<float>()[2 * i], static_cast<float>(2 * order[i] + 1));
    const Element one = table->read(2, i);
    EXPECT_EQ(one[1].item<std::string>(), rows[1].data<std::string>()[i]);
    EXPECT_EQ(one[0].shape(), Shape{2});
  }
}

TEST(Pipeline, PadsToTheLargestOfABatch) {
  const Pipeline sequences =
      data::range(1, 6).map("sequence", {{"ids", DType::i64, Shape{kUnknown}}, {"text", DType::string, Shape{}}},
                            [](const Element& e, const data::ElementContext&) -> Element {
                              Tensor ids(DType::i64, Shape{number_in(e) % 4});
                              for (std::int64_t i = 0; i < ids.num_elements(); ++i)
                                ids.mutable_data<std::int64_t>()[i] = 7;
                              return {ids, Tensor::scalar<std::string>(std::to_string(number_in(e)))};
                            });
  const auto stream = open_stream(sequences.padded_batch(3, {Tensor::scalar<std::int64_t>(-1), Tensor()}).stage());
  stream->start(0);
  const auto first = stream->next(), second = stream->next();
  EXPECT_TRUE(bitwise_equal(first->at(0), Tensor::of<std::int64_t>(Shape{3, 3}, {7, -1, -1, 7, 7, -1, 7, 7, 7})));
  EXPECT_TRUE(bitwise_equal(second->at(0), Tensor::of<std::int64_t>(Shape{2, 1}, {-1, 7})));
  EXPECT_EQ(second->at(1).data<std::string>()[1], "5");
  EXPECT_FALSE(stream->next());
  const auto unpadded = open_stream(sequences.batch(3).stage());
  unpadded->start(0);
  const Error error = error_of([&] { unpadded->next(); });
  EXPECT_EQ(error.code(), Code::data_loss);
  EXPECT_THAT(error.message(), HasSubstr("stage 'batch 3': 'ids' is [1] in one element and [2] in another"));
}

TEST(Pipeline, BatchesArePassedOverWhole) {
  const auto stream = open_stream(filtered(range_pair(11), 50).pipeline.batch(3).stage());
  stream->start(0);
  EXPECT_TRUE(stream->skip() && stream->skip());
  EXPECT_EQ(stream->next()->at(0).data<std::int64_t>()[0], 7);
  EXPECT_TRUE(stream->skip());
  EXPECT_FALSE(stream->skip());
}

TEST(Pipeline, SamplesByWeight) {
  const auto constant = [](std::int64_t value) {
    return data::range(0, 4000).map("is", kNumber,
                                    [=](const Element&, const data::ElementContext&) { return element_of(value); });
  };
  const Pipeline mixed = data::sample({constant(0), constant(1), constant(2)}, {3, 0, 1}, 9);
  EXPECT_FALSE(mixed.addressable());
  const auto stream = open_stream(mixed.take(4000).stage());
  std::vector<Numbers> epochs;
  for (const std::uint64_t epoch : {0u, 1u, 0u}) {
    stream->start(epoch);
    epochs.push_back(rest_of(*stream));
  }
  EXPECT_EQ(epochs[0], epochs[2]);
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(std::ranges::count(epochs[0], 1), 0);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(epochs[0], 0)), 3000, 140);  // five standard deviations
}

TEST(Pipeline, SamplesGoOnFromAnyPositionToTheFirstEnd) {
  const Pipeline mixed = data::sample(
      {data::range(9000, 9030), splits_pair({5, 9, 6}, 2, true).pipeline, data::range(500, 900)}, {2, 1, 1}, 4);
  const auto stream = open_stream(mixed.stage());
  for (const std::uint64_t epoch : {0u, 1u}) {
    stream->start(epoch);
    Numbers expected;
    std::vector<StreamPosition> positions(1);
    for (stream->save(positions[0]); const auto element = stream->next(); stream->save(positions.emplace_back()))
      expected.push_back(number_in(*element));
    const std::int64_t first = std::ranges::count_if(expected, [](std::int64_t x) { return x >= 9000; });
    const std::int64_t third = std::ranges::count_if(expected, [](std::int64_t x) { return x >= 500 && x < 900; });
    EXPECT_TRUE(first == 30 || std::ssize(expected) - first - third == 20) << expected.size();
    for (std::size_t at = 0; at < positions.size(); at += 3) {
      stream->start(epoch);
      PositionReader in(positions[at]);
      stream->restore(in);
      EXPECT_EQ(rest_of(*stream), Numbers(expected.begin() + static_cast<std::ptrdiff_t>(at), expected.end())) << at;
    }
  }
}

TEST(Pipeline, FunctionsThatFailOrMakeSomethingElseAreNamed) {
  const auto next_of = [](const Pipeline& pipeline) {
    return error_of([&] {
             const auto stream = open_stream(pipeline.stage());
             stream->start(0);
             stream->next();
           })
        .to_string();
  };
  const Pipeline numbers = data::range(0, 3);
  EXPECT_THAT(next_of(numbers.map("decode", kNumber,
                                  [](const Element&, const data::ElementContext&) -> Element {
                                    throw std::runtime_error("no image");
                                  })),
              ::testing::AllOf(HasSubstr("stage 'map decode'"), HasSubstr("no image")));
  EXPECT_THAT(next_of(numbers.map(
                  "wrong", kNumber,
                  [](const Element&, const data::ElementContext&) -> Element { return {Tensor::scalar(1.0f)}; })),
              HasSubstr("stage 'map wrong' made 'number' as f32[], expected i64[]"));
  EXPECT_THAT(
      next_of(numbers.interleave(
          "other", kNumber, [](const Element&, const data::ElementContext&) { return data::range(0, 3, 1, "other"); })),
      HasSubstr("stage 'interleave other' made a pipeline of other i64[], expected number i64[]"));
  EXPECT_THAT(next_of(data::generate("broken", kNumber,
                                     [](std::uint64_t) -> data::Generator {
                                       return []() -> std::optional<Element> {
                                         throw std::runtime_error("no more memory");
                                       };
                                     })),
              ::testing::AllOf(HasSubstr("stage 'broken'"), HasSubstr("no more memory")));
  EXPECT_THAT(
      next_of(numbers.flat_map("none", kNumber,
                               [](const Element&, const data::ElementContext&) { return std::vector<Element>{{}}; })),
      HasSubstr("stage 'flat_map none' made an element of 0 components, expected 1"));
}

TEST(Pipeline, DamagedElementsAreLeftOutIfAskedFor) {
  const auto damaged = [](Code code) {
    return [code](const Element& e, const data::ElementContext&) {
      if (number_in(e) % 5 == 2) fail(code, "number {} is damaged", number_in(e));
      return e;
    };
  };
  const Pipeline ordered = splits_pair({9, 0, 14}, 2, true).pipeline.shuffle(2, {.buffer = 4});
  for (const Pipeline& from : {data::range(0, 30).shuffle(3), ordered}) {
    const Pipeline whole = from.map("some", kNumber, damaged(Code::data_loss)).skip_damaged();
    EXPECT_FALSE(whole.addressable());
    const auto all = open_stream(from.stage());
    all->start(1);
    Numbers expected = rest_of(*all);
    const std::size_t elements = expected.size();
    std::erase_if(expected, [](std::int64_t x) { return x % 5 == 2; });
    const PipelineStatistics statistics(whole.stage());
    const auto stream = open_stream(whole.stage(), &statistics);
    stream->start(1);
    EXPECT_EQ(rest_of(*stream), expected);
    EXPECT_EQ(statistics.snapshot().back().skipped_records, elements - expected.size());
    // The same elements are counted when they are passed over, and behind a position.
    stream->start(1);
    for (int i = 0; i < 7; ++i) ASSERT_TRUE(stream->skip());
    StreamPosition position;
    stream->save(position);
    stream->start(1);
    PositionReader in(position);
    stream->restore(in);
    EXPECT_EQ(rest_of(*stream), Numbers(expected.begin() + 7, expected.end()));
  }
  const auto other =
      open_stream(data::range(2, 3).map("busy", kNumber, damaged(Code::unavailable)).skip_damaged().stage());
  other->start(0);
  EXPECT_EQ(error_of([&] { other->next(); }).to_string(), "unavailable: stage 'map busy': number 2 is damaged");
}

TEST(Pipeline, AGeneratorThatHasChangedIsRefused) {
  std::int64_t most = 3;
  const Pipeline pipeline = data::generate("made", kNumber, [&](std::uint64_t) -> data::Generator {
    return [&, at = std::int64_t{0}]() mutable { return at < most ? std::optional(element_of(at++)) : std::nullopt; };
  });
  const auto stream = open_stream(pipeline.stage());
  stream->start(0);
  while (stream->skip()) {
  }
  StreamPosition position;
  stream->start(0);
  for (int i = 0; i < 3; ++i) stream->skip();
  stream->save(position);
  most = 1;
  stream->start(0);
  PositionReader in(position);
  stream->restore(in);
  EXPECT_THAT(error_of([&] { stream->next(); }).message(), HasSubstr("has made 1 elements, but at least 3 before"));
}

TEST(Pipeline, WhatCannotBeIsRefusedWhenItIsBuilt) {
  const Pipeline numbers = data::range(0, 3);
  const auto refused = [](auto&& build) { return error_of([&] { static_cast<void>(build()); }).message(); };
  EXPECT_THAT(refused([&] { return data::range(0, 3, 0); }), HasSubstr("step must not be 0"));
  EXPECT_THAT(refused([&] { return numbers.batch(0); }), HasSubstr("at least 1 element"));
  EXPECT_EQ(refused([&] { return numbers.filter("some", nullptr); }), "stage 'filter some': there is no function");
  EXPECT_THAT(refused([&] { return numbers.shard(2, 2); }), HasSubstr("shard 2 of 2"));
  EXPECT_THAT(refused([&] { return numbers.unbatch(); }), HasSubstr("'number' is a scalar"));
  EXPECT_THAT(refused([&] { return numbers.concatenate(data::range(0, 3, 1, "other")); }), HasSubstr("concatenate"));
  EXPECT_THAT(refused([&] { return data::zip({numbers, numbers}); }), HasSubstr("two components 'number'"));
  EXPECT_THAT(refused([&] { return numbers.bucketed_batch("number", {.sizes = {1}}); }), HasSubstr("has no length"));
  EXPECT_THAT(refused([&] { return numbers.bucketed_batch("other", {.sizes = {1}}); }), HasSubstr("no component"));
  const auto zero = [](const Element&) { return std::int64_t{0}; };
  EXPECT_THAT(refused([&] { return numbers.bucketed_batch(zero, {.boundaries = {1}, .sizes = {1}}); }),
              HasSubstr("1 batch sizes for 1 boundaries, expected 2"));
  EXPECT_THAT(refused([&] {
                return numbers.bucketed_batch(zero, {.boundaries = {2, 2}, .sizes = {1, 1, 1}});
              }),
              HasSubstr("must ascend"));
  EXPECT_THAT(refused([&] { return numbers.bucketed_batch(zero, {.sizes = {0}}); }), HasSubstr("at least 1 element"));
  EXPECT_THAT(refused([&] {
                return numbers.interleave("none", kNumber,
                                          [&](const Element&, const data::ElementContext&) { return numbers; },
                                          {.cycle = 0});
              }),
              HasSubstr("stage 'interleave none': cycle 0"));
  EXPECT_THAT(refused([&] { return numbers.enumerate("number"); }), HasSubstr("two components 'number'"));
  EXPECT_THAT(refused([&] { return data::zip({}); }), HasSubstr("at least one"));
  EXPECT_THAT(refused([&] { return data::sample({numbers}, {-1}, 1); }), HasSubstr("must not be negative"));
  EXPECT_THAT(refused([&] { return numbers.padded_batch(2, {Tensor::scalar(1.0f)}); }),
              HasSubstr("padding of 'number'"));
  EXPECT_THAT(refused([&] {
                return data::tensors({{"x", Tensor::vector<float>({1})}, {"y", Tensor::vector<float>({1, 2})}});
              }),
              HasSubstr("'y' has 2 elements, but 'x' has 1"));
}

TEST(Pipeline, APositionOfAnotherPipelineIsRefused) {
  const auto stream = open_stream(data::range(0, 3).filter("all", [](const Element&) { return true; }).stage());
  stream->start(0);
  for (const StreamPosition& position : {StreamPosition{}, StreamPosition{0}, StreamPosition{0, 4}}) {
    PositionReader in(position);
    EXPECT_EQ(error_of([&] { stream->restore(in); }).code(), Code::data_loss);
  }
}

}  // namespace
}  // namespace troupe::testing
