// runtime/checkpoint/mapped_file.hpp: a file mapped read-only and shared, so that processes with one model share its
// pages, and nothing is read before it is used. The mapping lives as long as the object. If the file is truncated
// meanwhile, an access raises a signal, as with every mapping.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace mortise {

// Owns one mapping. Immutable and thread-safe. Invariant: bytes_ is the whole file, or empty.
class MappedFile {
 public:
  // Throws an Error if it cannot be opened or is not a regular file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }  // page-aligned; empty for an empty file

  // Device, inode, size and times at opening (see Checkpoint::identity). nullopt if the file was changed less than a
  // tenth of a second earlier.
  const std::optional<std::string>& identity() const { return identity_; }

 private:
  std::span<const std::byte> bytes_;
  std::optional<std::string> identity_;
};

}  // namespace mortise
