// runtime/checkpoint/safetensors.hpp: a mapped safetensors file. The file is 8 bytes with the length of the header
// (little endian), a JSON header of that length, and the bytes of the tensors, which the header describes:
//   {"NAME": {"dtype": "BF16", "shape": [64, 32], "data_offsets": [begin, end]}, ..., "__metadata__": {"k": "v"}}
// The file is not trusted: every rule of the format is checked at opening, so a view never leaves the file. An unknown
// dtype is not an error, because the model may not need that tensor. Immutable and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/storage.hpp"
#include "checkpoint/mapped_file.hpp"

namespace mortise {

enum class Dtype : std::uint8_t {
  kBool,
  kU8,
  kI8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kF16,
  kBf16,
  kF32,
  kF64,
  kF8E4M3,
  kOther
};

// Bytes of one element. REQUIRES: not kOther.
std::size_t dtype_size(Dtype dtype);

// A tensor of a mapped file: row-major, aligned to its element size, read-only. Valid as long as the file is open. In a
// GGUF file the bytes may lie otherwise.
struct TensorView {
  Dtype dtype = Dtype::kOther;
  std::string dtype_name;  // as in the file: "BF16", "F8_E4M3"
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
  // Of a GGUF file: how the bytes lie. The dtype is kOther if they are not floats; gguf/floats.hpp converts them.
  std::optional<GgufStorage> gguf = std::nullopt;
};

using TensorMap = std::map<std::string, TensorView, std::less<>>;

// An open file. Invariant: every tensor lies inside the file. Immutable and thread-safe.
class SafetensorsFile {
 public:
  // Checks the whole header, but reads no tensor. Throws an Error that names the file, the problem and the remedy.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const TensorMap& tensors() const { return tensors_; }
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  const std::optional<std::string>& identity() const { return file_.identity(); }  // see MappedFile

 private:
  MappedFile file_;
  TensorMap tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

}  // namespace mortise
