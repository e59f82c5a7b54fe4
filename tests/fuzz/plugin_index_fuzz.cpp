// The files of a plugin index, which come from a web server. Input: one letter for the file (e entry, i index.json,
// s signature, k key), and its text. What is read can be written and read again.
#include "error.hpp"
#include "fuzz_input.hpp"
#include "plugin_index/index.hpp"
#include "plugin_index/signature.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using mortise::fuzz::require;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0]) {
      case 'e': {
        const std::string written = to_json(mortise::parse_index_entry(text)).dump();
        require(to_json(mortise::parse_index_entry(written)).dump() == written);
        break;
      }
      case 'i': {
        const auto lines = mortise::parse_index(text);
        require(to_text(mortise::parse_index(to_text(lines))) == to_text(lines));
        require(mortise::search(lines, {}).size() == lines.size());
        if (!lines.empty()) require(&mortise::find_line(lines, lines[0].parts[0].name, lines[0].version) != nullptr);
        break;
      }
      case 's': {
        const mortise::Signature signature = mortise::parse_signature(text);
        require(mortise::parse_signature(to_text(signature)).bytes == signature.bytes);
        break;
      }
      case 'k': {
        const mortise::PublicKey key = mortise::parse_public_key(text);
        require(mortise::parse_public_key(to_pem(key)) == key);
        break;
      }
    }
  } catch (const mortise::Error& error) {
    require(*error.what() != '\0');
  }
  return 0;
}
