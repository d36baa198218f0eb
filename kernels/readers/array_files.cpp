#include "troupe/kernels/readers/array_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include <troupe/devices/storage/file_pattern.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/kernels/readers/array_rows.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::size_t kMostArrays = 256;  // read side by side: each needs an open file and a window

using ArraySplit = std::vector<StoredArray>;

std::uint64_t rows_of(const ArraySplit& split) { return split.at(0).rows(); }

// Readers of all arrays of a split, at the same row.
class SplitRows {
 public:
  SplitRows(FileSystem& files, const ArraySplit& split) : split_(split) {
    for (const StoredArray& array : split) readers_.push_back(open_rows(files, array));
  }
  std::uint64_t row() const { return row_; }
  bool at_end() const { return row_ >= rows_of(split_); }
  void seek(std::uint64_t row) {
    if (row == row_) return;
    for (const auto& reader : readers_) reader->seek(row);
    row_ = row;
  }
  // Calls `place(i, bytes)` for where the row of array i goes, when its bytes are there.
  template <class Place>
  void read(Place&& place) {
    for (std::size_t i = 0; i < split_.size(); ++i) {
      const std::string_view bytes = readers_[i]->next();
      copy_row(split_[i], row_, bytes, place(i, bytes.size()));
    }
    end_row();
  }
  // Passes over a row.
  void skip() {
    for (const auto& reader : readers_) reader->next();
    end_row();
  }

 private:
  void end_row() {
    ++row_;
    if (at_end())
      for (const auto& reader : readers_) reader->finish();
  }

  const ArraySplit& split_;
  std::vector<std::unique_ptr<RowReader>> readers_;
  std::uint64_t row_ = 0;
};

std::vector<Tensor> read_element(SplitRows& rows, const ArraySplit& split) {
  std::vector<Tensor> element(split.size());
  rows.read([&](std::size_t i, std::size_t) {
    element[i] = Tensor(split[i].info.dtype, split[i].row_shape());
    return element[i].mutable_raw();
  });
  return element;
}

void read_to_row(SplitRows& rows, const ArraySplit& split, std::int64_t row, std::span<Tensor> out) {
  if (out.size() != split.size())
    fail(Code::internal, "a batch of {} components for rows of {} arrays", out.size(), split.size());
  rows.read([&](std::size_t i, std::size_t bytes) {
    Tensor& to = out[i];
    if (to.dtype() != split[i].info.dtype || row < 0 || to.shape().rank() == 0 || row >= to.shape()[0] ||
        to.shape().sub(1, to.shape().rank()) != split[i].row_shape())
      fail(Code::internal, "row {} of '{}' is not in {}{}", row, split[i].info.name, name(to.dtype()),
           to.shape().to_string());
    return to.mutable_raw() + static_cast<std::size_t>(row) * bytes;
  });
}

// In order: each file of arrays is a split. Positions are numbers of rows.
class ArraysInOrder final : public data::ElementSource {
 public:
  ArraysInOrder(FileSystem& files, std::vector<ArraySplit> splits) : files_(files), splits_(std::move(splits)) {}

  std::uint64_t splits() const override { return splits_.size(); }
  std::unique_ptr<data::ElementCursor> open(std::uint64_t split) const override {
    return std::make_unique<Cursor>(files_, splits_.at(split));
  }
  std::optional<std::uint64_t> size() const override {
    std::uint64_t all = 0;
    for (const ArraySplit& split : splits_) all += rows_of(split);
    return all;
  }
  std::string in_order_because() const override {
    for (const ArraySplit& split : splits_)
      for (const StoredArray& array : split)
        if (!array.in_order_because.empty()) return array.in_order_because;
    return {};
  }

 private:
  class Cursor final : public data::ElementCursor {
   public:
    Cursor(FileSystem& files, const ArraySplit& split) : split_(split), rows_(files, split) {}
    bool next(std::vector<Tensor>& element) override {
      if (rows_.at_end()) return false;
      element = read_element(rows_, split_);
      return true;
    }
    bool next_row(std::int64_t row, std::span<Tensor> out) override {
      if (rows_.at_end()) return false;
      read_to_row(rows_, split_, row, out);
      return true;
    }
    bool skip() override {
      if (rows_.at_end()) return false;
      rows_.skip();
      return true;
    }
    std::uint64_t position() const override { return rows_.row(); }
    void seek(std::uint64_t position) override {
      if (position > rows_of(split_))
        fail(Code::data_loss, "'{}': has {} rows, but must have at least {}", split_[0].what, rows_of(split_),
             position);
      rows_.seek(position);
    }

   private:
    const ArraySplit& split_;
    SplitRows rows_;
  };

  FileSystem& files_;
  const std::vector<ArraySplit> splits_;
};

// By number: first the rows of the first file, then those of the second, and so on. Readers that nobody reads from are
// kept, one for each thread that ever read at a time.
class ArraysByNumber final : public data::IndexedSource {
 public:
  ArraysByNumber(FileSystem& files, std::vector<ArraySplit> splits)
      : files_(files), splits_(std::move(splits)), free_(splits_.size()) {
    for (const ArraySplit& split : splits_) ends_.push_back(size() + rows_of(split));
  }

