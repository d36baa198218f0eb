// Cases of gradient_test.cpp.
#include "tests/kernels/gradient_cases.hpp"

namespace troupe::testing {

std::vector<GradientCase> signal_gradients() {
  const auto transformed = [](DftOptions options, std::int64_t length = 0) {
    return of([=](auto& x) mutable {
      if (length > 0) options.length = constant<std::int64_t>(*x[0].graph, length);
      return square(dft(x[0], options));
    });
  };
  return {
      {.name = "DftReal", .shapes = {{2, 5, 1}}, .build = transformed({})},
      {.name = "DftComplexInverse", .shapes = {{3, 2, 2}}, .build = transformed({.axis = 0, .inverse = true})},
      {.name = "DftOnesided", .shapes = {{1, 6, 1}}, .build = transformed({.onesided = true})},
      {.name = "DftPadded", .shapes = {{1, 3, 2}}, .build = transformed({.axis = -2}, 5)},
      {.name = "DftCut", .shapes = {{1, 6, 1}}, .build = transformed({.onesided = true}, 4)},
      {.name = "DftRealInverse",
       .shapes = {{2, 3, 2, 2}},
       .build = transformed({.axis = 1, .inverse = true, .onesided = true})},
      {.name = "DftRealInverseOdd",
       .shapes = {{2, 3, 2}},
       .build = transformed({.inverse = true, .onesided = true}, 5)},
      {.name = "DftRealInversePadded",
       .shapes = {{1, 2, 2}},
       .build = transformed({.axis = -2, .inverse = true, .onesided = true}, 7)},
      {.name = "DftRealInverseCut",
       .shapes = {{1, 5, 2}},
       .build = transformed({.inverse = true, .onesided = true}, 4)},
      {.name = "DftOfImages", .shapes = {{3, 4}}, .build = of([](auto& x) {
                                                    const Output power = square(rfftn(x[0]));
                                                    return irfftn(power, {-2, -1});
                                                  })},
      {.name = "DftOfLateRank", .shapes = {{2, 5, 1}}, .build = of([](auto& x) {
                                                         const Output length = constant<std::int64_t>(*x[0].graph, 4);
                                                         return square(dft(of_late_rank(x[0]), {.length = length}));
                                                       })},
      {.name = "Stft", .shapes = {{2, 9, 1}, {4}}, .build = of([](auto& x) {
                                                     return square(stft(x[0], constant<std::int64_t>(*x[0].graph, 2),
                                                                        {.window = x[1]}));
                                                   })},
      {.name = "FrameGrad",
       .shapes = {{1, 3, 4, 1}, {1, 9, 1}},
       .build = of([](auto& x) {
         return square(add_op("FrameGrad", {x[0], x[1], constant<std::int64_t>(*x[0].graph, 2)}));
       })}};
}

}  // namespace troupe::testing
