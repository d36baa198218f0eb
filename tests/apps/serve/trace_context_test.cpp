// The W3C's traceparent: what is read, what is ignored, what is passed on.
#include "apps/serve/trace_context.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

const std::string kCaller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

std::string changed(std::size_t at, const std::string& text) {
  return std::string(kCaller).replace(at, text.size(), text);
}

TEST(TraceContext, PartsAreRead) {
  const auto context = TraceContext::parse(kCaller, "vendor=1,other=2");
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_id(), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(context->span_id(), "b7ad6b7169203331");
  EXPECT_TRUE(context->sampled());
  EXPECT_EQ(context->tracestate(), "vendor=1,other=2");
  EXPECT_EQ(context->traceparent(), kCaller);
}

TEST(TraceContext, ChildrenHaveTheTraceAndSpansOfTheirOwn) {
  const auto context = TraceContext::parse(kCaller, "vendor=1");
  ASSERT_TRUE(context);
  const TraceContext one = context->child(), other = context->child();
  EXPECT_EQ(one.trace_id(), context->trace_id());
  EXPECT_NE(one.span_id(), context->span_id());
  EXPECT_NE(one.span_id(), other.span_id());
  EXPECT_TRUE(one.sampled());
  EXPECT_EQ(one.tracestate(), "vendor=1");
  EXPECT_TRUE(TraceContext::parse(one.traceparent())) << one.traceparent();
}

TEST(TraceContext, WhatTheStandardRefusesIsIgnored) {
  for (const std::string& bad :
       {std::string(), std::string("00"), kCaller.substr(1), kCaller.substr(0, 54), kCaller + "0", kCaller + "-00",
        changed(0, "ff"), changed(0, "0G"), changed(2, "_"), changed(35, "_"), changed(52, "_"), changed(3, "0AF7"),
        changed(36, "B7"), changed(53, "0x"), changed(53, "0A"), changed(3, std::string(32, '0')),
        changed(36, std::string(16, '0')), "01" + kCaller.substr(2) + "00"})
    EXPECT_FALSE(TraceContext::parse(bad)) << bad;
}

TEST(TraceContext, LaterVersionsAreReadAsTheFirst) {
  for (const std::string& later : {changed(0, "01"), "cc" + kCaller.substr(2) + "-more"}) {
    const auto context = TraceContext::parse(later);
    ASSERT_TRUE(context) << later;
    EXPECT_EQ(context->traceparent(), kCaller);
  }
}

TEST(TraceContext, OtherFlagsAreCleared) {
  EXPECT_EQ(TraceContext::parse(changed(53, "ff"))->traceparent(), kCaller);
  EXPECT_EQ(TraceContext::parse(changed(53, "fe"))->traceparent(), changed(53, "00"));
}

TEST(TraceContext, LongAndBrokenStatesAreDropped) {
  EXPECT_EQ(TraceContext::parse(kCaller, std::string(512, 'a'))->tracestate().size(), 512u);
  EXPECT_EQ(TraceContext::parse(kCaller, std::string(513, 'a'))->tracestate(), "");
  EXPECT_EQ(TraceContext::parse(kCaller, "a=1\r\nX: 2")->tracestate(), "");
}

}  // namespace
}  // namespace troupe
