#include "troupe/actors/training/hook.hpp"

#include <iterator>

namespace troupe {

HookRun::HookRun(const Hooks& hooks, const std::function<Output(const std::string&)>& output) : hooks_(hooks) {
  for (const auto& hook : hooks) {
    if (!hook) invalid_argument("a hook is null");
    for (const std::string& name : hook->feeds()) feeds_.push_back(output(name));
    for (const std::string& name : hook->fetches()) fetches_.push_back(output(name));
    feeds_of_.push_back(hook->feeds().size());
    fetches_of_.push_back(hook->fetches().size());
  }
}

void HookRun::begin(const Graph& graph) {
  for (const auto& hook : hooks_) hook->begin(graph);
}

void HookRun::before_step(const HookStep& at, std::vector<Tensor>& feeds) {
  for (std::size_t i = 0; i < hooks_.size(); ++i) {
    std::vector<Tensor> own = hooks_[i]->before_step(at);
    if (own.size() != feeds_of_[i])
      invalid_argument("a hook gave {} tensors to feed, but has {} feeds", own.size(), feeds_of_[i]);
    std::move(own.begin(), own.end(), std::back_inserter(feeds));
  }
}

void HookRun::after_step(const HookStep& at, std::vector<Tensor>& fetched) {
  auto from = fetched.end() - static_cast<std::ptrdiff_t>(fetches_.size());
  const auto begin = from;
  for (std::size_t i = 0; i < hooks_.size(); ++i) {
    const auto to = from + static_cast<std::ptrdiff_t>(fetches_of_[i]);
    hooks_[i]->after_step(at, {from, to});
    from = to;
  }
  fetched.erase(begin, fetched.end());
}

void HookRun::end() {
  for (const auto& hook : hooks_) hook->end();
}

void HookRun::error(const Error& why) {
  for (const auto& hook : hooks_) hook->error(why);
}

}  // namespace troupe
