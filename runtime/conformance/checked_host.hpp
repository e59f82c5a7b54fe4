// runtime/conformance/checked_host.hpp: the mortise_host that a plugin gets from the conformance suite. It counts
// memory, can refuse it, and remembers what the plugin does against the rules of mortise/host.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "conformance/guarded_memory.hpp"
#include "mortise/host.h"

namespace mortise::conformance {

// One host for one instance. Its address does not change. The functions of the table may be called on any thread, as
// host.h says; the others on the suite's thread. Invariant: `blocks_` has exactly the memory that the plugin holds.
class CheckedHost {
 public:
  // Finds an extension of the host. The function may be empty.
  using Extensions = std::function<const void*(const char* id)>;
  explicit CheckedHost(Extensions extensions);
  ~CheckedHost();
  CheckedHost(const CheckedHost&) = delete;
  CheckedHost& operator=(const CheckedHost&) = delete;

  const mortise_host* abi() const { return table_.data(); }
  // Makes the allocation with this number, counted from 0, and all later ones return NULL.
  void refuse_memory_from(std::int64_t number) { refuse_from_ = number; }
  std::int64_t num_allocations() const { return num_allocations_; }
  std::uint64_t allocated_bytes() const;
  // Returns the rules that the plugin broke, in order.
  std::vector<std::string> breaches() const;
  std::vector<std::string> log_lines() const;
  // Returns an extension of Mortise's host that the part asked for and did not get; empty: none.
  std::string missing_extension() const;

 private:
  struct Table : mortise_host {
    CheckedHost* self;
  };
  static CheckedHost& self(const mortise_host* host);
  static void log(const mortise_host* host, std::int32_t level, mortise_string_view message);
  static void* allocate(const mortise_host* host, std::uint64_t bytes, std::uint64_t alignment);
  static void free(const mortise_host* host, void* memory);
  static std::uint64_t now_ns(const mortise_host* host);
  static const void* get_ext(const mortise_host* host, const char* id);
  void note(std::string breach);

  Extensions extensions_;
  std::atomic<std::int64_t> num_allocations_{0};
  std::int64_t refuse_from_ = INT64_MAX;
  mutable std::mutex mutex_;  // guards the next four
  std::map<void*, std::uint64_t> blocks_;
  std::vector<std::string> breaches_;
  std::vector<std::string> log_lines_;
  std::string missing_extension_;
  GuardedArray<Table> table_;  // read-only: a plugin must not change it
};

}  // namespace mortise::conformance
