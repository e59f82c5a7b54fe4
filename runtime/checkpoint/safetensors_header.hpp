// runtime/checkpoint/safetensors_header.hpp: the JSON header of a safetensors file -> a list. Syntax and types only;
// what the numbers mean for the file is safetensors.cpp's to check. Internal to this library.
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

// Streams through the text without building a document: a header may have 100 MB, and most of what is wrong with a
// hostile one shows early. `where` begins each Error: the file's name.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::string_view where);

}  // namespace mortise
