// Files of models that a server shares, as other servers read them: over real sockets.
#include "apps/serve/shared_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "apps/serve/entity_tags.hpp"
#include "apps/serve/rest_door.hpp"
#include "tests/actors/serving/served_models.hpp"
#include "tests/actors/wire/wire_testing.hpp"
#include "tests/apps/serve/fake_servable.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/serving/weight_pool.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/devices/storage/remote/http_file_system.hpp>
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
      if (on_request_) on_request_();
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
  // Keeps a file's size, and its time apart from that of the version before.
  void change(const std::string& file) {
    std::string content = testing::content_of(directory_.file(file));
    for (char& c : content) ++c;
    const auto before = std::filesystem::last_write_time(directory_.file(file));
    directory_.write(file, content);
    std::filesystem::last_write_time(directory_.file(file), before + std::chrono::seconds(1));
  }
  std::string tag_of(const std::string& file) const {
    const std::string answer = get(file);
    const std::size_t at = answer.find("ETag: ") + 6;
    return answer.substr(at, answer.find("\r\n", at) - at);
  }

  std::function<void()> on_request_;  // before it is answered
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

TEST_F(SharedFiles, HaveTagsOfTheirVersion) {
  write("m/f", "0123456789");
  write("m/g", "0123456789");
  write("m/long", std::string(kMostSharedBytes + 1, 'x'));
  start();
  const std::string tag = tag_of("/f"), other = "\"1-2\"";
  EXPECT_THAT(tag, AllOf(StartsWith("\"a-"), EndsWith("\"")));
  EXPECT_EQ(tag_of("/f"), tag);
  EXPECT_THAT(get("/f", "If-Match: " + tag + "\r\n"), EndsWith("\r\n\r\n0123456789"));
  EXPECT_THAT(get("/f", "If-Match: " + other + ", " + tag + "\r\nRange: bytes=2-4\r\n"),
              AllOf(StartsWith("HTTP/1.1 206 "), HasSubstr("ETag: " + tag + "\r\n"), EndsWith("\r\n\r\n234")));
  EXPECT_THAT(get("/f", "If-Match: *\r\n"), StartsWith("HTTP/1.1 200 "));
  for (const std::string& wrong : {other, "W/" + tag})
    EXPECT_THAT(get("/f", "If-Match: " + wrong + "\r\nRange: bytes=2-4\r\n"),
                AllOf(StartsWith("HTTP/1.1 412 "), HasSubstr("ETag: " + tag + "\r\n"),
                      EndsWith(R"({"error":"'f' has changed: read it from its beginning"})")));
  for (const std::string& right : {tag, "W/" + tag, other + "," + tag, std::string("*")})
    EXPECT_THAT(get("/f", "If-None-Match: " + right + "\r\n"),
                AllOf(StartsWith("HTTP/1.1 304 "), HasSubstr("ETag: " + tag + "\r\n"), EndsWith("\r\n\r\n")));
  EXPECT_THAT(get("/f", "If-None-Match: " + other + "\r\n"), EndsWith("\r\n\r\n0123456789"));
  EXPECT_THAT(get("/f", "If-Range: " + tag + "\r\nRange: bytes=2-4\r\n"), EndsWith("\r\n\r\n234"));
  EXPECT_THAT(get("/f", "If-Range: " + other + "\r\nRange: bytes=2-4\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\n0123456789")));
  EXPECT_THAT(get("/long", "If-Range: " + other + "\r\nRange: bytes=2-4\r\n"), StartsWith("HTTP/1.1 412 "));
  change("m/f");
  EXPECT_NE(tag_of("/f"), tag);
  EXPECT_THAT(get("/f", "If-Match: " + tag + "\r\n"), StartsWith("HTTP/1.1 412 "));
  EXPECT_THAT(get("/f", "If-None-Match: " + tag + "\r\n"), EndsWith("\r\n\r\n123456789:"));
}

