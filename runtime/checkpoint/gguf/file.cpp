#include "checkpoint/gguf/file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <utility>

#include "checkpoint/gguf/cursor.hpp"
#include "error.hpp"

namespace mortise {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are used as they lie in the file");

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint64_t kMaxKeys = 1 << 16;      // published files have about 40
constexpr std::uint64_t kMaxTensors = 1 << 18;   // the largest models have some thousands
constexpr std::uint64_t kMaxElements = 1 << 24;  // of an array; the largest vocabularies have 2^18 tokens
constexpr std::uint64_t kMaxName = 1 << 16;      // bytes of a key (the format's own limit) or of a tensor's name
constexpr std::uint32_t kMaxDimensions = 4;      // the format's own limit
constexpr std::uint64_t kMaxAlignment = 1 << 16;
constexpr std::uint64_t kUsualAlignment = 32;

using Value = decltype(GgufValue::value);

bool read_bool(GgufCursor& at) {
  const auto value = at.number<std::uint8_t>("a truth value");
  if (value > 1) at.fail_here(fmt::format("a truth value is {}; expected 0 or 1", value));
  return value == 1;
}

// Bytes of a number; 0: not a number.
std::size_t bytes_of(GgufValueType type) {
  switch (type) {
    case GgufValueType::kU8:
    case GgufValueType::kI8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kU16:
    case GgufValueType::kI16:
      return 2;
    case GgufValueType::kU32:
    case GgufValueType::kI32:
    case GgufValueType::kF32:
      return 4;
    case GgufValueType::kU64:
    case GgufValueType::kI64:
    case GgufValueType::kF64:
      return 8;
    default:
      return 0;
  }
}

// A huge count never allocates memory: all elements must be there, and a string takes eight bytes at least.
GgufArray read_array(GgufCursor& at) {
  const auto type = static_cast<GgufValueType>(at.number<std::uint32_t>("the type of an array"));
  const auto count = at.number<std::uint64_t>("the length of an array");
  const bool of_strings = type == GgufValueType::kString;
  const std::size_t element_bytes = of_strings ? sizeof(std::uint64_t) : bytes_of(type);
  if (element_bytes == 0) {
    at.fail_here(fmt::format("has elements of type {} in an array; expected numbers, truth values or strings",
                             static_cast<std::uint32_t>(type)));
  }
  if (count > kMaxElements || count > at.bytes_left() / element_bytes) {
    at.fail_here(fmt::format("is an array with {} elements; at most {} are allowed, and {} bytes are left in the file",
                             count, kMaxElements, at.bytes_left()));
  }
  if (!of_strings) return {type, at.take(count * element_bytes)};
  std::vector<std::string_view> strings;
  strings.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) strings.push_back(at.text("a string of an array", UINT64_MAX));
  return GgufArray(std::move(strings));
}

Value read_value(GgufCursor& at, GgufValueType type) {
  switch (type) {
    case GgufValueType::kU8:
      return std::uint64_t{at.number<std::uint8_t>("a number")};
    case GgufValueType::kU16:
      return std::uint64_t{at.number<std::uint16_t>("a number")};
    case GgufValueType::kU32:
      return std::uint64_t{at.number<std::uint32_t>("a number")};
    case GgufValueType::kU64:
      return at.number<std::uint64_t>("a number");
    case GgufValueType::kI8:
      return std::int64_t{at.number<std::int8_t>("a number")};
    case GgufValueType::kI16:
      return std::int64_t{at.number<std::int16_t>("a number")};
    case GgufValueType::kI32:
      return std::int64_t{at.number<std::int32_t>("a number")};
    case GgufValueType::kI64:
      return at.number<std::int64_t>("a number");
    case GgufValueType::kF32:
      return double{at.number<float>("a number")};
    case GgufValueType::kF64:
      return at.number<double>("a number");
    case GgufValueType::kBool:
      return read_bool(at);
    case GgufValueType::kString:
      return at.text("a string", UINT64_MAX);
    case GgufValueType::kArray:
      return read_array(at);
  }
  at.fail_here(fmt::format("has a value of type {}; the format has types 0 to 12", static_cast<std::uint32_t>(type)));
}

