#include "troupe/kernels/readers/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <tuple>

#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;  // of the reference implementation
constexpr std::uint64_t kLengthBytes = 8;
constexpr const char* kMetadata = "__metadata__";

struct StoredType {
  std::string_view text;
  DType dtype;
  std::uint64_t bits;
};
constexpr std::array kStoredTypes = {StoredType{"F64", DType::f64, 64},
                                     StoredType{"I64", DType::i64, 64},
                                     StoredType{"U64", DType::u64, 64},
                                     StoredType{"F32", DType::f32, 32},
                                     StoredType{"I32", DType::i32, 32},
                                     StoredType{"U32", DType::u32, 32},
                                     StoredType{"F16", DType::f16, 16},
                                     StoredType{"BF16", DType::bf16, 16},
                                     StoredType{"I16", DType::i16, 16},
                                     StoredType{"U16", DType::u16, 16},
                                     StoredType{"I8", DType::i8, 8},
                                     StoredType{"U8", DType::u8, 8},
                                     StoredType{"BOOL", DType::boolean, 8},
                                     StoredType{"C64", DType::invalid, 64},
                                     StoredType{"F8_E5M2", DType::invalid, 8},
                                     StoredType{"F8_E4M3", DType::invalid, 8},
                                     StoredType{"F8_E5M2FNUZ", DType::invalid, 8},
                                     StoredType{"F8_E4M3FNUZ", DType::invalid, 8},
                                     StoredType{"F8_E8M0", DType::invalid, 8},
                                     StoredType{"F6_E2M3", DType::invalid, 6},
                                     StoredType{"F6_E3M2", DType::invalid, 6},
                                     StoredType{"F4", DType::invalid, 4}};

struct SafetensorsEntry {
  TensorInfo info{};
  std::uint64_t begin = 0, end = 0;  // behind the header
};

// The header of a file, whose name is for errors.
class SafetensorsHeader {
 public:
  SafetensorsHeader(const std::string& file, std::string_view text) : file_(file) { parse(text); }

