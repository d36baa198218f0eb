#include "tests/page/page_server.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "actors/introspection/page.hpp"
#include "messages/error.hpp"

namespace troupe::testing {

struct PageServer::Server {
  httplib::Server http;
  std::thread thread;
};

PageServer::PageServer(Source source, std::string token) : server_(std::make_unique<Server>()) {
  httplib::Server& http = server_->http;
  http.Get("/", [](const httplib::Request&, httplib::Response& response) {
    response.set_header("Content-Security-Policy", std::string(kIntrospectionPagePolicy));
    response.set_content(std::string(introspection_page()), "text/html; charset=utf-8");
  });
  const auto guarded = [token](auto answer) {
    return [token, answer](const httplib::Request& request, httplib::Response& response) {
      if (token.empty() || request.get_header_value("Authorization") == "Bearer " + token)
        answer(response);
      else
        response.status = 401;
    };
  };
  http.Get("/snapshot", guarded([source](httplib::Response& response) { response.set_content(to_json(source()), "application/json"); }));
  http.Get("/why", guarded([source](httplib::Response& response) {
             nlohmann::json causes = nlohmann::json::array();
             const auto add = [&](const char* kind, const std::string& text) {
               causes.push_back({{"kind", kind}, {"text", text}, {"waiters", 2}, {"for_ns", 1'500'000'000}});
             };
             for (const TaskReport& report : source().tasks)
               if (!report.answered) add("silent", report.task + " " + report.error);
             if (causes.empty()) add("working", "/job:worker/task:1 computes step 7, slot 1");
             const nlohmann::json told = {{"causes", causes}, {"text", "step 7 waits for slot 1\n  which /job:worker/task:1 computes"}};
             response.set_content(told.dump(), "application/json");
           }));
  http.Get("/flight", guarded([](httplib::Response& response) { response.set_content("12 µs ago: scheduler <- RunStep\n", "text/plain; charset=utf-8"); }));
  const int port = http.bind_to_any_port("127.0.0.1");
  if (port < 0) fail(Code::unavailable, "no port for a page");
  url_ = fmt::format("http://127.0.0.1:{}/{}", port, token.empty() ? "" : "?token=" + token);
  server_->thread = std::thread([&http] { http.listen_after_bind(); });
  while (!http.is_running()) std::this_thread::yield();  // before that, stop() does nothing
}

PageServer::~PageServer() { stop(); }

void PageServer::stop() {
  server_->http.stop();
  if (server_->thread.joinable()) server_->thread.join();
}

}  // namespace troupe::testing
