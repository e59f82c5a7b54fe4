// tests/temp_folder.hpp: a folder of a test's own, for every test that needs files. ctest runs the cases of one program
// beside one another, and others may run the same program: a name that is chosen here would sooner or later be shared.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace mortise::test {

class TempFolder {
 public:
  explicit TempFolder(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = parent / "mortise-test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "mkdtemp " + name);
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Writes a file in the folder and returns its path.
  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    std::ofstream stream(path_ / name, std::ios::binary);
    if (!(stream << bytes).flush()) throw std::system_error(errno, std::generic_category(), "write " + name);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace mortise::test
