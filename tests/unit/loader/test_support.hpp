// tests/unit/loader/test_support.hpp: what the loader's tests share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "error.hpp"
#include "temp_folder.hpp"

namespace mortise::test {

namespace fs = std::filesystem;

inline fs::path good(const std::string& name) {
  return fs::path(TEST_PLUGIN_DIR) / "good" / (name + ".so");
}
inline fs::path bad(const std::string& name) {
  return fs::path(TEST_PLUGIN_DIR) / "bad" / (name + ".so");
}

// The text of the Error that `body` throws; "" when it throws none.
inline std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline std::vector<char> read_bytes(const fs::path& path) {
  std::vector<char> bytes(fs::file_size(path));
  std::ifstream(path, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}
inline void write_bytes(const fs::path& path, const std::vector<char>& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}
inline void write_text(const fs::path& path, const std::string& text) {
  write_bytes(path, {text.begin(), text.end()});
}

}  // namespace mortise::test
