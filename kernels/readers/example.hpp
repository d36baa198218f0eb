// tf.train.Example, the records of most TFRecord files: named lists of floats, integers or byte strings, in the wire
// format of protocol buffers (https://protobuf.dev/programming-guides/encoding). The messages are
//
//   Example { Features features = 1; }           Features { map<string, Feature> feature = 1; }
//   Feature { oneof { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; } }
//   BytesList { repeated bytes value = 1; }      FloatList { repeated float value = 1; }
//   Int64List { repeated int64 value = 1; }
//
// Lists may be packed or not, of two features with one name the last counts, unknown fields are passed over, and a
// feature without a list counts as missing: all as in TensorFlow. Records are untrusted: every length is checked before
// use, and memory is in proportion to the record's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/kernels/readers/record_parser.hpp>
#include <troupe/kernels/readers/tensor_file.hpp>

namespace troupe {

// How a feature becomes a component of a batch.
struct ExampleFeature {
  std::string name{};
  // f32: a list of floats. i64: of integers. string: of byte strings. u8: the bytes of one byte string.
  DType dtype = DType::f32;
  // The leading dimension may be unknown: as many as there are values.
  Shape shape{};
  // Taken where the feature is missing; of this dtype and shape. None: missing features are errors.
  Tensor otherwise{};
};

// A sparse tensor that an Example holds as lists of equal lengths: of each dimension the indices of its values, and the
// values. Becomes three components (graph/data/composite.hpp): NAME.indices i64 [n, rank], in row-major order;
// NAME.values [n]; NAME.dense_shape i64 [rank]. A tensor without values may lack the lists. Pipeline::sparse_batch()
// makes batches of them.
struct ExampleSparseFeature {
  std::string name{};
  std::vector<std::string> index_features{};  // of i64: one for each dimension
  std::string value_feature{};
  DType dtype = DType::f32;  // f32, i64 or string
  Shape shape{};             // known: indices beyond it are errors, as is the same place twice
};

class ExampleParser final : public RecordParser {
 public:
  // Throws invalid_argument for features that cannot be: two of one name, another dtype, an unknown dimension that is
  // not the leading one, a value `otherwise` that does not fit, as many index features as there are dimensions not.
  explicit ExampleParser(std::vector<ExampleFeature> features, std::vector<ExampleSparseFeature> sparse = {});

  const BatchSchema& schema() const override { return schema_; }
  // Allocates nothing, but for strings.
  void parse(std::string_view record, const RecordPlace& place, std::int64_t row, std::span<Tensor> out) const override;
  std::vector<Tensor> parse(std::string_view record, const RecordPlace& place) const override;

 private:
  template <class Each>
  void each_feature(std::string_view record, const RecordPlace& place, Each&& each) const;

  std::vector<Tensor> sparse_parts(const ExampleSparseFeature& sparse, std::span<Tensor> lists,
                                   const RecordPlace& place) const;

  // Those that are components, and behind them the lists of sparse ones.
  std::vector<ExampleFeature> features_;
  std::vector<ExampleSparseFeature> sparse_;
  std::vector<std::pair<std::string, std::size_t>> by_name_;  // sorted
  BatchSchema schema_;
};

// The bytes of an Example with these features, in this order: f32 becomes a list of floats, integers and bool one of
// integers, string one of byte strings. Throws invalid_argument for a name that comes twice, and for dtypes that no
// list keeps: f64, f16, bf16, u64.
std::string example_of(std::span<const NamedTensor> tensors);

// The features of a record, by name: f32, i64 or string; [] for one value, [n] for n, [?] for an empty list. Leaves out
// features without a name or a list. Throws data_loss.
std::vector<ExampleFeature> infer_example(std::string_view record, const RecordPlace& place);

}  // namespace troupe
