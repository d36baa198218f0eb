// A request's place in a trace of several programs: https://www.w3.org/TR/trace-context/
//
//   if (const auto caller = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
//     request.trace = caller->child().traceparent();   // the same trace, a span of our own
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

class TraceContext {
 public:
  static constexpr const char* kParent = "traceparent";  // header of REST, metadata of gRPC
  static constexpr const char* kState = "tracestate";
  static constexpr std::size_t kLongestState = 512;

  // Null for a traceparent that the standard ignores: malformed, of version ff, or with ids of zeros. Later versions
  // are read as version 00. A tracestate that is longer than kLongestState or not printable ASCII is dropped.
  static std::optional<TraceContext> parse(std::string_view traceparent, std::string_view tracestate = {});

  // Has a new span id.
  TraceContext child() const;

  std::string traceparent() const;                           // of version 00
  const std::string& tracestate() const { return state_; }   // "": none
  const std::string& trace_id() const { return trace_id_; }  // 32 hexadecimal digits
  const std::string& span_id() const { return span_id_; }    // 16
  bool sampled() const { return sampled_; }

 private:
  TraceContext(std::string_view trace_id, std::string_view span_id, bool sampled, std::string_view state)
      : trace_id_(trace_id), span_id_(span_id), sampled_(sampled), state_(state) {}

  std::string trace_id_, span_id_;
  bool sampled_ = false;
  std::string state_;
};

}  // namespace troupe
