#include "troupe/actors/eager/function.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>

#include <troupe/actors/eager/function_trace.hpp>
#include <troupe/actors/eager/traced_call.hpp>
#include <troupe/devices/program_call.hpp>
#include <troupe/graph/control_flow.hpp>
#include <troupe/graph/op_runner.hpp>

namespace troupe {
namespace {

constexpr std::uint64_t kFirstWarning = 5;  // traces

struct CallSignature {
  std::vector<TracedArgument> arguments;
  std::string key;
  std::string device;  // that ops ask for by default

  bool takes(const Outputs& inputs, std::string_view with, const std::string& on) const {
    return key == with && device == on &&
           std::ranges::equal(inputs, arguments, [](const Output& x, const TracedArgument& argument) {
             return x.dtype() == argument.dtype && argument.shape.compatible_with(x.shape());
           });
  }
  // "(f32[32,10], i32[32])".
  std::string to_string() const {
    std::string text = "(";
    for (const TracedArgument& a : arguments)
      text += fmt::format("{}{}{}", text.size() == 1 ? "" : ", ", name(a.dtype), a.shape.to_string());
    text += ")";
    if (!key.empty()) text += fmt::format(" with key '{}'", key);
    return text + " on " + device;
  }
};

// Whether they differ in sizes of dimensions only.
bool differ_in_sizes(const CallSignature& a, const CallSignature& b) {
  return a.key == b.key && a.device == b.device &&
         std::ranges::equal(a.arguments, b.arguments, [](const TracedArgument& x, const TracedArgument& y) {
           return x.dtype == y.dtype && x.shape.has_rank() && y.shape.has_rank() && x.shape.rank() == y.shape.rank();
         });
}

// Why `now` needs another trace than `before`.
std::string difference(const CallSignature& before, const CallSignature& now) {
  if (before.key != now.key) return fmt::format("its key is '{}', and was '{}'", now.key, before.key);
  if (before.device != now.device) return fmt::format("it is on {}, and was on {}", now.device, before.device);
  if (before.arguments.size() != now.arguments.size())
    return fmt::format("it has {} arguments, and had {}", now.arguments.size(), before.arguments.size());
  for (std::size_t i = 0; i < now.arguments.size(); ++i) {
    const TracedArgument &x = now.arguments[i], &y = before.arguments[i];
    if (x == y) continue;
    return fmt::format("argument {} is {}{}, and was {}{}{}", i, name(x.dtype), x.shape.to_string(), name(y.dtype),
                       y.shape.to_string(), x.dtype == y.dtype ? ": with relax_shapes one trace serves all sizes" : "");
  }
  return "the trace that it had was dropped: most_traces is too small";
}

}  // namespace

class TracedFunction::Impl {
 public:
  Impl(Eager& eager, Body body, FunctionOptions options)
      : eager_(eager), body_(std::move(body)), options_(std::move(options)) {
    if (options_.most_traces == 0) invalid_argument("function '{}': most_traces must be at least 1", options_.name);
  }

  FormedBody body() const {
    if (!body_) fail(Code::failed_precondition, "function '{}' has no body", options_.name);
    return [this](const Outputs& in) { return Formed{body_(in), nullptr}; };
  }

  Formed call(const Outputs& inputs, std::string_view key, const FormedBody& body, const std::vector<int>& open_rows) {
    // A step would wait for the kernel that calls this.
    if (runs_inside(inputs) || ProgramCall::any()) return body(inputs);
    const std::shared_ptr<const Kept> kept = find_or_trace(inputs, key, body, open_rows);
    TracedCall* const traced = kept->call.get();
    std::vector<bool> wanted;
    if (OpRecorder::any()) {
      int recorders = 0;
      const Outputs sources = traced->sources(inputs);
      OpRecorder::tell_all([&](OpRecorder& recorder) {
        std::vector<bool> wants;
        for (const Output& x : sources) wants.push_back(recorder.wants(x));
        if (std::ranges::find(wants, true) == wants.end()) return;
        ++recorders;
        wanted = std::move(wants);
      });
      if (recorders > 1) return body(inputs);  // gradients of gradients need its ops
    }
    try {
      return {traced->run(inputs, wanted), kept->form};
    } catch (const Error& error) {
      throw error.within(fmt::format("function '{}'", options_.name));
    }
  }

  std::string explain(const Outputs& inputs, std::string_view key, const FormedBody& body,
                      const std::vector<int>& open_rows) {
    const std::shared_ptr<const Kept> found = find_or_trace(inputs, key, body, open_rows);
    const std::shared_lock lock(mutex_);
    std::string text = fmt::format("function '{}': traced {} times\n", options_.name, traced_);
    for (const auto& kept : kept_)
      text +=
          fmt::format("{} {}: {} nodes\n", kept == found ? "*" : " ", kept->signature.to_string(), kept->call->nodes());
    return text + found->call->explain();
  }

  std::uint64_t traces() const {
    const std::shared_lock lock(mutex_);
    return traced_;
  }

 private:
  struct Kept {
    CallSignature signature;
    std::shared_ptr<const void> form;
    std::unique_ptr<TracedCall> call;
    mutable std::atomic<std::uint64_t> used{0};
  };

  // Whether it is a part of what is being built.
  bool runs_inside(const Outputs& inputs) const {
    if (FunctionTrace::receiving(eager_.graph())) return true;
    bool inside = false;
    for (const Output& x : inputs) {
      if (!x.valid()) invalid_argument("function '{}': an argument is not a tensor", options_.name);
      if (!x.eager) {
        inside = true;
        continue;
      }
      if (x.graph != &eager_.graph())
        invalid_argument("function '{}': an argument belongs to another Eager", options_.name);
      if (x.dtype() == DType::resource)
        invalid_argument("function '{}': variables are not arguments: the function uses them as they are",
                         options_.name);
    }
    return inside;
  }

