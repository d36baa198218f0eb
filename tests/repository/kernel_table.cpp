#include "tests/repository/kernel_table.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include <troupe/graph/op_signature.hpp>

namespace troupe::repository {
namespace {

constexpr const char* kIntroduction = R"(# Ops and dtypes

<!-- Made by `cmake --build build/release --target reference`; a test compares it with the registered kernels. -->

The functions that build nodes are in [the public headers](headers.md); [below](#inputs-outputs-and-attributes) is what
each op itself takes. Images are NHWC and filters HWIO, or with their channels first where an op has `data_format`.

The columns CPU and GPU list the dtypes that an op has kernels for: values of the attribute that selects the kernel. A
node whose op has no GPU kernel runs on a CPU of the same task, unless soft placement is off
(`SessionOptions::soft_placement`). Strings are always on the host.

*floats*: f32 f64 f16 bf16; *signed*: i8 i16 i32 i64; *unsigned*: u8 u16 u32 u64; *integers*: signed unsigned; *reals*:
floats integers; *data*: reals bool; *all*: data string; *any*: the kernel looks at no element.

)";

constexpr const char* kHead = R"(
| op | CPU | GPU | only on a CPU |
|---|---|---|---|
)";

constexpr const char* kSignatures = R"(
## Inputs, outputs and attributes

`OP(inputs) -> (outputs), attributes`. Dtypes named alike (`T`) are equal; `x...` is a list. Attributes that follow from
the inputs are left out.

)";

using Types = std::set<DType>;

Types types_of(const KernelRegistry& kernels, const std::string& op, const std::string& device) {
  Types out;
  for (int d = static_cast<int>(DType::f32); d <= static_cast<int>(DType::u64); ++d)
    if (const auto dtype = static_cast<DType>(d); dtype != DType::resource && kernels.supports(op, device, dtype))
      out.insert(dtype);
  return out;
}

// "floats i32".
std::string text(const Types& types) {
  static const std::vector<std::pair<std::string, Types>> sets = [] {
    const Types floats{DType::f32, DType::f64, DType::f16, DType::bf16};
    const Types with_sign{DType::i8, DType::i16, DType::i32, DType::i64};
    const Types without_sign{DType::u8, DType::u16, DType::u32, DType::u64};
    Types integers = with_sign;
    integers.insert(without_sign.begin(), without_sign.end());
    Types reals = floats;
    reals.insert(integers.begin(), integers.end());
    Types data = reals;
    data.insert(DType::boolean);
    Types every = data;
    every.insert(DType::string);
    return std::vector<std::pair<std::string, Types>>{
        {"all", every},         {"data", data},        {"reals", reals},          {"floats", floats},
        {"integers", integers}, {"signed", with_sign}, {"unsigned", without_sign}};
  }();
  if (types.empty()) return "-";
  Types left = types;
  std::string out;
  const auto add = [&](std::string_view word) { out += (out.empty() ? "" : " ") + std::string(word); };
  for (const auto& [word, set] : sets)
    if (std::ranges::includes(left, set)) {
      add(word);
      for (DType d : set) left.erase(d);
    }
  for (DType d : left) add(name(d));
  return out;
}

}  // namespace

std::string kernel_table(const OpRegistry& ops, const KernelRegistry& kernels) {
  const auto of_any = [&](const std::string& op, const char* device) {
    return std::ranges::binary_search(kernels.list(device), op);
  };
  std::string rows, without, signatures;
  for (const std::string& op : ops.names()) {
    signatures += signature_of(ops.get(op)) + "\n";
    const Types cpu = types_of(kernels, op, "CPU"), gpu = types_of(kernels, op, "GPU");
    if (cpu.empty()) {
      without += fmt::format("{}`{}`", without.empty() ? "" : " ", op);
      continue;
    }
    Types lacking = cpu;
    for (DType d : gpu) lacking.erase(d);
    rows += fmt::format("| {} | {} | {} | {} |\n", op, of_any(op, "CPU") ? "any" : text(cpu),
                        of_any(op, "GPU") ? "any" : text(gpu), lacking.empty() ? "" : text(lacking));
  }
  return fmt::format("{}Plans handle {} ops themselves, without kernels: {}.\n{}{}{}```text\n{}```\n", kIntroduction,
                     std::ranges::count(without, ' ') + (without.empty() ? 0 : 1), without, kHead, rows, kSignatures,
                     signatures);
}

}  // namespace troupe::repository
