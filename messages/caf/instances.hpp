// Explicit instantiations of CAF's code for each message, compiled once in instances_*.cpp instead of in every file
// that sends one: that took a quarter to half of an actor's compile time. Include it in files that send messages; a
// missing message or include only costs compile time.
#pragma once

#include <troupe/messages/caf/protocol.hpp>

// clang-format off
#define TROUPE_STEP_MESSAGES(X)                                                                                       \
  X(AddGraph) X(Await) X(BuildPlan) X(Built) X(CallResource) X(CancelStep) X(CloseGroup) X(CloseSessionRequest)       \
  X(Contribute) X(Delivered) X(DropGraph) X(EndSession) X(EndStep) X(ExecuteSegment) X(GraphLent) X(GroupOpened)      \
  X(Landed) X(LendGraph) X(MeetAt) X(OpenGroup) X(Put) X(RegisterGraphRequest) X(Reply) X(ResetContainerRequest)      \
  X(RunStep) X(SegmentDone) X(StepFailed) X(Stop) X(Tick)

#define TROUPE_LINK_MESSAGES(X)                                                                                       \
  X(Asked) X(FrameCame) X(JobRoutes) X(JoinCluster) X(LinkLost) X(Observe) X(Outbound) X(PeerDown)                    \
  X(PeerLost) X(PeerSuspected) X(PeerUp) X(ProvenanceRequest) X(SyncObservers) X(ServeFeeds) X(EndService)            \
  X(BeginBatch) X(MakeBatch) X(BatchReady) X(AskBatch) X(DropBatch) X(EndFeed) X(MeetInput) X(GoOnFrom) X(ServingRoutes)

#define TROUPE_INBOUND_FRAMES(X)                                                                                      \
  X(Barrier) X(BarrierOpen) X(CollectivePart) X(Commit) X(EpochDone) X(Fence) X(JobFailed) X(Join) X(Joined)          \
  X(Leave) X(Pull) X(Push) X(Save) X(Saved) X(Staged) X(StepAbort) X(StepDone) X(StepStart) X(TakeToken) X(Token)     \
  X(TokenDone) X(OpenFeed) X(WantBatch) X(BatchMade) X(CloseFeed) X(ReplicaModels) X(AskModel) X(ModelAnswer)         \
  X(DropModelRequest) X(WantModels) X(ConfigureModels) X(ModelsConfigured)

#define TROUPE_MESSAGE_CLASSES(how, ...)                                                   \
  how template class caf::detail::tuple_vals_impl<caf::detail::message_data, __VA_ARGS__>; \
  how template class caf::detail::tuple_vals<__VA_ARGS__>;                                 \
  how template class caf::detail::tuple_vals_impl<caf::type_erased_tuple, __VA_ARGS__>;    \
  how template class caf::mailbox_element_vals<__VA_ARGS__>;                               \
  how template class caf::detail::type_erased_value_impl<__VA_ARGS__>;
// clang-format on

#ifndef TROUPE_INSTANCES
#define TROUPE_EXTERN(T) TROUPE_MESSAGE_CLASSES(extern, troupe::T)
#define TROUPE_EXTERN_INBOUND(T) TROUPE_MESSAGE_CLASSES(extern, troupe::Inbound<troupe::T>)
TROUPE_STEP_MESSAGES(TROUPE_EXTERN)
TROUPE_LINK_MESSAGES(TROUPE_EXTERN)
TROUPE_INBOUND_FRAMES(TROUPE_EXTERN_INBOUND)
#undef TROUPE_EXTERN
#undef TROUPE_EXTERN_INBOUND
#endif