TEST_F(SharedFiles, ListsOfTagsAreReadAsTheyAre) {
  for (const char* list : {R"("a")", R"( "b" ,"a")", R"(,, "a",)", R"("b,c","a")", R"(b "a")", "*", R"("b", *)"})
    EXPECT_TRUE(has_entity_tag(list, R"("a")")) << list;
  for (const char* list :
       {"", " ", ",", "a", R"("b")", R"(W/"a")", R"("a)", R"("b"a)", R"("b,"a"")", "W/", R"("ab")"}) {
    EXPECT_FALSE(has_entity_tag(list, R"("a")")) << list;
    EXPECT_FALSE(has_entity_tag(list, "")) << list;
  }
  EXPECT_TRUE(has_entity_tag("*", ""));
  EXPECT_TRUE(has_weak_entity_tag(R"("b", W/"a")", R"("a")"));
  EXPECT_FALSE(has_weak_entity_tag(R"(W/"b", w/"a", W/a)", R"("a")"));
}

TEST_F(SharedFiles, ThatChangeBetweenTwoRangesAreAnErrorOfTheirReader) {
  const auto waits = [](std::chrono::milliseconds) { ADD_FAILURE() << "it is asked for again"; };
  HttpFileSystem files({.wait = waits, .first_request = 16});
  start();
  for (const std::size_t size : {std::size_t{100}, 2 * kMostSharedBytes + 5}) {
    write("m/f", std::string(size, 'a'));
    std::string part(10, '\0');
    const auto into = std::as_writable_bytes(std::span(part));
    const auto file = files.open(url() + "/f");
    file->read(0, into);
    file->read(size / 2, into);
    EXPECT_EQ(part, "aaaaaaaaaa");
    change("m/f");
    const Error error = testing::error_of([&] { file->read(size - 10, into); });
    EXPECT_EQ(error.code(), Code::data_loss) << size;
    EXPECT_THAT(error.message(), HasSubstr("/f' has changed since it was opened")) << size;
    EXPECT_EQ(read_file(files, url() + "/f", size), std::string(size, 'b'));
  }
}

// However the file is replaced meanwhile.
TEST_F(SharedFiles, AnAnswersBytesAreOfTheVersionOfItsTag) {
  write("m/f", std::string(100, 'a'));
  std::atomic<bool> ends{false};
  std::thread replaces([&] {
    for (int i = 0; !ends; ++i) {
      directory_.write("new", i % 2 == 0 ? std::string(200, 'b') : std::string(100, 'a'));
      std::filesystem::rename(directory_.file("new"), directory_.file("m/f"));
    }
  });
  int read = 0;
  for (int i = 0; i < 8000; ++i) try {
      const HttpAnswer answer = shared_file(path_, {.name = "f"});
      const bool first = answer.body.front() == 'a';
      EXPECT_EQ(answer.body, first ? std::string(100, 'a') : std::string(200, 'b'));
      EXPECT_THAT(answer.headers.at("ETag"), StartsWith(first ? "\"64-" : "\"c8-"));
      ++read;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::unavailable);
      EXPECT_THAT(error.message(), HasSubstr("'f' has changed while it was read: ask again"));
    }
  ends = true;
  replaces.join();
  EXPECT_GT(read, 0);
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

TEST_F(SharedFiles, AVersionThatIsRewrittenWhileItIsLoadedIsAnError) {
  start();
  std::filesystem::create_directories(path_);
  write_any_model(posix_file_system(), path_ + "/1.onnx", ModelFormat::onnx, shared_plus_model());
  FormatLoader loader;
  const FoundVersion version{.version = 1, .path = url() + "/1.onnx"};
  on_request_ = [&] { change("m/1.onnx"); };
  const Error error = testing::error_of([&] { loader.load("m", version); });
  EXPECT_EQ(error.code(), Code::data_loss) << error.to_string();
  EXPECT_THAT(error.message(), HasSubstr("/1.onnx' has changed since it was opened"));
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
