#include "checkpoint/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>

#include "checkpoint/json_file.hpp"
#include "checkpoint/safetensors_header.hpp"
#include "error.hpp"

namespace mortise {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are used as they lie in the file");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;        // the format's own limit
constexpr std::uint64_t kMaxOffset = std::uint64_t{1} << 62;  // sums with it do not overflow
constexpr const char* kRemedy = "the file is damaged: download it again";

struct DtypeInfo {
  std::string_view name;
  Dtype dtype;
  std::size_t size;
};
constexpr DtypeInfo kDtypes[] = {
    {"BOOL", Dtype::kBool, 1}, {"U8", Dtype::kU8, 1},          {"I8", Dtype::kI8, 1},     {"I16", Dtype::kI16, 2},
    {"U16", Dtype::kU16, 2},   {"I32", Dtype::kI32, 4},        {"U32", Dtype::kU32, 4},   {"I64", Dtype::kI64, 8},
    {"U64", Dtype::kU64, 8},   {"F16", Dtype::kF16, 2},        {"BF16", Dtype::kBf16, 2}, {"F32", Dtype::kF32, 4},
    {"F64", Dtype::kF64, 8},   {"F8_E4M3", Dtype::kF8E4M3, 1},
};

Dtype dtype_of(std::string_view name) {
  const auto* found = std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](auto& d) { return d.name == name; });
  return found == std::end(kDtypes) ? Dtype::kOther : found->dtype;
}

// The text of the header. Throws an Error that distinguishes the usual defects.
std::string_view header_text(std::span<const std::byte> file, const std::string& where) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("version https://git-lfs")) {
    fail("{}: is a Git LFS pointer and not the weights; run `git lfs pull` in its folder", where);
  }
  if (file.size() < kLengthBytes) {
    fail("{}: {} bytes, but a safetensors file has at least {}; download it again", where, file.size(), kLengthBytes);
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kMaxHeaderBytes) {
    fail("{}: is not a safetensors file (its header would have {} bytes, the limit is {})", where, length,
         kMaxHeaderBytes);
  }
  if (length > file.size() - kLengthBytes) {
    fail("{}: {} bytes, but the header ends at byte {}; the file is truncated: download it again", where, file.size(),
         kLengthBytes + length);
  }
  return text.substr(kLengthBytes, length);
}

// The number of bytes that follows from shape and dtype; for a dtype of unknown size, from the offsets.
std::uint64_t expected_bytes(const HeaderEntry& entry, Dtype dtype, const std::string& where) {
  std::uint64_t count = dtype == Dtype::kOther ? 1 : dtype_size(dtype);
  for (const std::uint64_t extent : entry.shape) {
    if (extent > std::numeric_limits<std::int64_t>::max() || __builtin_mul_overflow(count, extent, &count)) {
      fail("{}: the shape of tensor {} has more elements than 64 bits can count; {}", where, quote(entry.name),
           kRemedy);
    }
  }
  return dtype == Dtype::kOther ? entry.data_offsets[1] - entry.data_offsets[0] : count;
}

// Checks that the tensors cover the data to the last byte without gap or overlap, in any order.
void check_layout(std::vector<HeaderEntry>& entries, std::uint64_t data_begin, std::uint64_t file_bytes,
                  const std::string& where) {
  std::sort(entries.begin(), entries.end(),
            [](const HeaderEntry& a, const HeaderEntry& b) { return a.data_offsets < b.data_offsets; });
  const std::uint64_t data_bytes = file_bytes - data_begin;
  std::uint64_t expected_begin = 0;
  for (const HeaderEntry& entry : entries) {
    const std::uint64_t begin = entry.data_offsets[0], end = entry.data_offsets[1];
    if (begin > end || end > kMaxOffset) {
      fail("{}: tensor {} claims bytes {} to {} of the data, which is impossible; {}", where, quote(entry.name), begin,
           end, kRemedy);
    }
    if (begin != expected_begin) {
      fail("{}: tensor {} begins at byte {} of the data, {} the end of the one before it at {}; {}", where,
           quote(entry.name), begin, begin < expected_begin ? "before" : "after", expected_begin, kRemedy);
    }
    expected_begin = end;
  }
  if (expected_begin > data_bytes) {  // reported for the last tensor, whose end is the size that the file should have
    fail("{}: {} bytes, but tensor {} ends at byte {}; the file is truncated: download it again", where, file_bytes,
         quote(entries.back().name), data_begin + expected_begin);
  }
  if (expected_begin < data_bytes) {
    fail("{}: {} bytes, but the last tensor ends at byte {}; {}", where, file_bytes, data_begin + expected_begin,
         kRemedy);
  }
}

TensorView view_of(HeaderEntry& entry, std::span<const std::byte> data, const std::string& where) {
  const Dtype dtype = dtype_of(entry.dtype);
  const auto bytes = data.subspan(entry.data_offsets[0], entry.data_offsets[1] - entry.data_offsets[0]);
  const std::uint64_t expected = expected_bytes(entry, dtype, where);
  if (bytes.size() != expected) {
    fail("{}: tensor {} takes {} bytes, but its shape and dtype {} call for {}; {}", where, quote(entry.name),
         bytes.size(), quote(entry.dtype), expected, kRemedy);
  }
  if (dtype != Dtype::kOther && reinterpret_cast<std::uintptr_t>(bytes.data()) % dtype_size(dtype) != 0) {
    fail(
        "{}: tensor {} does not begin at a multiple of its element size, {} bytes; load the file and save it again "
        "with safetensors 0.3 or later, which aligns tensors",
        where, quote(entry.name), dtype_size(dtype));
  }
  return {.dtype = dtype,
          .dtype_name = std::move(entry.dtype),
          .shape = {entry.shape.begin(), entry.shape.end()},
          .bytes = bytes};
}

}  // namespace

std::size_t dtype_size(Dtype dtype) {
  assert(dtype != Dtype::kOther);
  return std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](auto& d) { return d.dtype == dtype; })->size;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  const std::string& where = path.native();
  const std::string_view text = header_text(file_.bytes(), where);
  SafetensorsHeader header = parse_safetensors_header(text, where);
  metadata_ = std::move(header.metadata);
  const auto data = file_.bytes().subspan(kLengthBytes + text.size());
  check_layout(header.entries, kLengthBytes + text.size(), file_.bytes().size(), where);
  for (HeaderEntry& entry : header.entries) {
    TensorView view = view_of(entry, data, where);
    tensors_.emplace(std::move(entry.name), std::move(view));
  }
}

}  // namespace mortise