struct Counts {
  std::uint64_t tensors, keys;
};

Counts read_start(GgufCursor& at) {
  const std::string_view begin = at.peek(64);
  if (begin.starts_with("version https://git-lfs")) {
    fail("{}: is a Git LFS pointer and not the weights; run `git lfs pull` in its folder", at.where());
  }
  if (!begin.starts_with(kMagic)) {
    fail("{}: does not begin with \"GGUF\", so it is not a GGUF file; check the path, or download it again",
         at.where());
  }
  at.skip(kMagic.size());
  const auto version = at.number<std::uint32_t>("the version");
  if (version != 0 && (version & 0xffff) == 0) {
    fail(
        "{}: is a big-endian GGUF file (version {}); only little-endian files are served: convert the model again on a "
        "little-endian machine",
        at.where(), version >> 24);
  }
  if (version != 2 && version != 3) {
    fail(
        "{}: is a GGUF file of version {}; versions 2 and 3 are served: convert the model again with a current "
        "llama.cpp",
        at.where(), version);
  }
  const Counts counts{at.number<std::uint64_t>("the number of tensors"),
                      at.number<std::uint64_t>("the number of keys")};
  if (counts.tensors > kMaxTensors || counts.keys > kMaxKeys) {
    at.fail_here(fmt::format("the file has {} tensors and {} keys; at most {} and {} are allowed", counts.tensors,
                             counts.keys, kMaxTensors, kMaxKeys));
  }
  return counts;
}

std::uint64_t alignment_of(const std::map<std::string, GgufValue, std::less<>>& keys, const std::string& where) {
  const auto found = keys.find("general.alignment");
  if (found == keys.end()) return kUsualAlignment;
  const auto* number = std::get_if<std::uint64_t>(&found->second.value);
  if (number == nullptr || *number < 8 || *number > kMaxAlignment || !std::has_single_bit(*number)) {
    fail(
        "{}: key 'general.alignment' at byte {} is no power of two from 8 to {}; the file is damaged: download it "
        "again",
        where, found->second.offset, kMaxAlignment);
  }
  return *number;
}

// A tensor as its description has it.
struct Description {
  std::string name;
  GgufTensor tensor;
  std::uint64_t data_offset, size;
};

Description read_description(GgufCursor& at) {
  Description out;
  const std::uint64_t offset = at.offset();
  at.set_item("the description of a tensor", offset);
  out.name = at.text("the name of a tensor", kMaxName);
  at.set_item("tensor " + quote(out.name), offset);
  out.tensor.offset = offset;
  const auto dimensions = at.number<std::uint32_t>("the number of its dimensions");
  if (dimensions < 1 || dimensions > kMaxDimensions) {
    at.fail_here(fmt::format("has {} dimensions; expected 1 to {}", dimensions, kMaxDimensions));
  }
  std::uint64_t elements = 1;
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const auto extent = at.number<std::uint64_t>("a dimension");
    if (extent < 1 || extent > INT64_MAX || __builtin_mul_overflow(elements, extent, &elements) ||
        elements > INT64_MAX / 16) {
      at.fail_here(fmt::format("has a dimension of {}, with which it has no or too many elements", extent));
    }
    out.tensor.shape.insert(out.tensor.shape.begin(), static_cast<std::int64_t>(extent));
  }
  const auto number = at.number<std::uint32_t>("its type");
  const auto info = find_gguf_type(number);
  if (!info) {
    fail("{}: tensor {} at byte {} is of type {}, which is not served; use a file with weights of {}", at.where(),
         quote(out.name), offset, gguf_type_name(number), served_gguf_types());
  }
  out.tensor.type = info->type;
  if (out.tensor.shape.back() % info->block_elements != 0) {
    at.fail_here(fmt::format("has {} columns, but {} stores them in blocks of {}", out.tensor.shape.back(), info->name,
                             info->block_elements));
  }
  out.size = elements / info->block_elements * info->block_bytes;
  out.data_offset = at.number<std::uint64_t>("its offset");
  return out;
}

