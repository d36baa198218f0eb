// Models are saved on a disk in memory, which is cut off, full or damaged at every place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/actors/checkpoint/forwarding_file_system.hpp"
#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/model/saved_model.hpp>
#include <troupe/actors/model/saved_model_format.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/formats/serialize.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/layers/network_format.hpp>

namespace troupe::testing {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kModel = "/models/m";

// All of a model, with other values for another number.
SavedModel example_model(float number) {
  SavedModel out;
  const Symbol word = input("word", Shape{kUnknown}, DType::string), age = input("age", Shape{1});
  const Symbol code = layers::string_lookup({"one", "two", fmt::format("word {}", number)})(word);
  out.network = Network({word, age}, {{"risk", layers::dense(2, Activation::relu)(age)}, {"code", code}});
  auto graph = std::make_shared<Graph>();
  const Output x = placeholder(*graph, DType::f32, {kUnknown, 1}, "x");
  const VariableRef w = variable(*graph, {.name = "dense/kernel", .shape = Shape{1, 2}});
  matmul(x, w.read(), {.name = "y"});
  out.graph = graph;
  out.signatures["predict"] = {.inputs = {{"age", {"x", DType::f32, Shape{kUnknown, 1}, "years"}}},
                               .outputs = {{"risk", {"y", DType::f32, Shape{kUnknown, 2}}}},
                               .description = fmt::format("risk {}", number)};
  out.values = {{"dense/kernel", Tensor::of<float>({1, 2}, {number, -0.0f})},
                {"dense/bias", Tensor::vector<float>({0.5f, number})},
                {"count", Tensor::scalar<std::int64_t>(7)}};
  out.compiled = {{"optimizer", "adam(learning_rate=0.001)"}, {"loss", fmt::format("scaled(by={})", number)}};
  out.optimizer = {{"dense/kernel/m", Tensor::of<float>({1, 2}, {3, number})}};
  out.position = "epoch 3\n";
  out.settings = "batch=32\n";
  out.assets = {{"vocabulary.txt", "one\ntwo\n"}, {"empty", ""}};
  out.metadata = {{"author", "é"}, {"number", fmt::format("{}", number)}};
  return out;
}

std::string tensors_text(const std::map<std::string, Tensor>& tensors) { return params_sha256(tensors); }

// All that a model holds, to compare.
std::string text_of(const SavedModel& model) {
  std::string out = fmt::format("{}\n{}\n{}\n", model.network ? serialize(*model.network) : "no layers",
                                model.graph ? serialize(*model.graph) : "no graph", tensors_text(model.values));
  out += tensors_text(model.optimizer) + model.position + model.settings;
  for (const auto* texts : {&model.compiled, &model.assets, &model.metadata})
    for (const auto& [name, text] : *texts) out += fmt::format("{}: {}\n", name, text);
  for (const auto& [name, signature] : model.signatures) {
    out += signature.description;
    for (const auto* specs : {&signature.inputs, &signature.outputs})
      for (const auto& [key, spec] : *specs)
        out += fmt::format("{} {} {} {}{} {}\n", name, key, spec.tensor, troupe::name(spec.dtype),
                           spec.shape.to_string(), spec.description);
  }
  return out;
}

std::vector<std::string> names_in(FileSystem& files, const std::string& directory) {
  std::vector<std::string> out;
  for (const DirectoryEntry& entry : files.list(directory)) out.push_back(entry.name);
  return out;
}

class SavedModels : public ::testing::Test {
 protected:
  SavedModels() { make_directories(files_, "/models"); }
  std::string loaded(FileSystem& files) { return text_of(read_model(files, kModel)); }
  Error refused() {
    return error_of([&] { read_model(files_, kModel); });
  }

