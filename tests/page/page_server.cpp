#include "tests/page/page_server.hpp"

#include <nlohmann/json.hpp>

#include "tests/page/example_cluster.hpp"
#include <troupe/actors/introspection/page.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::testing {
namespace {

// The causes that the page is to show.
std::string why(const ClusterSnapshot& snapshot) {
  nlohmann::json causes = nlohmann::json::array();
  const auto add = [&](const char* kind, const std::string& text) {
    causes.push_back({{"kind", kind}, {"text", text}, {"waiters", 2}, {"for_ns", 1'500'000'000}});
  };
  for (const TaskReport& report : snapshot.tasks)
    if (!report.answered) add("silent", report.task + " " + report.error);
  if (causes.empty()) add("working", "/job:worker/task:1 computes step 7, slot 1");
  return nlohmann::json{{"causes", causes}, {"text", "step 7 waits for slot 1\n  which /job:worker/task:1 computes"}}
      .dump();
}

}  // namespace

PageServer::PageServer(Source source, std::string token) {
  HttpServer::Options options{.token = token, .open_paths = {"/"}, .headers = kIntrospectionHeaders};
  server_ = std::make_unique<HttpServer>(
      std::move(options), [source = std::move(source)](const HttpRequest& request) -> HttpAnswer {
        if (request.path == "/") return {.type = "text/html; charset=utf-8", .body = std::string(introspection_page())};
        if (request.path == "/snapshot") return {.body = to_json(source())};
        if (request.path == "/why") return {.body = why(source())};
        if (const auto task = request.parameters.find("task");
            request.path == "/flight" && task != request.parameters.end()) {
          ClusterSnapshot snapshot = source();
          if (!report_of(snapshot, task->second).answered)
            fail(Code::deadline_exceeded, "{}: no answer within 2.0 s", task->second);
          return {.type = "text/plain; charset=utf-8",
                  .body = "Flight record of " + task->second + "\n12 µs ago: scheduler <- RunStep\n"};
        }
        fail(Code::not_found, "there is no {}", request.path);
      });
  url_ = HttpTarget{.address = server_->address(), .token = token}.url();
}

PageServer::~PageServer() = default;
void PageServer::stop() { server_.reset(); }

}  // namespace troupe::testing
