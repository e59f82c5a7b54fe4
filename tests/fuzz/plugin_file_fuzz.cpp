// The bytes of a plugin file, as they are checked before dlopen. Nothing of the input is ever loaded.
#include "error.hpp"
#include "fuzz_input.hpp"
#include "loader/elf_file.hpp"
#include "loader/module_manifest.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using mortise::fuzz::require;
  try {
    const mortise::ElfExports exports = mortise::read_elf_exports({reinterpret_cast<const char*>(data), size});
    require(exports.unique.size() <= exports.symbols.size());
    mortise::read_module_manifest({reinterpret_cast<const char*>(data), size});
    require(mortise::read_elf_properties({reinterpret_cast<const char*>(data), size}).libraries.size() <= 1000);
  } catch (const mortise::Error& error) {
    require(*error.what() != '\0');
  }
  return 0;
}