  std::uint64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  std::vector<Tensor> read(std::uint64_t index) const override {
    std::vector<Tensor> element;
    use(index, [&](SplitRows& rows, const ArraySplit& split) { element = read_element(rows, split); });
    return element;
  }
  void read_row(std::uint64_t index, std::int64_t row, std::span<Tensor> out) const override {
    use(index, [&](SplitRows& rows, const ArraySplit& split) { read_to_row(rows, split, row, out); });
  }

 private:
  template <class Use>
  void use(std::uint64_t index, Use&& read) const {
    const auto split = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    std::unique_ptr<SplitRows> rows = take(split);
    rows->seek(index - (split == 0 ? 0 : ends_[split - 1]));
    read(*rows, splits_[split]);
    const std::lock_guard lock(mutex_);
    free_[split].push_back(std::move(rows));
  }
  std::unique_ptr<SplitRows> take(std::size_t split) const {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.at(split).empty()) {
        std::unique_ptr<SplitRows> rows = std::move(free_[split].back());
        free_[split].pop_back();
        return rows;
      }
    }
    return std::make_unique<SplitRows>(files_, splits_[split]);
  }

  FileSystem& files_;
  const std::vector<ArraySplit> splits_;
  std::vector<std::uint64_t> ends_;
  mutable std::mutex mutex_;
  mutable std::vector<std::vector<std::unique_ptr<SplitRows>>> free_;
};

BatchSchema schema_of(const ArraySplit& split) {
  BatchSchema schema;
  for (const StoredArray& array : split) schema.push_back({array.info.name, array.info.dtype, array.row_shape()});
  return schema;
}

// "x f32[4,2], label i64[4]", cut.
std::string shapes_text(const ArraySplit& split) {
  constexpr std::size_t kShown = 20;
  std::string out;
  for (std::size_t i = 0; i < split.size() && i < kShown; ++i)
    out += fmt::format("{}{} {}{}", i == 0 ? "" : ", ", split[i].info.name, name(split[i].info.dtype),
                       split[i].info.shape.to_string());
  return split.size() > kShown ? out + ", ..." : out;
}

void check_split(const ArraySplit& split, const std::string& where) {
  if (split.empty()) fail(Code::data_loss, "'{}': has no arrays", where);
  if (split.size() > kMostArrays)
    invalid_argument("'{}': has {} arrays; at most {} are read together: pass the names of those that you want", where,
                     split.size(), kMostArrays);
  for (const StoredArray& array : split)
    if (array.rows() != split[0].rows())
      invalid_argument("'{}' has {} rows, but '{}' has {}: pass arrays with equal first dimensions, of {}", array.what,
                       array.rows(), split[0].what, split[0].rows(), shapes_text(split));
}

data::Pipeline rows_pipeline(const std::string& name, FileSystem& files, std::vector<ArraySplit> splits,
                             const data::SplitsOptions& options) {
  bool by_number = true;
  BatchSchema schema;
  for (const ArraySplit& split : splits) {
    check_split(split, name);
    const BatchSchema of_split = schema_of(split);
    if (schema.empty()) schema = of_split;
    if (of_split != schema)
      fail(Code::data_loss, "'{}': has rows {}, but those of '{}' are {}", shown_path(split[0].path),
           to_string(of_split), shown_path(splits[0][0].path), to_string(schema));
    by_number = by_number && std::ranges::all_of(split, [](const auto& a) { return a.in_order_because.empty(); });
  }
  if (by_number)
    return data::from_source(name, std::move(schema), std::make_shared<const ArraysByNumber>(files, std::move(splits)));
  return data::from_source(name, std::move(schema), std::make_shared<const ArraysInOrder>(files, std::move(splits)),
                           options);
}

FileSystem& files_of(const data::ArrayOptions& options, const std::string& path) {
  return options.files ? *options.files : file_system_of(path);
}

}  // namespace

data::Pipeline data::npy(const std::string& pattern, const ArrayOptions& options) {
  FileSystem& files = files_of(options, pattern);
  std::vector<ArraySplit> splits;
  for (const std::string& path : files_matching(files, pattern))
    splits.push_back({npy_array(files, path, options.component)});
  return rows_pipeline(fmt::format("npy {}", shown_path(pattern)), files, std::move(splits), options.splits);
}

data::Pipeline data::npz(const std::string& pattern, const ArrayOptions& options) {
  FileSystem& files = files_of(options, pattern);
  std::vector<ArraySplit> splits;
  for (const std::string& path : files_matching(files, pattern))
    splits.push_back(npz_arrays(files, path, options.arrays));
  return rows_pipeline(fmt::format("npz {}", shown_path(pattern)), files, std::move(splits), options.splits);
}

data::Pipeline data::idx(const std::vector<std::pair<std::string, std::string>>& components,
                         const ArrayOptions& options) {
  if (components.empty()) invalid_argument("idx: pass the name of a component and a path, or several");
  FileSystem& files = options.files ? *options.files : all_file_systems();
  ArraySplit split;
  std::string name = "idx";
  for (const auto& [component, path] : components) {
    split.push_back(idx_array(files, path, component));
    name += fmt::format(" {}", shown_path(path));
  }
  return rows_pipeline(name, files, {std::move(split)}, options.splits);
}

}  // namespace troupe
