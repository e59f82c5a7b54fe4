// runtime/loader/host_services.hpp: implements mortise_host for one instance: log, accounted memory, clock, extensions.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "mortise/host.h"

namespace mortise {

inline constexpr const char* kVersion = MORTISE_VERSION;

// Finds an extension of the host by its id; nullptr if there is none. Called on any thread.
using ExtensionHook = std::function<const void*(const char* id)>;

// The mortise_host of one instance. Lives until the instance is destroyed; its address does not change. The functions
// of mortise_host may be called on any thread. Invariant: allocated_bytes_ counts what was allocated and not freed.
class HostServices {
 public:
  HostServices(std::string instance_name, ExtensionHook extensions);
  ~HostServices();  // Memory that the instance did not free is logged and leaked.
  HostServices(const HostServices&) = delete;
  HostServices& operator=(const HostServices&) = delete;

  const mortise_host* host() const { return &table_; }
  // Bytes that the instance holds at the moment. Thread-safe.
  std::uint64_t allocated_bytes() const { return allocated_bytes_.load(); }

 private:
  struct Table : mortise_host {
    HostServices* self;
  };
  static HostServices& self(const mortise_host* host);
  void* allocate(std::uint64_t bytes, std::uint64_t alignment) noexcept;
  void release(void* memory) noexcept;

  std::string name_;
  ExtensionHook extensions_;
  std::atomic<std::uint64_t> allocated_bytes_{0};
  Table table_;
};

}  // namespace mortise
