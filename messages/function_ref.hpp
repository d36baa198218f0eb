// A reference to a callable: no allocation, no ownership. For parameters that are called only before the call returns.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace troupe {

template <class Signature>
class FunctionRef;

template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class Fn>
  requires(!std::is_same_v<std::remove_cvref_t<Fn>, FunctionRef> && std::is_invocable_r_v<Result, Fn&, Args...>)
      FunctionRef(Fn&& fn)  // NOLINT: implicit, as for std::function
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(fn)))),
        call_([](void* object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<Fn>*>(object))(std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

}  // namespace troupe
