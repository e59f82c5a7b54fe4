// tests/unit/checkpoint/folder_test.hpp: a folder of its own for each test, removed after it; and the Error of a call.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "error.hpp"
#include "golden/write_safetensors.hpp"
#include "temp_folder.hpp"

namespace mortise::test {

class FolderTest : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    return temp_.write(name, bytes);
  }

  const TempFolder temp_;
  const std::filesystem::path& folder_ = temp_.path();
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
