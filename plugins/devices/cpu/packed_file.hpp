// packed_file.hpp: prepared weights in a file, as they lie in memory. Little endian:
//   head       FileHead, then per weight: u32 length of its key, the key, u64 offset, u64 bytes; then a u64 hash (XXH3)
//              of each MiB of the data; zeros up to a multiple of 4096; at most 64 MiB
//   data       the weights one after the other, each a multiple of 64 bytes
// FileHead has a hash of the whole head, so every byte of the file is under a hash, and all of them are checked when
// the file is opened, on all threads. That finds damage. It is no seal: who may write the file may write other weights,
// as in the checkpoint beside it; no offset or size in it is believed, though.
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

// Mapped memory, of which it is the owner.
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

class PackedFile {
 public:
  // The file, mapped and checked; null: there is none. Throws a Failure whose text says what is wrong with it and
  // where. `identity` is what the weights were made of and how; another one in the file is a mistake like the others.
  static std::shared_ptr<const PackedFile> open(const std::filesystem::path& path, std::string_view identity,
                                                ThreadPool& pool);

  // 64-byte aligned, read-only, as long as this object lives; empty when the file has none of that key.
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

// Writes the file under another name and gives it this one when it is complete, so that nobody ever sees a part of it
// and processes that have the old one open keep it. Whoever may not read the checkpoint's weights (all *.safetensors of
// the folder) may not read it either. Throws a Failure; then there is what was there before.
void write_packed_file(const std::filesystem::path& path, std::string_view identity,
                       const std::vector<PackedWeight>& weights, ThreadPool& pool);

}  // namespace mortise::cpu
