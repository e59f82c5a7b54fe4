// runtime/checkpoint/mapped_file.hpp: a file mapped read-only and shared, so that processes serving one model share its
// pages and nothing is read before it is touched. The mapping lives as long as the object; a file that somebody
// truncates meanwhile faults on access, as with every mapping.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace mortise {

class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);  // Error when it cannot be opened or is no regular file.
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }  // page-aligned; empty for an empty file

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace mortise
