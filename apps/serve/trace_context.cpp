#include "apps/serve/trace_context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace troupe {
namespace {

// VERSION-TRACE_ID-SPAN_ID-FLAGS
constexpr std::size_t kTraceIdAt = 3, kTraceIdDigits = 32, kSpanIdAt = 36, kSpanIdDigits = 16, kFlagsAt = 53;
constexpr std::size_t kParentLength = 55;
constexpr unsigned kSampledFlag = 1;

bool is_lower_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_id(std::string_view text) {
  return is_lower_hex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

bool is_state(std::string_view text) {
  return text.size() <= TraceContext::kLongestState &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

std::string new_span_id() {
  thread_local std::mt19937_64 random = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  std::uint64_t id = 0;
  while (id == 0) id = random();
  return fmt::format("{:016x}", id);
}

}  // namespace

std::optional<TraceContext> TraceContext::parse(std::string_view traceparent, std::string_view tracestate) {
  if (traceparent.size() < kParentLength) return std::nullopt;
  for (const std::size_t dash : {kTraceIdAt - 1, kSpanIdAt - 1, kFlagsAt - 1})
    if (traceparent[dash] != '-') return std::nullopt;
  const std::string_view version = traceparent.substr(0, 2), flags = traceparent.substr(kFlagsAt, 2);
  if (!is_lower_hex(version) || version == "ff" || !is_lower_hex(flags)) return std::nullopt;
  // Later versions may add fields.
  if (traceparent.size() > kParentLength && (version == "00" || traceparent[kParentLength] != '-')) return std::nullopt;
  const std::string_view trace_id = traceparent.substr(kTraceIdAt, kTraceIdDigits);
  const std::string_view span_id = traceparent.substr(kSpanIdAt, kSpanIdDigits);
  if (!is_id(trace_id) || !is_id(span_id)) return std::nullopt;
  const auto last = static_cast<unsigned>(flags[1] <= '9' ? flags[1] - '0' : flags[1] - 'a' + 10);
  return TraceContext(trace_id, span_id, (last & kSampledFlag) != 0, is_state(tracestate) ? tracestate : "");
}

TraceContext TraceContext::child() const { return {trace_id_, new_span_id(), sampled_, state_}; }

std::string TraceContext::traceparent() const {
  return fmt::format("00-{}-{}-{:02x}", trace_id_, span_id_, sampled_ ? kSampledFlag : 0U);
}

}  // namespace troupe