  const std::string& device() const {
    const std::string& wanted = eager_.graph().current_device();
    return wanted.empty() ? eager_.default_device() : wanted;
  }

  std::shared_ptr<const Kept> find(const Outputs& inputs, std::string_view key, const std::string& on) {
    const std::shared_lock lock(mutex_);
    for (const auto& kept : kept_)
      if (kept->signature.takes(inputs, key, on)) {
        kept->used.store(clock_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
        return kept;
      }
    return nullptr;
  }

  std::shared_ptr<const Kept> find_or_trace(const Outputs& inputs, std::string_view key, const FormedBody& body,
                                            const std::vector<int>& open_rows) {
    const std::string& on = device();
    if (auto found = find(inputs, key, on)) return found;
    const std::lock_guard tracing(tracing_);
    if (auto found = find(inputs, key, on)) return found;  // another thread has traced it
    CallSignature signature{.arguments = {}, .key = std::string(key), .device = on};
    for (const Output& x : inputs) signature.arguments.push_back({x.dtype(), x.shape()});
    for (const int i : open_rows)
      if (Shape& shape = signature.arguments[static_cast<std::size_t>(i)].shape; shape.rank() > 0)
        shape.set_dim(0, kUnknown);
    std::optional<std::string> warning;
    std::shared_ptr<Kept> replaced;
    {
      const std::shared_lock lock(mutex_);
      if (latest_ && traced_ + 1 >= next_warning_) {
        next_warning_ *= 2;
        warning = fmt::format("function '{}' is traced for the {}th time, which costs more than running it: {}",
                              options_.name, traced_ + 1, difference(*latest_, signature));
      }
      if (options_.relax_shapes)
        for (const auto& kept : kept_)
          if (!replaced && differ_in_sizes(kept->signature, signature)) replaced = kept;
    }
    if (replaced)
      for (std::size_t i = 0; i < signature.arguments.size(); ++i)
        signature.arguments[i].shape =
            common_shape(signature.arguments[i].shape, replaced->signature.arguments[i].shape);
    if (warning) warn(*warning);
    auto made = std::make_shared<Kept>();
    made->signature = signature;
    try {
      made->call = std::make_unique<TracedCall>(
          eager_, std::make_unique<FunctionTrace>(eager_.graph(), signature.arguments, on, [&](const Outputs& in) {
            Formed formed = body(in);
            made->form = std::move(formed.form);
            return std::move(formed.results);
          }));
    } catch (const Error& error) {
      throw error.within(fmt::format("function '{}'", options_.name));
    }
    keep(made, replaced);
    return made;
  }

  void keep(const std::shared_ptr<Kept>& made, const std::shared_ptr<Kept>& instead_of) {
    std::vector<std::shared_ptr<Kept>> dropped;  // ended without the lock: a session closes
    const std::unique_lock lock(mutex_);
    made->used = clock_++;
    ++traced_;
    latest_ = made->signature;
    if (instead_of) {
      dropped.push_back(instead_of);
      std::erase(kept_, instead_of);
    }
    if (kept_.size() == options_.most_traces) {
      const auto oldest = std::ranges::min_element(kept_, {}, [](const auto& kept) { return kept->used.load(); });
      dropped.push_back(*oldest);
      kept_.erase(oldest);
    }
    kept_.push_back(made);
  }

  void warn(const std::string& text) const {
    if (options_.on_warning)
      options_.on_warning(text);
    else
      fmt::print(stderr, "warning: {}\n", text);
  }

  Eager& eager_;
  const Body body_;
  const FunctionOptions options_;
  std::mutex tracing_;  // held while the body is traced
  std::uint64_t next_warning_ = kFirstWarning;
  mutable std::shared_mutex mutex_;  // guards what follows
  std::vector<std::shared_ptr<Kept>> kept_;
  std::optional<CallSignature> latest_;
  std::uint64_t traced_ = 0;
  std::atomic<std::uint64_t> clock_{0};
};

TracedFunction::TracedFunction(Eager& eager, Body body, FunctionOptions options)
    : impl_(std::make_unique<Impl>(eager, std::move(body), std::move(options))) {
  impl_->body();  // there is one
}
TracedFunction::TracedFunction(Eager& eager, FunctionOptions options)
    : impl_(std::make_unique<Impl>(eager, Body(), std::move(options))) {}
TracedFunction::~TracedFunction() = default;
Outputs TracedFunction::operator()(const Outputs& inputs, std::string_view key) {
  return impl_->call(inputs, key, impl_->body(), {}).results;
}
TracedFunction::Formed TracedFunction::call(const Outputs& inputs, std::string_view key, const FormedBody& body,
                                            const std::vector<int>& open_rows) {
  return impl_->call(inputs, key, body, open_rows);
}
std::uint64_t TracedFunction::traces() const { return impl_->traces(); }
std::string TracedFunction::explain(const Outputs& inputs, std::string_view key) {
  return impl_->explain(inputs, key, impl_->body(), {});
}
std::string TracedFunction::explain(const Outputs& inputs, std::string_view key, const FormedBody& body,
                                    const std::vector<int>& open_rows) {
  return impl_->explain(inputs, key, body, open_rows);
}

std::shared_ptr<const Graph> traced_graph() { return FunctionTrace::graph_of_thread(); }

}  // namespace troupe
