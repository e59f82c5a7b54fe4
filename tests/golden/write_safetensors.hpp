// tests/golden/write_safetensors.hpp: writes a safetensors file, for tests that need one to read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace mortise::test {

struct TensorToWrite {
  std::string name;
  std::string dtype;  // as the file spells it: "BF16"
  std::vector<std::int64_t> shape;
  std::string bytes;
};

// The bytes of a file with `header` and `data` as they are, right or wrong.
std::string safetensors_bytes(const std::string& header, const std::string& data);

// A correct file; the tensors lie in the given order, which must keep each aligned to its element.
std::string safetensors_bytes(const std::vector<TensorToWrite>& tensors);

void write_file(const std::filesystem::path& path, const std::string& bytes);
std::string read_file(const std::filesystem::path& path);

}  // namespace mortise::test