  // By place. `size`: bytes behind the header, which the tensors must cover without gaps.
  std::vector<SafetensorsEntry> entries(std::uint64_t size) const {
    std::vector<SafetensorsEntry> out;
    for (const auto& [key, value] : root_.items())
      if (key != kMetadata) out.push_back(entry(key, value));
    std::ranges::sort(out, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
      return std::tie(a.begin, a.end, a.info.name) < std::tie(b.begin, b.end, b.info.name);
    });
    std::uint64_t end = 0;
    for (const SafetensorsEntry& e : out) {
      if (e.begin != end)
        damaged("tensor '{}' begins at byte {} of the elements, expected {}", e.info.name, e.begin, end);
      end = e.end;
    }
    if (end != size) damaged("its tensors have {} bytes, but {} follow the header", end, size);
    return out;
  }

  SafetensorsMetadata metadata() const {
    SafetensorsMetadata out;
    if (!root_.contains(kMetadata)) return out;
    const json& all = root_.at(kMetadata);
    if (!all.is_object()) damaged("{} is not an object", kMetadata);
    for (const auto& [key, value] : all.items()) {
      if (!value.is_string()) damaged("'{}' in {} is not a string", key, kMetadata);
      out.emplace(key, value.get<std::string>());
    }
    return out;
  }

 private:
  template <class... Args>
  [[noreturn]] void damaged(fmt::format_string<Args...> format, Args&&... args) const {
    fail(Code::data_loss, "'{}': safetensors header: {}", file_, fmt::format(format, std::forward<Args>(args)...));
  }

  // A hostile header must not take much more memory than it has bytes: its depth is limited while it is parsed.
  void parse(std::string_view text) {
    std::array<std::set<std::string>, 4> keys;  // of the objects that are open
    const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
      const auto at = static_cast<std::size_t>(depth);
      const bool opens = event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
      if (opens && at >= 3) damaged("nested too deeply");
      if (event == json::parse_event_t::object_start) keys[at + 1].clear();
      if (event == json::parse_event_t::key && !keys[at].insert(parsed.get<std::string>()).second)
        damaged("the key '{}' comes twice", parsed.get<std::string>());
      return true;
    };
    try {
      root_ = json::parse(text, check);
    } catch (const json::exception& error) {
      damaged("not JSON: {}", error.what());
    }
    if (!root_.is_object()) damaged("not an object");
  }

  const json& field(const std::string& tensor, const json& value, const char* key) const {
    const auto found = value.find(key);
    if (found == value.end()) damaged("tensor '{}' has no '{}'", tensor, key);
    return *found;
  }
  std::vector<std::uint64_t> numbers(const std::string& tensor, const json& value, const char* key) const {
    const json& list = field(tensor, value, key);
    if (!list.is_array()) damaged("'{}' of tensor '{}' is not a list", key, tensor);
    std::vector<std::uint64_t> out;
    for (const json& number : list) {
      if (!number.is_number_unsigned() || number.get<std::uint64_t>() > INT64_MAX)
        damaged("'{}' of tensor '{}' has an element that is not an integer in [0, 2^63)", key, tensor);
      out.push_back(number.get<std::uint64_t>());
    }
    return out;
  }

  SafetensorsEntry entry(const std::string& tensor, const json& value) const {
    if (!value.is_object()) damaged("tensor '{}' is not an object", tensor);
    const json& text = field(tensor, value, "dtype");
    if (!text.is_string()) damaged("'dtype' of tensor '{}' is not a string", tensor);
    const auto type = std::ranges::find(kStoredTypes, text.get<std::string>(), &StoredType::text);
    if (type == kStoredTypes.end()) damaged("tensor '{}' has an unknown dtype '{}'", tensor, text.get<std::string>());
    const std::vector<std::uint64_t> dims = numbers(tensor, value, "shape");
    if (dims.size() > static_cast<std::size_t>(kMaxRank))
      damaged("tensor '{}' has {} dimensions, but Troupe has at most {}", tensor, dims.size(), kMaxRank);
    const std::vector<std::uint64_t> offsets = numbers(tensor, value, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1])
      damaged("'data_offsets' of tensor '{}' are not [begin, end]", tensor);
    std::uint64_t bits = type->bits;
    bool overflow = false;
    for (const std::uint64_t dim : dims) overflow |= __builtin_mul_overflow(bits, dim, &bits);
    if (overflow || bits % 8 != 0 || bits / 8 != offsets[1] - offsets[0])
      damaged("tensor '{}' {}[{}] does not fit the {} bytes of its data_offsets", tensor, type->text,
              fmt::join(dims, ","), offsets[1] - offsets[0]);
    Shape shape = Shape::unknown(static_cast<int>(dims.size()));
    for (int i = 0; i < shape.rank(); ++i)
      shape.set_dim(i, static_cast<std::int64_t>(dims[static_cast<std::size_t>(i)]));
    return {.info = {.name = tensor, .dtype = type->dtype, .shape = shape, .stored_type = std::string(type->text)},
            .begin = offsets[0],
            .end = offsets[1]};
  }

  const std::string& file_;
  json root_;
};

std::string read_safetensors_header(ReadableFile& file, const std::string& path) {
  const std::uint64_t size = file.size();
  if (size < kLengthBytes) fail(Code::data_loss, "'{}': not a safetensors file: it has {} bytes", path, size);
  std::array<std::uint8_t, kLengthBytes> bytes{};
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) length = length << 8 | bytes[i];
  if (length > kMaxSafetensorsHeader || length > size - kLengthBytes)
    fail(Code::data_loss, "'{}': not a safetensors file: a header of {} bytes does not fit a file of {} (at most {})",
         path, length, size, kMaxSafetensorsHeader);
  std::string text(length, '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  return text;
}

const StoredType& stored_type(const TensorInfo& info, const std::string& path) {
  const auto found = std::ranges::find(kStoredTypes, info.dtype, &StoredType::dtype);
  if (info.dtype == DType::invalid || found == kStoredTypes.end())
    invalid_argument("cannot write '{}': safetensors has no dtype for tensor '{}' of {}", path, info.name,
                     name(info.dtype));
  return *found;
}

// Names and text are written as JSON, which throws for what is not UTF-8.
std::string quoted_json(const std::string& text, const std::string& path) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    invalid_argument("cannot write '{}': the text '{}' is not UTF-8", path, text);
  }
}

std::tuple<bool, std::size_t, std::size_t, std::string_view> safetensors_rank(const TensorInfo& info) {
  const std::size_t bytes = checked_bytes(info.dtype, info.shape);
  return {bytes % kBufferAlignment != 0, ~size_of(info.dtype), ~bytes, info.name};
}

