// Kernels of graph/ops/debug.cpp.
#include <cmath>
#include <limits>

#include <troupe/devices/cpu/blocked_signals.hpp>
#include <troupe/devices/program_call.hpp>
#include <troupe/graph/host_functions.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/finite.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

// Inputs [first, end) as text, cut after `summarize` elements each.
std::string data_text(const KernelContext& c, int first, std::int64_t summarize) {
  std::string text;
  const int limit = static_cast<int>(std::clamp<std::int64_t>(summarize, 0, 1'000'000));
  for (int i = first; i < c.num_inputs(); ++i) text += (i == first ? "" : "; ") + c.input(i).to_string(limit);
  return text;
}

// "f32[32,10] from -1 to 2.5", "f32[4], 1 of 4 elements NaN or infinite, the others from 0 to 1"
template <class T>
std::string range_text(const Tensor& x) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  std::int64_t bad = 0;
  for (const T& value : x.values<T>()) {
    const auto v = static_cast<double>(static_cast<Compute<T>>(value));
    bad += !std::isfinite(v);
    low = std::isfinite(v) ? std::min(low, v) : low;
    high = std::isfinite(v) ? std::max(high, v) : high;
  }
  std::string text = fmt::format("{}{}", name(x.dtype()), x.shape().to_string());
  if (bad > 0) text += fmt::format(", {} of {} elements NaN or infinite", bad, x.num_elements());
  if (bad < x.num_elements()) text += fmt::format("{} from {:.6g} to {:.6g}", bad > 0 ? ", the others" : "", low, high);
  return text;
}

std::string describe(const Tensor& x) {
  if (is_floating(x.dtype())) return dispatch(FloatTypes{}, x.dtype(), [&]<class T>() { return range_text<T>(x); });
  return x.to_string(4);
}

template <class T>
[[noreturn]] void fail_numerics(const KernelContext& c, const std::string& message) {
  const auto values = c.input(0).values<T>();
  std::size_t at = 0;
  while (std::isfinite(static_cast<Compute<T>>(values[at]))) ++at;
  const bool nan = std::isnan(static_cast<Compute<T>>(values[at]));
  std::string text = fmt::format("{}{}: element {} of {}{} is {}", message.empty() ? "a tensor" : message,
                                 c.num_inputs() > 1 ? " makes a number that is not finite" : " is not finite", at,
                                 name(c.input(0).dtype()), c.input(0).shape().to_string(),
                                 nan                                       ? "NaN"
                                 : static_cast<Compute<T>>(values[at]) > 0 ? "infinite"
                                                                           : "-infinite");
  for (int i = 1; i < c.num_inputs(); ++i) text += fmt::format("; input {}: {}", i - 1, describe(c.input(i)));
  invalid_argument("{}; in step {}", text, c.random_key().step);
}

}  // namespace

void register_debug_kernels(KernelRegistry& registry) {
  add_untyped(registry, "Assert", [](const KernelInit& init) -> Kernel {
    return [message = init.attributes.string("message"),
            summarize = init.attributes.integer("summarize")](KernelContext& c) {
      const auto values = c.input(0).values<bool>();
      if (std::ranges::all_of(values, std::identity())) return;
      const std::string data = data_text(c, 1, summarize);
      fail(Code::failed_precondition, "{}{}{}", message.empty() ? "the assertion does not hold" : message,
           data.empty() ? "" : ": ", data);
    };
  });
  add_untyped(registry, "Print", [](const KernelInit& init) -> Kernel {
    return [message = init.attributes.string("message"),
            summarize = init.attributes.integer("summarize")](KernelContext& c) {
      const std::string data = data_text(c, c.num_inputs() > 1 ? 1 : 0, summarize);
      fmt::print(stderr, "{}{}{}\n", message, message.empty() || data.empty() ? "" : " ", data);
      c.set_output(0, c.input(0));
    };
  });
  add_factories(registry, "CheckNumerics", FloatTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    return [message = init.attributes.string("message")](KernelContext& c) {
      if (!all_finite(c.parallelism(), c.input(0))) fail_numerics<T>(c, message);
      c.set_output(0, c.input(0));
    };
  });
  add_untyped(registry, "HostCall", [](const KernelInit& init) -> Kernel {
    const HostFunctionId id{init.attributes.integer("function"), init.attributes.integer("process")};
    return [&function = host_function(id),
            types = std::vector<DType>(init.output_types.begin(), init.output_types.end())](KernelContext& c) {
      std::vector<Tensor> inputs;
      for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
      std::vector<Tensor> outputs;
      {
        const ProgramCall call(c.device());
        const UsualSignals signals;
        outputs = function(inputs);
      }
      if (outputs.size() != types.size())
        invalid_argument("the function returned {} tensors, not {}", outputs.size(), types.size());
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i].dtype() != types[i])
          invalid_argument("the function returned {} as result {}, not {}", name(outputs[i].dtype()), i,
                           name(types[i]));
        c.set_output(static_cast<int>(i), std::move(outputs[i]));
      }
    };
  });
}

}  // namespace troupe
