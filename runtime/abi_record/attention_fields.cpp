#include "abi_record/attention_fields.hpp"

#include <algorithm>

#include "mortise/plugin.hpp"

namespace mortise::abi_record {

nlohmann::json bytes_text(std::span<const std::byte> bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    const auto value = std::to_integer<unsigned>(byte);
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

std::vector<std::byte> read_bytes(const nlohmann::json& json, const char* name, std::uint64_t size) {
  const nlohmann::json& value = member(json, name);
  const std::string* const text = value.is_string() ? value.get_ptr<const std::string*>() : nullptr;
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (text == nullptr || text->size() % 2 != 0 || text->size() / 2 != size || !std::ranges::all_of(*text, is_digit)) {
    fail("'{}' is not a text of {} bytes in hexadecimal digits", name, size);
  }
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  std::vector<std::byte> bytes(text->size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(digit((*text)[2 * i]) << 4 | digit((*text)[2 * i + 1]));
  }
  return bytes;
}

std::vector<std::byte> dense_bytes(const mortise_tensor& tensor) {
  const std::int64_t element = dtype_bytes(tensor.dtype);
  const auto* const data = static_cast<const std::byte*>(tensor.data);
  std::vector<std::byte> bytes;
  const std::int64_t* const shape = tensor.shape;
  const std::int64_t* const stride = tensor.stride;
  for (std::int64_t a = 0; a < shape[0]; ++a) {
    for (std::int64_t b = 0; b < shape[1]; ++b) {
      for (std::int64_t c = 0; c < shape[2]; ++c) {
        const std::byte* const from = data + (a * stride[0] + b * stride[1] + c * stride[2]) * element;
        bytes.insert(bytes.end(), from, from + element);
      }
    }
  }
  return bytes;
}

}  // namespace mortise::abi_record