// Those of a multiple of 64 bytes first, then by size of elements and by bytes, the greatest first, then by name.
std::vector<std::size_t> safetensors_order(const std::vector<TensorInfo>& infos) {
  std::vector<std::size_t> order(infos.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(
      order, [&](std::size_t a, std::size_t b) { return safetensors_rank(infos[a]) < safetensors_rank(infos[b]); });
  return order;
}

std::string safetensors_header(const std::vector<TensorInfo>& infos, const std::vector<std::size_t>& order,
                               const SafetensorsMetadata& metadata, const std::string& path) {
  std::string text = "{";
  const auto comma = [&] { return text.size() > 1 ? "," : ""; };
  if (!metadata.empty()) {
    text += fmt::format("\"{}\":{{", kMetadata);
    for (const auto& [key, value] : metadata)
      text += fmt::format("{}{}:{}", text.back() == '{' ? "" : ",", quoted_json(key, path), quoted_json(value, path));
    text += "}";
  }
  std::uint64_t begin = 0;
  for (const std::size_t i : order) {
    const TensorInfo& info = infos[i];
    const std::uint64_t end = begin + checked_bytes(info.dtype, info.shape);
    text += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", comma(),
                        quoted_json(info.name, path), stored_type(info, path).text, fmt::join(info.shape.dims(), ","),
                        begin, end);
    begin = end;
  }
  text += "}";
  const std::size_t past = (kLengthBytes + text.size()) % kBufferAlignment;
  if (past != 0) text.append(kBufferAlignment - past, ' ');  // the elements are aligned
  if (text.size() > kMaxSafetensorsHeader)
    invalid_argument("cannot write '{}': the header has {} bytes; the limit is {}", path, text.size(),
                     kMaxSafetensorsHeader);
  return text;
}

}  // namespace

SafetensorsFile::SafetensorsFile(FileSystem& files, const std::string& path)
    : SafetensorsFile(files.open(path), shown_path(path)) {}

SafetensorsFile::SafetensorsFile(std::unique_ptr<ReadableFile> file, std::string path)
    : path_(std::move(path)), file_(std::move(file)) {
  const std::string text = read_safetensors_header(*file_, path_);
  const SafetensorsHeader header(path_, text);
  const std::uint64_t elements = kLengthBytes + text.size();
  for (SafetensorsEntry& entry : header.entries(file_->size() - elements)) {
    infos_.push_back(std::move(entry.info));
    begins_.push_back(elements + entry.begin);
  }
  metadata_ = header.metadata();
}

bool SafetensorsFile::map() {
  if (!mapped_) mapped_ = file_->map();
  return static_cast<bool>(mapped_);
}

Tensor SafetensorsFile::read(std::string_view name) {
  const std::size_t i = index_of(infos_, name, path_);
  const TensorInfo& info = infos_[i];
  if (info.dtype == DType::invalid)
    fail(Code::unimplemented, "'{}': tensor '{}' has dtype {}, which Troupe does not have: convert it to F16 or F32",
         path_, info.name, info.stored_type);
  const bool view = mapped_ && begins_[i] % kBufferAlignment == 0;
  Tensor tensor = view ? Tensor(info.dtype, info.shape, mapped_, begins_[i]) : Tensor(info.dtype, info.shape);
  if (!view) file_->read(begins_[i], {tensor.mutable_raw(), tensor.num_bytes()});
  check_booleans(tensor, path_, info.name);
  return tensor;
}

void write_safetensors(FileSystem& files, const std::string& path, const TensorSource& source,
                       const SafetensorsMetadata& metadata) {
  check_names(source.infos, path);
  for (const TensorInfo& info : source.infos) {
    stored_type(info, path);
    if (info.name == kMetadata) invalid_argument("cannot write '{}': a tensor must not be named {}", path, kMetadata);
  }
  const std::vector<std::size_t> order = safetensors_order(source.infos);
  const std::string text = safetensors_header(source.infos, order, metadata, path);
  const auto write = [&](WritableFile& file) {
    std::array<std::uint8_t, kLengthBytes> length{};
    for (std::size_t i = 0; i < kLengthBytes; ++i) length[i] = static_cast<std::uint8_t>(text.size() >> (8 * i));
    file.append(std::as_bytes(std::span(length)));
    file.append(std::as_bytes(std::span(text)));
    for (const std::size_t i : order) {
      const Tensor tensor = taken_from(source, i, path);
      file.append({tensor.raw(), tensor.num_bytes()});
    }
  };
  replace_file(files, path, write, temporary_suffix());
}

void write_safetensors(FileSystem& files, const std::string& path, std::span<const NamedTensor> tensors,
                       const SafetensorsMetadata& metadata) {
  write_safetensors(files, path, TensorSource::of(tensors), metadata);
}

}  // namespace troupe