  MemoryFileSystem files_;
  const SavedModel old_ = example_model(1), new_ = example_model(2);
  const std::string old_text_ = text_of(old_), new_text_ = text_of(new_);
};

TEST_F(SavedModels, ComeBackWhole) {
  save_model(files_, "/models/m/", old_);
  EXPECT_EQ(loaded(files_), old_text_);
  EXPECT_THAT(names_in(files_, kModel),
              ElementsAre("assets", "metadata.json", "model.pb", "optimizer.safetensors", "values.safetensors"));
  EXPECT_TRUE(is_saved_model(files_, kModel));
  EXPECT_FALSE(is_saved_model(files_, "/models"));
  const SavedModelInfo info = saved_model_info(files_, kModel);
  EXPECT_EQ(info.troupe, TROUPE_VERSION);
  EXPECT_EQ(info.params_sha256, params_sha256(old_.values));
  EXPECT_EQ(info.saved.size(), std::string("2026-11-25T12:40:30Z").size());
  EXPECT_EQ(info.files.size(), 5u);
}

TEST_F(SavedModels, NeedNeitherLayersNorGraphNorOptimizer) {
  const SavedModel bare{.values = {{"w", Tensor::scalar(1.0)}}};
  save_model(files_, kModel, bare);
  EXPECT_EQ(loaded(files_), text_of(bare));
  EXPECT_THAT(names_in(files_, kModel), ElementsAre("metadata.json", "model.pb", "values.safetensors"));
}

TEST_F(SavedModels, AreReplacedAsAWhole) {
  save_model(files_, kModel, old_);
  save_model(files_, kModel, {.values = new_.values});
  EXPECT_EQ(loaded(files_), text_of({.values = new_.values}));
  EXPECT_THAT(names_in(files_, "/models"), ElementsAre("m")) << "the old one is left";
}

TEST_F(SavedModels, ACrashAtAnyOperationLeavesTheOldOrTheNewOne) {
  save_model(files_, kModel, old_);
  files_.start_counting();
  std::size_t old_found = 0, new_found = 0;
  for (bool complete = false; !complete;) {
    MemoryFileSystem disk = files_.copy();
    disk.crash_at = old_found + new_found;
    complete = !error_of([&] { save_model(disk, kModel, new_); });
    bool is_new = false;
    for (int seed = 0; seed < 12; ++seed) {
      const auto survives = seed < 4 ? static_cast<Survives>(seed) : Survives::some;
      MemoryFileSystem after = disk.after_crash(survives, static_cast<std::uint64_t>(seed));
      const std::string found = loaded(after);
      EXPECT_THAT(found, AnyOf(complete ? new_text_ : old_text_, new_text_)) << disk.crash_at << ' ' << seed;
      is_new = is_new || found == new_text_;
    }
    ++(is_new ? new_found : old_found);
  }
  EXPECT_GT(old_found, 30u);
  EXPECT_GT(new_found, 0u);
}

TEST_F(SavedModels, ACrashOfTheFirstSaveLeavesAllOrNothing) {
  std::uint64_t point = 0;
  for (bool complete = false; !complete; ++point) {
    MemoryFileSystem disk = files_.copy();
    disk.crash_at = point;
    complete = !error_of([&] { save_model(disk, kModel, new_); });
    for (int seed = 0; seed < 12; ++seed) {
      const auto survives = seed < 4 ? static_cast<Survives>(seed) : Survives::some;
      MemoryFileSystem after = disk.after_crash(survives, static_cast<std::uint64_t>(seed));
      EXPECT_TRUE(after.exists(kModel) || !complete) << point;
      EXPECT_EQ(after.exists(kModel) ? loaded(after) : new_text_, new_text_) << point << ' ' << seed;
    }
  }
  EXPECT_GT(point, 30u);
}

TEST_F(SavedModels, WhereNamesCannotBeExchangedTheOldOneIsNeverLost) {
  save_model(files_, kModel, old_);
  files_.exchanges = false;
  std::uint64_t point = 0;
  for (bool complete = false; !complete; ++point) {
    MemoryFileSystem disk = files_.copy();
    disk.exchanges = false;
    disk.crash_at = point;
    complete = !error_of([&] { save_model(disk, kModel, new_); });
    MemoryFileSystem after = disk.after_crash(Survives::everything);
    std::size_t whole = 0;
    for (const std::string& name : names_in(after, "/models"))
      if (name == "m" || name.starts_with("m.old-")) whole += !error_of([&] { read_model(after, "/models/" + name); });
    EXPECT_GE(whole, 1u) << point;
    EXPECT_EQ(complete ? loaded(after) : new_text_, new_text_);
  }
}

TEST_F(SavedModels, AFullDiskLeavesTheOldOneAndNothingElse) {
  save_model(files_, kModel, old_);
  for (std::uint64_t point = 0;; ++point) {
    MemoryFileSystem disk = files_.copy();
    disk.full_at = point;
    const Error error = error_of([&] { save_model(disk, kModel, new_); });
    if (!error) break;
    EXPECT_EQ(error.code(), Code::resource_exhausted) << error.to_string();
    EXPECT_THAT(loaded(disk), AnyOf(old_text_, new_text_)) << point;
    EXPECT_LE(names_in(disk, "/models").size(), 2u) << point;  // the second: remove() itself failed
  }
}

TEST_F(SavedModels, ADamagedByteOfAnyFileIsFound) {
  save_model(files_, kModel, old_);
  for (const char* name : {"model.pb", "values.safetensors", "optimizer.safetensors", "assets/vocabulary.txt"}) {
    const std::string path = join_path(kModel, name);
    const std::string whole = files_.content(path);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      files_.content(path)[i] = static_cast<char>(whole[i] ^ (1 << i % 8));
      const Error error = refused();
      EXPECT_EQ(error.code(), Code::data_loss) << path << ' ' << i << ": " << error.to_string();
      EXPECT_THAT(error.message(), HasSubstr(fmt::format("'{}' is damaged: its SHA-256 is ", path)));
      files_.content(path) = whole;
    }
    files_.content(path) = whole.substr(1);
    EXPECT_THAT(refused().message(), HasSubstr(fmt::format("'{}' is damaged: it has {} bytes, and had {} when it was "
                                                           "saved",
                                                           path, whole.size() - 1, whole.size())));
    files_.content(path) = whole;
  }
}

