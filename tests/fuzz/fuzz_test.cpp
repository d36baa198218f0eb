// What the fuzzers do, for a moment, wherever tests run.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "tests/fuzz/arrays_fuzz.hpp"
#include "tests/fuzz/authentication_fuzz.hpp"
#include "tests/fuzz/control_fuzz.hpp"
#include "tests/fuzz/csv_fuzz.hpp"
#include "tests/fuzz/frame_fuzz.hpp"
#include "tests/fuzz/grpc_messages_fuzz.hpp"
#include "tests/fuzz/images_fuzz.hpp"
#include "tests/fuzz/json_lines_fuzz.hpp"
#include "tests/fuzz/object_stores_fuzz.hpp"
#include "tests/fuzz/onnx_fuzz.hpp"
#include "tests/fuzz/records_fuzz.hpp"
#include "tests/fuzz/rest_bodies_fuzz.hpp"
#include "tests/fuzz/saved_model_fuzz.hpp"
#include "tests/fuzz/tensor_files_fuzz.hpp"
#include "tests/fuzz/tensorflow_fuzz.hpp"

namespace troupe::wire {
namespace {

using Reader = std::function<void(const std::string&)>;

void run_random_bytes(const Reader& run) {
  std::mt19937 random(4);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes(random() % 300, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    run(bytes);
  }
}

// Well-formed inputs in which some bytes are other ones, some are left out, and some come twice.
void run_damaged(const std::vector<std::string>& seeds, const Reader& run) {
  std::mt19937 random(5);
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = seeds[random() % seeds.size()];
    for (unsigned damage = 1 + random() % 3; damage > 0; --damage) {
      // Most of what matters stands in front; payloads are long.
      const std::size_t at =
          1 + random() % (random() % 4 == 0 ? bytes.size() - 1 : std::min<std::size_t>(bytes.size() - 1, 120));
      switch (random() % 5) {
        case 0:
          bytes.erase(at, 1 + random() % 8);
          break;
        case 1:
          bytes.insert(at, bytes.substr(at, 1 + random() % 40));
          break;
        case 2:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
          break;
        default:
          bytes[at] = static_cast<char>(random());
          break;
      }
      if (bytes.size() < 2) break;
    }
    run(bytes);
  }
}

TEST(FrameFuzz, SeedsAreReadToTheirEnd) {
  const auto seeds = frame_seeds();
  ASSERT_GT(seeds.size(), 4u);
  EXPECT_EQ(read_as_peer(seeds[0]), 1u);
  EXPECT_EQ(read_as_peer(seeds[1]), 9u);
  EXPECT_EQ(read_as_peer(seeds[2]), 9u);
  EXPECT_EQ(read_as_peer(seeds[3]), 21u);
  std::string without_hello = seeds[1];
  without_hello[0] = 0;
  EXPECT_EQ(read_as_peer(without_hello), 0u);
  for (std::size_t i = 4; i < seeds.size(); ++i) EXPECT_EQ(read_as_peer(seeds[i]), 1u) << i;
}

TEST(FrameFuzz, BadBytesDoNoMoreThanFail) {
  const Reader run = [](const std::string& bytes) { static_cast<void>(read_as_peer(bytes)); };
  run_random_bytes(run);
  run_damaged(frame_seeds(), run);
}

TEST(AuthenticationFuzz, NoBytesAreTakenForAProof) {
  for (const std::string& seed : stranger_seeds()) say_as_stranger(seed);
  run_random_bytes(say_as_stranger);
  run_damaged(stranger_seeds(), say_as_stranger);
}

TEST(ControlFuzz, SeedsPass) {
  const auto seeds = member_seeds();
  for (const std::string& seed : seeds) EXPECT_GE(say_as_member(seed), 1u) << "seed " << (&seed - seeds.data());
  EXPECT_EQ(say_as_member(seeds[seeds.size() - 2]), 11u);
}

TEST(ControlFuzz, BadBytesDoNoMoreThanEndTheLink) {
  const Reader run = [](const std::string& bytes) { static_cast<void>(say_as_member(bytes)); };
  run_random_bytes(run);
  run_damaged(member_seeds(), run);
}

TEST(OnnxFuzz, ModelsOfEachOpAreImported) {
  std::size_t files = 0;
  for (const std::string& seed : onnx_seeds())
    if (seed[0] == 0 && import_as_stranger(seed) > 0) ++files;
  EXPECT_GT(files, 50u);
}

TEST(OnnxFuzz, BadModelsAreNoMoreThanRefused) {
  const Reader run = [](const std::string& bytes) { static_cast<void>(import_as_stranger(bytes)); };
  run_random_bytes(run);
  run_damaged(onnx_seeds(), run);
}

TEST(TensorFilesFuzz, SeedsAreRead) {
  for (const std::string& seed : tensor_file_seeds()) EXPECT_EQ(read_tensors_of_stranger(seed), seed[0] == 2 ? 1u : 3u);
}

TEST(TensorFilesFuzz, BadFilesAreNoMoreThanRefused) {
  const Reader run = [](const std::string& bytes) { static_cast<void>(read_tensors_of_stranger(bytes)); };
  run_random_bytes(run);
  run_damaged(tensor_file_seeds(), run);
}

TEST(ImagesFuzz, SeedsAreDecoded) {
  for (const std::string& seed : image_seeds()) EXPECT_EQ(decode_image_of_stranger(seed), 144u);
}

TEST(ImagesFuzz, BadImagesAreNoMoreThanRefused) {
  const Reader run = [](const std::string& bytes) { static_cast<void>(decode_image_of_stranger(bytes)); };
  run_random_bytes(run);
  run_damaged(image_seeds(), run);
}

TEST(RestBodiesFuzz, SeedsAreRead) {
  for (const std::string& seed : rest_body_seeds()) EXPECT_GE(read_rest_body_of_stranger(seed), 1u) << seed;
}

// Found by the fuzzer: an object that is broken behind its first key.
TEST(RestBodiesFuzz, WhatIsBrokenIsNotReadOn) {
  EXPECT_EQ(read_rest_body_of_stranger("\x01{\"instances\":[\"a\",{\"b32\"z\"A\"8,}\"=\"P]}"), 0u);
  EXPECT_EQ(read_rest_body_of_stranger("\x01{\"inputs\":{\"b32\"z\"A\"8,}\"=\"P}"), 0u);
  EXPECT_EQ(read_rest_body_of_stranger("\x01{\"inputs\":[{\"b32\"z\"A\"8,}\"=\"P]}"), 0u);
}

TEST(RestBodiesFuzz, BadBodiesAreNoMoreThanRefused) {
  const Reader run = [](const std::string& bytes) { static_cast<void>(read_rest_body_of_stranger(bytes)); };
  run_random_bytes(run);
  run_damaged(rest_body_seeds(), run);
}

TEST(GrpcMessagesFuzz, SeedsAreRead) {
  std::vector<std::size_t> read;
  for (const std::string& seed : grpc_message_seeds()) read.push_back(read_grpc_message_of_stranger(seed));
  EXPECT_EQ(read, (std::vector<std::size_t>{2, 3, 3, 3, 2, 2}));
}

TEST(GrpcMessagesFuzz, BadMessagesAreNoMoreThanRefused) {
  const Reader run = [](const std::string& bytes) { static_cast<void>(read_grpc_message_of_stranger(bytes)); };
  run_random_bytes(run);
  run_damaged(grpc_message_seeds(), run);
}

TEST(RecordsFuzz, SeedsAreRead) {
  for (const std::string& seed : record_seeds()) EXPECT_EQ(read_records_of_stranger(seed), seed[0] == 2 ? 1u : 3u);
}

TEST(RecordsFuzz, BadFilesAreNoMoreThanRefused) {
  const Reader run = [](const std::string& bytes) { static_cast<void>(read_records_of_stranger(bytes)); };
  run_random_bytes(run);
  run_damaged(record_seeds(), run);
}

TEST(CsvFuzz, SeedsAreRead) {
  std::vector<std::size_t> rows;
  for (const std::string& seed : csv_seeds()) rows.push_back(read_csv_of_stranger(seed));
  EXPECT_EQ(rows, (std::vector<std::size_t>{3, 3, 3, 2, 2}));
}

TEST(CsvFuzz, BadFilesAreNoMoreThanRefused) {
  const Reader run = [](const std::string& bytes) { static_cast<void>(read_csv_of_stranger(bytes)); };
  run_random_bytes(run);
  run_damaged(csv_seeds(), run);
}

TEST(JsonLinesFuzz, SeedsAreRead) {
  std::vector<std::size_t> lines;
  for (const std::string& seed : json_lines_seeds()) lines.push_back(read_json_lines_of_stranger(seed));
  EXPECT_EQ(lines, (std::vector<std::size_t>{2, 1}));
}

TEST(JsonLinesFuzz, BadFilesAreNoMoreThanRefused) {
  const Reader run = [](const std::string& bytes) { static_cast<void>(read_json_lines_of_stranger(bytes)); };
  run_random_bytes(run);
  run_damaged(json_lines_seeds(), run);
}

TEST(ArraysFuzz, SeedsAreRead) {
  for (const std::string& seed : array_seeds()) EXPECT_EQ(read_arrays_of_stranger(seed), 2u);
}

TEST(ArraysFuzz, BadFilesAreNoMoreThanRefused) {
  const Reader run = [](const std::string& bytes) { static_cast<void>(read_arrays_of_stranger(bytes)); };
  run_random_bytes(run);
  run_damaged(array_seeds(), run);
}

TEST(ObjectStoresFuzz, SeedsAreRead) {
  std::vector<std::size_t> entries;
  for (const std::string& seed : object_store_seeds()) entries.push_back(read_answer_of_stranger(seed));
  EXPECT_EQ(entries, (std::vector<std::size_t>{2, 3, 1, 0, 0}));
}

TEST(ObjectStoresFuzz, BadAnswersAreNoMoreThanRefused) {
  const Reader run = [](const std::string& bytes) { static_cast<void>(read_answer_of_stranger(bytes)); };
  run_random_bytes(run);
  run_damaged(object_store_seeds(), run);
}

TEST(SavedModelFuzz, SeedsAreRead) {
  for (const std::string& seed : saved_model_seeds()) EXPECT_TRUE(read_model_of_stranger(seed)) << seed.substr(1);
}

TEST(SavedModelFuzz, BadModelsAreNoMoreThanRefused) {
  const Reader run = [](const std::string& bytes) { static_cast<void>(read_model_of_stranger(bytes)); };
  run_random_bytes(run);
  run_damaged(saved_model_seeds(), run);
}

TEST(TensorflowFuzz, SeedsAreRead) {
  const std::vector<std::string> seeds = tensorflow_seeds();
  EXPECT_GT(seeds.size(), 100u);
  for (const std::string& seed : seeds) EXPECT_GT(import_tensorflow_of_stranger(seed), 0u) << seed.substr(1);
}

TEST(TensorflowFuzz, BadModelsAreNoMoreThanRefused) {
  const Reader run = [](const std::string& bytes) { static_cast<void>(import_tensorflow_of_stranger(bytes)); };
  run_random_bytes(run);
  run_damaged(tensorflow_seeds(), run);
}

}  // namespace
}  // namespace troupe::wire
