// tests/unit/loader/test_support.hpp: what the loader's tests share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "error.hpp"

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

// A folder that is empty at first and gone at the end.
class TempDir {
 public:
  TempDir() {
    std::string name = (fs::temp_directory_path() / "mortise-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~TempDir() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

inline std::vector<char> read_bytes(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}
inline void write_bytes(const fs::path& path, const std::vector<char>& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}
inline void write_text(const fs::path& path, const std::string& text) {
  write_bytes(path, {text.begin(), text.end()});
}

}  // namespace mortise::test