TEST_F(SavedModels, DamagedMetadataIsRefusedOrSaysTheSame) {
  save_model(files_, kModel, old_);
  const std::string path = join_path(kModel, "metadata.json");
  const std::string whole = files_.content(path);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const std::string& other : {whole.substr(0, i), std::string(whole).replace(i, 1, 1, whole[i] ^ 1)}) {
      files_.content(path) = other;
      const Error error = refused();
      if (!error)
        EXPECT_EQ(loaded(files_), old_text_) << i;  // a space became a tab
      else
        EXPECT_THAT(error.code(), AnyOf(Code::data_loss, Code::not_found, Code::unimplemented)) << error.to_string();
    }
  }
  files_.content(path) = "{}";
  EXPECT_THAT(refused().to_string(),
              StartsWith("data_loss: '/models/m/metadata.json': not the metadata of a saved model: "));
  files_.content(path) = R"({"format": 2})";
  EXPECT_EQ(refused().to_string(),
            "unimplemented: '/models/m/metadata.json': format 2 is of a later Troupe; this one reads up to 1");
  files_.content(path) = encode_info({.files = {{"assets/../../x", {1, ""}}}});
  EXPECT_EQ(refused().to_string(),
            "data_loss: '/models/m/metadata.json': 'assets/../../x' is no name of a file in a saved model");
}

TEST_F(SavedModels, AMissingFileIsNamed) {
  EXPECT_EQ(refused().to_string(), "not_found: '/models/m' is no saved model: it has no metadata.json");
  save_model(files_, kModel, old_);
  files_.remove("/models/m/optimizer.safetensors");
  EXPECT_EQ(refused().to_string(),
            "not_found: the saved model '/models/m' is incomplete: it has no 'optimizer.safetensors'; copy the whole "
            "directory again");
}

TEST_F(SavedModels, WhatIsNoSavedModelIsNotReplaced) {
  const auto error = [&] { return error_of([&] { save_model(files_, kModel, new_); }).to_string(); };
  files_.create(kModel);
  EXPECT_EQ(error(),
            "failed_precondition: cannot save a model as '/models/m': it is a file; pass the name of a directory");
  files_.remove(kModel);
  save_model(files_, kModel, old_);
  files_.create("/models/m/notes.txt");
  EXPECT_EQ(error(),
            "failed_precondition: cannot save a model as '/models/m': the directory has 'notes.txt', which is of no "
            "saved model, and would be lost; pass another name, or move that");
  EXPECT_EQ(loaded(files_), old_text_);
  EXPECT_THAT(names_in(files_, "/models"), ElementsAre("m"));
}

TEST_F(SavedModels, AWrongPlaceIsFoundBeforeTheTraining) {
  check_model_directory(files_, "/models/new/place/");
  EXPECT_THAT(names_in(files_, "/models/new"), ElementsAre());
  save_model(files_, kModel, old_);
  check_model_directory(files_, kModel);
  EXPECT_EQ(loaded(files_), old_text_);
  files_.create("/models/file");
  EXPECT_EQ(error_of([&] { check_model_directory(files_, "/models/file"); }).code(), Code::failed_precondition);
  EXPECT_FALSE(error_of([&] { check_model_directory(files_, "/models/file/below"); }).ok());
  EXPECT_THAT(names_in(files_, "/models"), ElementsAre("file", "m", "new"));
}

