// runtime/checkpoint/mapped_file.hpp: a file mapped read-only and shared, so that processes serving one model share its
// pages and nothing is read before it is touched. The mapping lives as long as the object; a file that somebody
// truncates meanwhile faults on access, as with every mapping.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace mortise {

class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);  // Error when it cannot be opened or is no regular file.
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }  // page-aligned; empty for an empty file

  // Device, inode, size and times (see Checkpoint::identity) when it was opened; nullopt when the file was changed less
  // than a tenth of a second before.
  const std::optional<std::string>& identity() const { return identity_; }

 private:
  std::span<const std::byte> bytes_;
  std::optional<std::string> identity_;
};

}  // namespace mortise
