#include "troupe/scheduler/resources/resource_calls.hpp"

namespace troupe {

ResourceCalls::Answers ResourceCalls::call(const RendezvousKey& from, WaitingResource& resource, ResourceCall call) {
  const CallId id = ++last_;
  waiting_.emplace(id, Waiting{from, &resource, call.operation});
  CallAnswers answers;
  resource.call(id, std::move(call), answers);
  return matched(std::move(answers));
}

ResourceCalls::Answers ResourceCalls::end_step(SessionId session, StepId step) {
  // Of one resource all together: none of them gets what another one leaves.
  std::map<WaitingResource*, std::vector<CallId>> dropped;
  std::erase_if(waiting_, [&](const auto& entry) {
    const auto& [id, waiting] = entry;
    if (waiting.from.session != session || waiting.from.step != step) return false;
    dropped[waiting.resource].push_back(id);
    return true;
  });
  CallAnswers answers;
  for (const auto& [resource, calls] : dropped) resource->drop(calls, answers);
  return matched(std::move(answers));
}

ResourceCalls::Answers ResourceCalls::matched(CallAnswers answers) {
  Answers out;
  for (CallAnswer& answer : answers)
    if (const auto waiting = waiting_.extract(answer.call))
      out.push_back({waiting.mapped().from, std::move(answer.values), std::move(answer.error)});
  return out;
}

std::string ResourceCalls::describe(const RendezvousKey& from) const {
  for (const auto& [id, waiting] : waiting_)
    if (waiting.from == from)
      return fmt::format("{} of '{}', a {}: {}", name(waiting.operation), waiting.resource->name(),
                         waiting.resource->declaration(), waiting.resource->describe());
  return "";
}

}  // namespace troupe
