// plugins/devices/cpu/packed_file.hpp: prepared weights in a file, in the same form as in memory. Little endian:
//   head       FileHead, then per weight: u32 length of its key, the key, u64 offset, u64 bytes; then a u64 hash (XXH3)
//              of each MiB of the data; padded with zeros to a multiple of 4096. At most 64 MiB.
//   data       the weights one after the other, each a multiple of 64 bytes
// FileHead has a hash of the whole head, and the head has the hashes of the data, so every byte is covered. All hashes
// are checked, on all threads, when the file is opened. This finds damage, not forgery: whoever can write the file can
// change the weights, as in the checkpoint beside it. But no offset or size in the file is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devices/cpu/thread_pool.hpp"

namespace mortise::cpu {

// Owns a mapping of memory. Invariant: bytes_ is mapped, or empty. Used by one thread.
class Mapping {
 public:
  explicit Mapping(std::span<const std::byte> bytes) : bytes_(bytes) {}
  ~Mapping();
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&&) = delete;
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// An open file whose bytes are all checked. Invariant: each span of weights_ lies inside the mapping. Immutable and
// thread-safe after open().
class PackedFile {
 public:
  // Opens, maps and checks the file. Returns null if there is no file. Throws a Failure that says what is wrong and
  // where. `identity` describes the source of the weights and how they were prepared; a file with another identity is
  // an error, too.
  static std::shared_ptr<const PackedFile> open(const std::filesystem::path& path, std::string_view identity,
                                                ThreadPool& pool);

  // Returns the bytes of a weight: 64-byte aligned, read-only, valid as long as this object. Empty if the file does not
  // have the key.
  std::span<const std::byte> find(std::string_view key) const;

 private:
  explicit PackedFile(Mapping mapping) : mapping_(std::move(mapping)) {}
  void check(const std::filesystem::path& path, std::string_view identity, ThreadPool& pool);

  const Mapping mapping_;
  std::map<std::string, std::span<const std::byte>, std::less<>> weights_;
};

struct PackedWeight {
  std::string key;
  std::span<const std::byte> bytes;  // a multiple of 64
};

// Writes the file under a temporary name and renames it when it is complete. So no process sees a partial file, and
// processes that have the old file open keep it. The file is readable only for users who may read all *.safetensors of
// the folder. Throws a Failure; the old file then remains.
void write_packed_file(const std::filesystem::path& path, std::string_view identity,
                       const std::vector<PackedWeight>& weights, ThreadPool& pool);

}  // namespace mortise::cpu
