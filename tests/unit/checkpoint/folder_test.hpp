// tests/unit/checkpoint/temp_folder.hpp: a folder of its own for each test, removed after it; and the Error of a call.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "error.hpp"
#include "golden/write_safetensors.hpp"

namespace mortise::test {

class TempFolder : public ::testing::Test {
 protected:
  TempFolder() {
    std::string name = std::filesystem::temp_directory_path() / "mortise-test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "cannot make " << name;
    folder_ = name;
  }
  ~TempFolder() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    write_file(folder_ / name, bytes);
    return folder_ / name;
  }

  std::filesystem::path folder_;
};

// The text of the Error that `call` throws, or "" when it throws none.
template <typename Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace mortise::test
