// runtime/checkpoint/gguf/file.hpp: a mapped GGUF file of version 2 or 3, little-endian:
//   "GGUF", version u32, number of tensors u64, number of keys u64
//   keys:     name (length u64, bytes), type u32, value; an array has the type of its elements u32 and their number u64
//   tensors:  name, number of dimensions u32, dimensions u64 each (columns first), type u32, offset u64 into the data
//   data:     from the next multiple of general.alignment (32) on; offsets are multiples of it, too
// The file is not trusted: every number is checked at opening, so that no value and no tensor leaves the file. Errors
// name the file, the key or the tensor, its place in bytes, and the remedy. Immutable and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "checkpoint/gguf/types.hpp"
#include "checkpoint/mapped_file.hpp"

namespace mortise {

// The types of values. The numbers are those of the format.
enum class GgufValueType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

// An array. Arrays of arrays are refused. Valid as long as the file.
class GgufArray {
 public:
  GgufArray() = default;
  explicit GgufArray(std::vector<std::string_view> strings)
      : type_(GgufValueType::kString), strings_(std::move(strings)) {}
  GgufArray(GgufValueType type, std::span<const std::byte> numbers) : type_(type), numbers_(numbers) {}

  bool of_strings() const { return type_ == GgufValueType::kString; }
  const std::vector<std::string_view>& strings() const { return strings_; }
  std::size_t size() const;
  // REQUIRES: !of_strings() and i < size(). Integers above 2^53 are rounded; no array that is read has such.
  double number(std::size_t i) const;

 private:
  GgufValueType type_ = GgufValueType::kString;
  std::vector<std::string_view> strings_;
  std::span<const std::byte> numbers_;  // as they lie in the file
};

// The value of a key and its place in the file. Valid as long as the file.
struct GgufValue {
  std::uint64_t offset = 0;
  std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, GgufArray> value;
};

struct GgufTensor {
  GgufType type = GgufType::kF32;
  std::vector<std::int64_t> shape;  // rows first, as everywhere else here: the file's dimensions in reverse
  std::span<const std::byte> bytes;
  std::uint64_t offset = 0;  // of the description, for messages
};

// An open file. Invariant: values and tensors lie in the file. Immutable and thread-safe.
class GgufFile {
 public:
  // Checks the whole header, but reads no tensor. Throws an Error.
  explicit GgufFile(const std::filesystem::path& path);

  // Whether the file begins as a GGUF file does. False if it cannot be read.
  static bool is_one(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, GgufValue, std::less<>>& keys() const { return keys_; }
  const std::map<std::string, GgufTensor, std::less<>>& tensors() const { return tensors_; }
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  const std::optional<std::string>& identity() const { return file_.identity(); }  // see MappedFile

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::map<std::string, GgufValue, std::less<>> keys_;
  std::map<std::string, GgufTensor, std::less<>> tensors_;
};

}  // namespace mortise
