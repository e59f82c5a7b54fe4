#include "conformance/device_watch.hpp"

#include <fmt/format.h>

#include <cassert>

namespace mortise::conformance {
namespace {

// Global, because the functions of a device's table have no context. There is one watch at a time in a case's process.
DeviceWatch* current = nullptr;

}  // namespace

DeviceWatch::DeviceWatch(const PartInstance& device) : inner_(device.table<mortise_device_table>()), table_(*inner_) {
  assert(current == nullptr);
  current = this;
  table_.allocate = allocate;
  table_.free = free;
  table_.host_allocate = host_allocate;
  table_.host_free = host_free;
  table_.prepare_weight = prepare_weight;
  table_.free_weight = free_weight;
}

DeviceWatch::~DeviceWatch() {
  current = nullptr;
}

void DeviceWatch::note_in_step(const char* function) {
  if (in_step_)
    breaches_.push_back(fmt::format("the device's {} is called in a step; it is a [control] call", function));
}

mortise_status DeviceWatch::allocate(mortise_device* device, std::uint64_t bytes, void** memory, mortise_error* error) {
  current->note_in_step("allocate");
  const mortise_status status = current->inner_->allocate(device, bytes, memory, error);
  if (status == MORTISE_OK) current->memory_[*memory] = bytes;
  return status;
}

void DeviceWatch::free(mortise_device* device, void* memory) {
  current->note_in_step("free");
  if (memory != nullptr && current->memory_.erase(memory) == 0) {
    current->breaches_.emplace_back("the device's free is called with memory that the part does not hold");
    return;
  }
  current->inner_->free(device, memory);
}

mortise_status DeviceWatch::host_allocate(mortise_device* device, std::uint64_t bytes, void** memory,
                                          mortise_error* error) {
  current->note_in_step("host_allocate");
  const mortise_status status = current->inner_->host_allocate(device, bytes, memory, error);
  if (status == MORTISE_OK) current->host_memory_[*memory] = bytes;
  return status;
}

void DeviceWatch::host_free(mortise_device* device, void* memory) {
  current->note_in_step("host_free");
  if (memory != nullptr && current->host_memory_.erase(memory) == 0) {
    current->breaches_.emplace_back("the device's host_free is called with memory that the part does not hold");
    return;
  }
  current->inner_->host_free(device, memory);
}

mortise_status DeviceWatch::prepare_weight(mortise_device* device, const mortise_weight_source* source,
                                           mortise_weight** weight, mortise_error* error) {
  current->note_in_step("prepare_weight");
  const mortise_status status = current->inner_->prepare_weight(device, source, weight, error);
  if (status == MORTISE_OK) current->weights_.insert(*weight);
  return status;
}

void DeviceWatch::free_weight(mortise_device* device, mortise_weight* weight) {
  current->note_in_step("free_weight");
  if (weight != nullptr && current->weights_.erase(weight) == 0) {
    current->breaches_.emplace_back("the device's free_weight is called with a weight that the part does not hold");
    return;
  }
  current->inner_->free_weight(device, weight);
}

}  // namespace mortise::conformance
