// runtime/loader/elf_reader.hpp: reads the tables of an ELF file within the bounds of its bytes.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "error.hpp"

namespace mortise {

// Reads the tables of a shared object's file, which it borrows. Every read throws an Error if it would leave the file.
// Immutable. Used by one thread.
class ElfReader {
 public:
  explicit ElfReader(std::span<const char> file) : file_(file) {}

  // Copies `count` entries of T at `offset`, if they are within the file. A copy, because they may not be aligned.
  template <typename T>
  std::vector<T> table(std::uint64_t offset, std::uint64_t count, const char* what) const {
    if (offset > file_.size() || count > (file_.size() - offset) / sizeof(T)) truncated(what);
    std::vector<T> entries(count);
    if (count != 0) std::memcpy(entries.data(), file_.data() + offset, count * sizeof(T));
    return entries;
  }

  std::string_view bytes(std::uint64_t offset, std::uint64_t size, const char* what) const {
    if (offset > file_.size() || size > file_.size() - offset) truncated(what);
    return {file_.data() + offset, size};
  }

  // Returns the header of a shared object for this machine. Throws an Error that says what the file is instead.
  Elf64_Ehdr header() const;
  // Both need the header's entry sizes to be right.
  std::vector<Elf64_Phdr> segments(const Elf64_Ehdr& header) const;
  std::vector<Elf64_Shdr> sections(const Elf64_Ehdr& header) const;  // empty: they were stripped

 private:
  [[noreturn]] void truncated(const char* what) const {
    fail("is damaged or truncated: its {} lies beyond its end ({} bytes); copy or build it again", what, file_.size());
  }

  std::span<const char> file_;
};

}  // namespace mortise
