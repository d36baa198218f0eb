// Files of models that a server shares, as other servers read them: over real sockets.
#include "apps/serve/shared_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "apps/serve/rest_door.hpp"
#include "tests/actors/serving/served_models.hpp"
#include "tests/actors/wire/wire_testing.hpp"
#include "tests/apps/serve/fake_servable.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/serving/weight_pool.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/graph/builder/variable.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class SharedFiles : public ::testing::Test {
 protected:
  void start(std::map<std::string, std::string> tokens = {}) {
    RestDoor::Options options;
    options.tokens = std::move(tokens);
    options.path_of = [this](const std::string& model) {
      if (model != "m") fail(Code::not_found, "no model '{}' is served", model);
      return path_;
    };
    door_.emplace(testing::models_with(std::make_shared<testing::FakeServable>(), ready_), std::move(options));
  }
  std::string said(const std::string& method, const std::string& path, const std::string& headers = "") const {
    wire::RawPeer peer(door_->address().port);
    peer.send(method + " " + path + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" + headers + "\r\n");
    return peer.all_that_comes();
  }
  std::string get(const std::string& file, const std::string& headers = "") const {
    return said("GET", "/v1/models/m/files" + file, headers);
  }
  std::string url(const std::string& user = "") const {
    return "http://" + user + door_->address().to_string() + "/v1/models/m/files";
  }
  std::string write(const std::string& file, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(directory_.file(file)).parent_path());
    return directory_.write(file, content);
  }

  const testing::TemporaryDirectory directory_;
  std::string path_ = directory_.file("m");
  std::atomic<bool> ready_{true};
  std::optional<RestDoor> door_;
};

