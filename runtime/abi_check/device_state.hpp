// runtime/abi_check/device_state.hpp: what the checks remember of a device: its memory, weights, streams and events.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "abi_check/call.hpp"
#include "mortise/ext/collective.h"
#include "mortise/ext/graph.h"
#include "mortise/ext/rejection.h"

namespace mortise::abi_check {

// The state of a device. Any part may call its functions, on any thread. Invariant: the sets hold exactly what was
// handed out and not returned.
class Device : public Instance {
 public:
  explicit Device(const Component& real) : Instance(real) {}
  // Returns the checked device with this handle; null: there is none.
  static std::shared_ptr<Device> find(const mortise_device* handle);

  // The kinds of objects that the device hands out. A problem "" means that all is well.
  enum class Kind { kMemory, kHostMemory, kWeight, kStream, kEvent, kGraph };
  // `owner`: the call that got the object. Returns false if a live object has this address.
  bool add(Kind kind, const void* object, const Call* owner, std::uint64_t bytes = 0);
  // Returns false if there is no such object.
  bool remove(Kind kind, const void* object);
  bool has(Kind kind, const void* object) const;
  // Returns what is wrong with memory from `data` on; "" if nothing is. Memory of the device must not go beyond its
  // allocation. On a device that computes in host memory, any other memory is fine, too.
  std::string memory_problem(const void* data, std::uint64_t bytes) const;
  // The same for memory that may be the host's on any device.
  std::string overrun(const void* data, std::uint64_t bytes) const;

  // Keep the first value passed, for numerics the first for each dtype, and return it. A later, different value is a
  // breach, which the caller reports.
  std::optional<std::string> first_numerics(std::int32_t dtype, const std::optional<std::string>& id);
  std::int32_t first_slice(std::int32_t slice);
  void set_host_memory(bool is_host);
  bool is_host_memory() const;

  // Work that is captured as a graph does not run, so nothing may be allocated or waited for meanwhile.
  std::atomic<int> num_captures{0};
  std::atomic<const mortise_graph_table*> graph{nullptr};  // the device's own
  std::atomic<const mortise_rejection_table*> rejection{nullptr};
  std::atomic<const mortise_collective_table*> collective{nullptr};

 private:
  struct Object {
    std::uint64_t bytes;
    std::shared_ptr<std::atomic<std::int64_t>> num_held;  // objects of its owner; null: the host owns it
  };
  const std::pair<const std::pair<Kind, std::uintptr_t>, Object>* allocation_of(const void* data) const;

  mutable std::mutex mutex_;  // guards everything below
  std::map<std::pair<Kind, std::uintptr_t>, Object> objects_;
  std::map<std::int32_t, std::optional<std::string>> numerics_;
  std::int32_t slice_ = 0;
  bool is_host_memory_ = true;  // until the device says otherwise
};

// Throws a Breach that blames the caller, unless the object is NULL, or the device has handed it out and it still
// lives. `what`: "stream".
void check_live(const Call& call, const Device& device, Device::Kind kind, const void* object, const char* what);
// The same for an object that is given back, which ends its life. `what`: "a stream".
void check_return(const Call& call, Device& device, Device::Kind kind, const void* object, const char* what);

}  // namespace mortise::abi_check