// Checks that the tensors lie in the data, one beside the other, and sets their bytes.
void place(std::vector<Description>& tensors, GgufCursor& at, std::uint64_t alignment) {
  const std::uint64_t data_begin = (at.offset() + alignment - 1) / alignment * alignment;
  const std::uint64_t file_bytes = at.bytes().size();
  const std::uint64_t data_bytes = file_bytes > data_begin ? file_bytes - data_begin : 0;
  std::ranges::sort(tensors, {}, &Description::data_offset);
  std::uint64_t end = 0;
  std::string before;
  for (Description& tensor : tensors) {
    at.set_item("tensor " + quote(tensor.name), tensor.tensor.offset);
    if (tensor.data_offset % alignment != 0) {
      at.fail_here(fmt::format("begins at byte {} of the data, which is no multiple of the alignment {}",
                               tensor.data_offset, alignment));
    }
    if (tensor.data_offset < end) {
      at.fail_here(fmt::format("begins at byte {} of the data, inside of tensor {}, which ends at {}",
                               tensor.data_offset, quote(before), end));
    }
    if (tensor.data_offset > data_bytes || tensor.size > data_bytes - tensor.data_offset) {
      fail(
          "{}: {} bytes, but tensor {} (described at byte {}) needs {} bytes from byte {} on; the file is truncated: "
          "download it again",
          at.where(), file_bytes, quote(tensor.name), tensor.tensor.offset, tensor.size,
          data_begin + tensor.data_offset);
    }
    end = tensor.data_offset + tensor.size;
    before = tensor.name;
    tensor.tensor.bytes = at.bytes().subspan(data_begin + tensor.data_offset, tensor.size);
  }
}

}  // namespace

std::size_t GgufArray::size() const {
  return of_strings() ? strings_.size() : numbers_.size() / bytes_of(type_);
}

double GgufArray::number(std::size_t i) const {
  const std::byte* const at = numbers_.data() + i * bytes_of(type_);
  const auto read = [&]<typename T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  };
  switch (type_) {
    case GgufValueType::kU8:
    case GgufValueType::kBool:
      return read(std::uint8_t{});
    case GgufValueType::kI8:
      return read(std::int8_t{});
    case GgufValueType::kU16:
      return read(std::uint16_t{});
    case GgufValueType::kI16:
      return read(std::int16_t{});
    case GgufValueType::kU32:
      return read(std::uint32_t{});
    case GgufValueType::kI32:
      return read(std::int32_t{});
    case GgufValueType::kF32:
      return read(float{});
    case GgufValueType::kU64:
      return read(std::uint64_t{});
    case GgufValueType::kI64:
      return read(std::int64_t{});
    default:
      return read(double{});
  }
}

bool GgufFile::is_one(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream stream(path, std::ios::binary);
  std::string begin(kMagic.size(), '\0');
  return stream.read(begin.data(), static_cast<std::streamsize>(begin.size())) && begin == kMagic;
}

GgufFile::GgufFile(const std::filesystem::path& path) : path_(path), file_(path) {
  GgufCursor at(file_.bytes(), path.native());
  const Counts counts = read_start(at);
  for (std::uint64_t i = 0; i < counts.keys; ++i) {
    const std::uint64_t offset = at.offset();
    at.set_item("a key", offset);
    std::string name(at.text("the name of a key", kMaxName));
    at.set_item("key " + quote(name), offset);
    const auto type = static_cast<GgufValueType>(at.number<std::uint32_t>("its type"));
    GgufValue value{offset, read_value(at, type)};
    if (!keys_.emplace(std::move(name), std::move(value)).second) at.fail_here("is there twice");
  }
  const std::uint64_t alignment = alignment_of(keys_, path.native());
  std::vector<Description> tensors;
  for (std::uint64_t i = 0; i < counts.tensors; ++i) tensors.push_back(read_description(at));
  place(tensors, at, alignment);
  for (Description& tensor : tensors) {
    at.set_item("tensor " + quote(tensor.name), tensor.tensor.offset);
    if (!tensors_.emplace(std::move(tensor.name), std::move(tensor.tensor)).second) at.fail_here("is there twice");
  }
}

}  // namespace mortise