TEST_F(SharedFiles, AreAFolderOnTheWeb) {
  std::string content(2 * kMostSharedBytes + 5, '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i / 7);
  write("m/1/large", content);
  write("m/1/a b/c&d", "small");
  write("m/1/empty", "");
  start();
  FileSystem& files = file_system_of(url());
  EXPECT_TRUE(files.exists(url()));
  EXPECT_TRUE(files.exists(url() + "/1"));
  EXPECT_TRUE(files.exists(url() + "/1/large"));
  EXPECT_FALSE(files.exists(url() + "/1/larger"));
  EXPECT_FALSE(files.exists(url() + "/2"));
  EXPECT_THAT(files.list(url()), ElementsAre(DirectoryEntry{"1", true}));
  EXPECT_THAT(files.list(url() + "/1/"),
              ElementsAre(DirectoryEntry{"a%20b", true}, DirectoryEntry{"empty"}, DirectoryEntry{"large"}));
  EXPECT_EQ(read_file(files, url() + "/1/large", 1 << 30), content);
  EXPECT_EQ(read_file(files, url() + "/1/a%20b/c%26d", 100), "small");
  EXPECT_EQ(read_file(files, url() + "/1/empty", 100), "");
  EXPECT_EQ(testing::error_of([&] { files.list(url() + "/1/large"); }).code(), Code::not_found);
}

TEST_F(SharedFiles, AreReadInParts) {
  write("m/f", "0123456789");
  write("m/long", std::string(kMostSharedBytes + 1, 'x'));
  start();
  EXPECT_THAT(get("/f"), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\n0123456789")));
  EXPECT_THAT(get("/f", "Range: bytes=2-4\r\n"), AllOf(StartsWith("HTTP/1.1 206 "), EndsWith("\r\n\r\n234"),
                                                       HasSubstr("Content-Range: bytes 2-4/10\r\n")));
  EXPECT_THAT(get("/f", "Range: bytes=8-18446744073709551615\r\n"), HasSubstr("Content-Range: bytes 8-9/10\r\n"));
  EXPECT_THAT(get("/f", "Range: bytes=10-11\r\n"),
              AllOf(StartsWith("HTTP/1.1 416 "), HasSubstr("Content-Range: bytes */10\r\n")));
  for (const char* odd : {"bytes=", "bytes=1", "bytes=1-", "bytes=-1", "bytes=4-2", "bytes=1-2,4-5", "bytes=+1-2",
                          "lines=1-2", "bytes=1-99999999999999999999"})
    EXPECT_THAT(get("/f", std::string("Range: ") + odd + "\r\n"), EndsWith("\r\n\r\n0123456789")) << odd;
  EXPECT_THAT(get("/long", "Range: bytes=0-9999999\r\n"), HasSubstr("Content-Range: bytes 0-1048575/1048577\r\n"));
  EXPECT_THAT(get("/long"), AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("ask for parts of at most 1048576")));
  EXPECT_THAT(said("HEAD", "/v1/models/m/files/f"), AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET\r\n")));
  EXPECT_THAT(said("HEAD", "/v1/models/m/files/g"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(said("POST", "/v1/models/m/files/f"), StartsWith("HTTP/1.1 405 "));
}

TEST_F(SharedFiles, NothingElseCanBeRead) {
  write("secret", "secret");
  write("m/.hidden/f", "secret");
  write("m/.f", "secret");
  write("m/1/f", "open");
  std::filesystem::create_symlink(directory_.file("secret"), directory_.file("m/link"));
  std::filesystem::create_directory_symlink(directory_.file(""), directory_.file("m/up"));
  start();
  for (const char* file : {"/../secret", "/1/../../secret", "/%2e%2e/secret", "/..%2fsecret", "/1/..%2f..%2fsecret",
                           "/./1/f", "//1/f", "/1//f", "/1/./f", "/1/%2e/f", "/.hidden/f", "/.hidden", "/.f", "/link",
                           "/up/secret", "/up", "/1/f/g", "/..\\secret",

                           "/..%00/secret"}) {
    const std::string answer = get(file);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 404 ")) << file;
    EXPECT_THAT(answer, AllOf(Not(EndsWith("secret")), Not(HasSubstr(">secret<")))) << file;
  }
  EXPECT_THAT(get("/" + directory_.file("secret")), StartsWith("HTTP/1.1 404 "));
  std::string deep;
  for (int i = 0; i < 20; ++i) deep += "/d";
  write("m" + deep + "/f", "deep");
  EXPECT_THAT(get(deep + "/f"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(get("/"), AllOf(HasSubstr("<directory>1</directory>"), Not(HasSubstr("hidden")), Not(HasSubstr("link")),
                              Not(HasSubstr("up"))));
  EXPECT_THAT(said("GET", "/v1/models/other/files/"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(said("GET", "/v1/models/m/versions/1/files/f"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(SharedFiles, NeedTheTokenOfTheirModel) {
  write("m/f", "content");
  start({{"m", "own"}, {"", "other"}});
  EXPECT_THAT(get("/f"), StartsWith("HTTP/1.1 401 "));
  for (const char* wrong : {"Bearer other", "Basic OnNlY3JldA==", "Basic b3du", "Basic ?", "Basic "})
    EXPECT_THAT(get("/f", std::string("Authorization: ") + wrong + "\r\n"), StartsWith("HTTP/1.1 401 ")) << wrong;
  EXPECT_THAT(get("/f", "Authorization: Bearer own\r\n"), EndsWith("content"));
  EXPECT_EQ(read_file(file_system_of(url()), url(":own@") + "/f", 100), "content");
  const Error error = testing::error_of([&] { read_file(file_system_of(url()), url(":guess@") + "/f", 100); });
  EXPECT_EQ(error.code(), Code::permission_denied);
  EXPECT_THAT(error.message(), Not(HasSubstr("guess")));
}

TEST_F(SharedFiles, AreNotSharedUnlessTheServerIsTold) {
  door_.emplace(testing::models_with(std::make_shared<testing::FakeServable>(), ready_), RestDoor::Options{});
  EXPECT_THAT(get("/f"), AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr("start it with --share-models")));
}

TEST_F(SharedFiles, AModelThatIsAFileIsVersionOne) {
  path_ = write("scores.onnx", "onnx");
  start();
  EXPECT_THAT(file_system_of(url()).list(url()), ElementsAre(DirectoryEntry{"1.onnx"}));
  EXPECT_EQ(read_file(file_system_of(url()), url() + "/1.onnx", 100), "onnx");
  EXPECT_THAT(get("/scores.onnx"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(get("/1.onnx/f"), StartsWith("HTTP/1.1 404 "));
  path_ = "http://user:secret@host/m";
  EXPECT_THAT(get("/1"), AllOf(StartsWith("HTTP/1.1 501 "), HasSubstr("http://host/m"), Not(HasSubstr("secret"))));
}

// "y" is "x" plus a variable.
AnyModel shared_plus_model() {
  constexpr std::int64_t kColumns = WeightPool::kSmallest / sizeof(float);
  AnyModel out;
  out.graph = std::make_shared<Graph>();
  const Shape shape{kUnknown, kColumns};
  const Output x = placeholder(*out.graph, DType::f32, shape, "x");
  const Output initial = constant(*out.graph, Tensor::zeros(DType::f32, {kColumns}));
  const Output w = variable(*out.graph, {.name = "w", .initial_value = initial}).read();
  const Output y = add(x, w, "y");
  out.signatures["predict"] = {.inputs = {{"x", {"x", DType::f32, shape}}},
                               .outputs = {{"y", {y.name(), DType::f32, shape}}}};
  out.values["w"] = Tensor::zeros(DType::f32, {kColumns});
  return out;
}

TEST_F(SharedFiles, WeightsFromElsewhereAreSharedWithEqualOnes) {
  start();
  std::filesystem::create_directories(path_);
  const std::pair<ModelFormat, const char*> formats[] = {{ModelFormat::tensorflow, "1"}, {ModelFormat::onnx, "2.onnx"}};
  for (const auto& [format, name] : formats) {
    write_any_model(posix_file_system(), path_ + "/" + name, format, shared_plus_model());
    FormatLoader loader;
    ServableModel here = loader.load("m", {.version = 1, .path = path_ + "/" + name});
    ServableModel there = loader.load("m", {.version = 1, .path = url() + "/" + name});
    WeightPool pool;
    const WeightShares first = pool.share(here.model.values), second = pool.share(there.model.values);
    EXPECT_EQ(first.size(), 1u) << name;
    EXPECT_EQ(pool.bytes(), WeightPool::kSmallest) << name;
    ASSERT_FALSE(there.model.values.empty()) << name;
    EXPECT_EQ(here.model.values.begin()->second.raw(), there.model.values.begin()->second.raw()) << name;
  }
}

TEST_F(SharedFiles, AModelServerServesThem) {
  start({{"", "secret"}});
  testing::save_version(directory_, "m", 1);
  std::filesystem::create_directories(directory_.file("m/empty"));
  Task task;
  ModelServer server(task, {.poll = std::chrono::milliseconds(20), .threads = 1});
  server.configure({{.name = "m", .path = url(":secret@")},
                    {.name = "refused", .path = url(":guess@")},
                    {.name = "empty", .path = url(":secret@") + "/empty"}});
  server.await_ready("m", testing::kPatience);
  EXPECT_THAT(testing::ask(*server.find("m"), testing::rows_of({1, 2})).outputs.at("y").values<float>(),
              ElementsAre(1, 2));
  EXPECT_TRUE(server.await_decided(testing::kPatience));
  EXPECT_THAT(testing::error_of([&] { server.find("refused"); }).message(),
              AllOf(HasSubstr("the server refuses it"), Not(HasSubstr("guess"))));
  EXPECT_THAT(testing::error_of([&] { server.find("empty"); }).message(),
              AllOf(HasSubstr(url() + "/empty has no versions"), Not(HasSubstr("secret"))));
  testing::save_version(directory_, "m", 2);
  EXPECT_TRUE(testing::eventually([&] { return server.find("m")->id().version == 2; }));
  std::filesystem::create_directories(directory_.file("m/3"));
  directory_.write("m/3/metadata.json", "not a model");
  EXPECT_TRUE(testing::eventually([&] { return server.status("m").back().error.code() != Code::ok; }));
  EXPECT_THAT(server.status("m").back().error.message(), AllOf(HasSubstr(url() + "/3"), Not(HasSubstr("secret"))));
  EXPECT_EQ(server.find("m")->id().version, 2);
}

}  // namespace
}  // namespace troupe
