// The messages of a call in one block of memory, which goes at once when the call has ended.
#pragma once

#include <google/protobuf/arena.h>
#include <grpcpp/support/message_allocator.h>

#include <array>
#include <cstddef>

namespace troupe {

// For Service::SetMessageAllocatorFor_...(), which does not own it.
template <class Request, class Response>
class ArenaMessages final : public grpc::MessageAllocator<Request, Response> {
 public:
  grpc::MessageHolder<Request, Response>* AllocateMessages() override { return new Messages; }

 private:
  class Messages final : public grpc::MessageHolder<Request, Response> {
   public:
    Messages() : arena_(block_.data(), block_.size()) {
      this->set_request(google::protobuf::Arena::CreateMessage<Request>(&arena_));
      this->set_response(google::protobuf::Arena::CreateMessage<Response>(&arena_));
    }
    void Release() override { delete this; }

   private:
    alignas(std::max_align_t) std::array<char, 4096> block_;
    google::protobuf::Arena arena_;
  };
};

}  // namespace troupe
