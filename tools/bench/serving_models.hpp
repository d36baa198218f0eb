// Models that cases of serving serve, with one request for each and its answer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/model/saved_model.hpp>
#include <troupe/graph/layers/network.hpp>

namespace troupe::bench {

// A function "y" of "x" of any number of rows; y is what this process computes for x.
struct ServedExample {
  SavedModel model;
  Tensor x, y;
};
// Layers with initial values. x has one row.
ServedExample example_of(const Sequential& layers, const Tensor& x);
// A product with a matrix of so many rows and columns.
ServedExample square_matrix(std::int64_t size);
// Of each row x [4]: y [4] is x times the version plus the version, and "version" is the version. Two weights and a
// constant: an answer made of two versions shows.
SavedModel model_of_version(std::int64_t version);

// The body of a predict request of REST in row form, with 6 digits behind the point.
std::string rest_body(const Tensor& x);
// What is wrong with an answer for ServedExample::x; "": nothing. Results may differ in rounding.
std::string wrong_rest_answer(std::string_view body, const Tensor& y);
// What is wrong with an answer of a model_of_version() for x: it must be of one version in [first, last].
std::string wrong_version_answer(std::string_view body, const Tensor& x, std::int64_t first, std::int64_t last);

// The same request as a message of gRPC, for this model.
std::string grpc_request(const std::string& model, const Tensor& x);
std::string wrong_grpc_answer(std::string_view message, const Tensor& y);

// Checks each different answer once: batches of other sizes may round otherwise, but the same bytes need no second
// look.
class KnownAnswers {
 public:
  using Check = std::function<std::string(std::string_view answer)>;
  explicit KnownAnswers(Check check) : check_(std::move(check)) {}
  std::string wrong(std::string_view answer);

 private:
  const Check check_;
  std::vector<std::string> right_;
};

}  // namespace troupe::bench
