// runtime/checkpoint/safetensors_header.hpp: parses the JSON header of a safetensors file to a list. Checks syntax and
// types only; safetensors.cpp checks the numbers. Internal to this library.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mortise {

struct HeaderEntry {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> data_offsets;  // exactly two
};

struct SafetensorsHeader {
  std::vector<HeaderEntry> entries;  // names are unique
  std::map<std::string, std::string, std::less<>> metadata;
};

// Parses the text as a stream without building a document, because a header may have 100 MB, and most defects of a
// hostile one show early.
// Errors begin with `where`, the name of the file.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::string_view where);

}  // namespace mortise
