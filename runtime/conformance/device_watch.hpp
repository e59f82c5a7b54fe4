// runtime/conformance/device_watch.hpp: a device as a part sees it, with every allocation counted.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "loader/part_instance.hpp"
#include "mortise/device.h"

namespace mortise::conformance {

// Stands between a part and its device: counts the device memory that the part holds, and records [control] calls made
// during a step. The functions of a device's table have no context, so there is one watch at a time in a process. Used
// by one thread. Invariant: it lists the memory and the weights that the part has and did not free, and no others.
class DeviceWatch {
 public:
  explicit DeviceWatch(const PartInstance& device);
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  // Returns the device's own table, except for the functions that are watched. It lives as long as the watch.
  const mortise_device_table* table() const { return &table_; }
  // While this is true, calls of [control] functions are breaches.
  void set_in_step(bool in_step) { in_step_ = in_step; }
  const std::vector<std::string>& breaches() const { return breaches_; }
  std::size_t num_allocations() const { return memory_.size() + host_memory_.size(); }  // that are not freed
  std::size_t num_weights() const { return weights_.size(); }                           // that are not freed

 private:
  static mortise_status allocate(mortise_device* device, std::uint64_t bytes, void** memory, mortise_error* error);
  static void free(mortise_device* device, void* memory);
  static mortise_status host_allocate(mortise_device* device, std::uint64_t bytes, void** memory, mortise_error* error);
  static void host_free(mortise_device* device, void* memory);
  static mortise_status prepare_weight(mortise_device* device, const mortise_weight_source* source,
                                       mortise_weight** weight, mortise_error* error);
  static void free_weight(mortise_device* device, mortise_weight* weight);
  void note_in_step(const char* function);

  const mortise_device_table* inner_;
  mortise_device_table table_;
  bool in_step_ = false;
  std::map<void*, std::uint64_t> memory_, host_memory_;
  std::set<mortise_weight*> weights_;
  std::vector<std::string> breaches_;
};

}  // namespace mortise::conformance