TEST_F(SavedModels, WhatCannotBeSavedIsNamedAndLeavesNothing) {
  const auto error = [&](const std::function<void(SavedModel&)>& change) {
    SavedModel model = old_;
    change(model);
    const Error found = error_of([&] { save_model(files_, kModel, model); });
    EXPECT_THAT(names_in(files_, "/models"), ElementsAre());
    return found.to_string();
  };
  EXPECT_EQ(error([](SavedModel& m) { m.assets["../x"] = ""; }),
            "invalid_argument: asset '../x': its name must be a plain file name");
  EXPECT_EQ(error([](SavedModel& m) { m.signatures["predict"].inputs["age"].dtype = DType::f64; }),
            "invalid_argument: signature 'predict': 'age' is f64[?,1], but 'x' of the graph is f32[?,1]");
  EXPECT_THAT(error([](SavedModel& m) { m.signatures["predict"].outputs["risk"].tensor = "z"; }),
              StartsWith("not_found: "));
  EXPECT_THAT(error([](SavedModel& m) {
                m.network = Network(Sequential({layers::lambda([](LayerContext&, Output x) { return x; })}));
              }),
              StartsWith("failed_precondition: layer 'lambda'"));
}

// While a model is read, others save again and again under its name.
TEST_F(SavedModels, AReaderOfAReplacedModelReadsAgain) {
  class ReplacedOnce final : public ForwardingFileSystem {
   public:
    ReplacedOnce(FileSystem& files, const SavedModel& next) : ForwardingFileSystem(files), next_(next) {}
    std::unique_ptr<ReadableFile> open(const std::string& path) override {
      if (path.ends_with("values.safetensors") && !replaced_) {
        replaced_ = true;
        save_model(files_, kModel, next_);
      }
      return ForwardingFileSystem::open(path);
    }

   private:
    const SavedModel& next_;
    bool replaced_ = false;
  };
  save_model(files_, kModel, old_);
  ReplacedOnce replaced(files_, new_);
  EXPECT_EQ(loaded(replaced), new_text_);
}

TEST_F(SavedModels, LargeAssetsAndModelsAreRefusedBeforeTheyAreRead) {
  save_model(files_, kModel, old_);
  const auto error_with = [&](const char* name, std::uint64_t bytes) {
    SavedModelInfo info = saved_model_info(files_, kModel);
    info.files.at(name).bytes = bytes;
    MemoryFileSystem changed = files_.copy();
    changed.content(join_path(kModel, "metadata.json")) = encode_info(info);
    return error_of([&] { read_model(changed, kModel); }).to_string();
  };
  EXPECT_EQ(error_with("model.pb", kMaxModelBytes + 1),
            "resource_exhausted: '/models/m/model.pb' has 2147483648 bytes; the limit is 2147483647");
  EXPECT_EQ(error_with("assets/empty", kMaxAssetBytes),
            "resource_exhausted: the assets of '/models/m' have more than 1073741824 bytes");
}

TEST_F(SavedModels, FilesOutsideOfTheDirectoryAreNoFilesOfAModel) {
  save_model(files_, kModel, old_);
  for (const char* name : {"../x", "/etc/passwd", "..", "assets/../x", "assets//etc/passwd", "assets/..", "assets/"}) {
    files_.content("/models/m/metadata.json") = encode_info({.files = {{name, {1, ""}}}});
    EXPECT_EQ(refused().to_string(),
              fmt::format("data_loss: '/models/m/metadata.json': '{}' is no name of a file in a saved model", name));
  }
}

TEST(SavedModelFormat, EqualModelsHaveEqualBytes) {
  EXPECT_EQ(encode_model(example_model(1)), encode_model(example_model(1)));
  EXPECT_EQ(error_of([] { decode_model(""); }).to_string(), "data_loss: not a model: it has no version");
  EXPECT_EQ(error_of([] { decode_model("\xff"); }).to_string(), "data_loss: not a model: 1 bytes do not parse");
  EXPECT_EQ(error_of([] { decode_model("\x08\x02"); }).to_string(),
            "unimplemented: the model has version 2, but this Troupe reads up to 1: load it with a later one");
}

}  // namespace
}  // namespace troupe::testing
