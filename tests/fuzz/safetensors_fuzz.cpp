// One safetensors file. Input: the number of data bytes, a line end, and the header; the target puts the header's
// length before it and the zeros after it, since no mutation would hit them. Or, without such a line, the file as it
// is.
#include <charconv>
#include <cstring>

#include "checkpoint/safetensors.hpp"
#include "error.hpp"
#include "fuzz_input.hpp"

namespace {

using mortise::fuzz::require;

constexpr std::size_t kMaxDataBytes = 1 << 24;

void write_file(const mortise::fuzz::ScratchFolder& folder, std::string_view input) {
  const std::size_t line_end = input.find('\n');
  std::size_t data_bytes = 0;
  const char* end = input.data() + (line_end == input.npos ? 0 : line_end);
  const auto [rest, error] = std::from_chars(input.data(), end, data_bytes);
  if (error != std::errc() || rest != end || data_bytes > kMaxDataBytes) {
    folder.write("x.safetensors", input);
    return;
  }
  const std::string_view header = input.substr(line_end + 1);
  const std::uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  folder.write("x.safetensors", bytes.append(header), data_bytes);
}

// A view lies in the file and has the bytes that its shape calls for.
void check(const mortise::TensorView& view) {
  std::uint64_t expected = view.dtype == mortise::Dtype::kOther ? 0 : mortise::dtype_size(view.dtype);
  for (const std::int64_t extent : view.shape) {
    require(extent >= 0);
    require(!__builtin_mul_overflow(expected, static_cast<std::uint64_t>(extent), &expected));
  }
  require(view.dtype == mortise::Dtype::kOther || view.bytes.size() == expected);
  if (view.bytes.empty()) return;
  require((view.bytes.front() | view.bytes.back()) != std::byte{255} || view.bytes.size() > 0);  // reads both
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const mortise::fuzz::ScratchFolder folder;
  write_file(folder, mortise::fuzz::text_of(data, size));
  try {
    const mortise::SafetensorsFile file(folder.path() / "x.safetensors");
    for (const auto& [name, view] : file.tensors()) check(view);
  } catch (const mortise::Error& error) {
    require(*error.what() != '\0');
  }
  return 0;
}
