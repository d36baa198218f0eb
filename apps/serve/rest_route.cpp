#include "apps/serve/rest_route.hpp"

#include <charconv>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using Kind = RestRoute::Kind;

[[noreturn]] void fail_path(std::string_view path) {
  fail(Code::not_found,
       "there is no {}: paths are /v1/models/NAME[/versions/N|/labels/L][:predict|/metadata], "
       "/v2[/models/NAME[/versions/N][/ready|/infer]], /v2/health/live, /v2/health/ready, /healthz, /readyz, /metrics",
       path);
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Up to the next of these characters.
std::string_view take_until(std::string_view& text, std::string_view ends) {
  const std::string_view out = text.substr(0, text.find_first_of(ends));
  text.remove_prefix(out.size());
  return out;
}

std::optional<std::int64_t> version_of(std::string_view text) {
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out < 0) return std::nullopt;
  return out;
}

RestRoute parse_model(std::string_view path, std::string_view rest, bool v1) {
  RestRoute out{.kind = v1 ? Kind::v1_status : Kind::v2_model};
  const std::string_view ends = v1 ? "/:" : "/";
  out.model = take_until(rest, ends);
  if (out.model.empty()) fail_path(path);
  if (take(rest, "/versions/")) {
    out.wanted.version = version_of(take_until(rest, ends));
    if (!out.wanted.version) fail(Code::not_found, "{}: a version is a number", path);
  } else if (v1 && take(rest, "/labels/")) {
    out.wanted.label = take_until(rest, ends);
    if (out.wanted.label.empty()) fail_path(path);
  }
  if (rest.empty()) return out;
  const bool whole = !out.wanted.version && out.wanted.label.empty();
  if (v1 && whole && (rest == "/files" || rest.starts_with("/files/"))) {
    out.kind = Kind::v1_files;
    if (take(rest, "/files/")) out.file = rest;
    return out;
  }
  if (v1 && rest == "/metadata")
    out.kind = Kind::v1_metadata;
  else if (v1 && rest == ":predict")
    out.kind = Kind::v1_predict;
  else if (v1 && (rest == ":classify" || rest == ":regress"))
    out.kind = Kind::v1_other;
  else if (!v1 && rest == "/ready")
    out.kind = Kind::v2_model_ready;
  else if (!v1 && rest == "/infer")
    out.kind = Kind::v2_infer;
  else
    fail_path(path);
  return out;
}

}  // namespace

RestRoute parse_rest_path(std::string_view path) {
  std::string_view rest = path;
  if (take(rest, "/v1/models/")) return parse_model(path, rest, true);
  if (take(rest, "/v2/models/")) return parse_model(path, rest, false);
  if (path == "/v2" || path == "/v2/") return {.kind = Kind::v2_server};
  if (path == "/healthz" || path == "/v2/health/live") return {.kind = Kind::live};
  if (path == "/readyz" || path == "/v2/health/ready") return {.kind = Kind::ready};
  if (path == "/metrics" || path == "/monitoring/prometheus/metrics") return {.kind = Kind::metrics};
  if (path == "/snapshot") return {.kind = Kind::snapshot};
  fail_path(path);
}

}  // namespace troupe
