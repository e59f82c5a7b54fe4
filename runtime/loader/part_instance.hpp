// runtime/loader/part_instance.hpp: a live instance of a component, from create to destroy.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "loader/active_part.hpp"
#include "loader/component.hpp"
#include "loader/host_services.hpp"
#include "mortise/device.h"

namespace mortise {

// Arguments for creating an instance, besides its options. The device must outlive the instance.
struct CreateContext {
  mortise_device* device = nullptr;  // NULL for devices, and for parts that run on the host
  const mortise_device_table* device_table = nullptr;
  // Health of the device. If the device has failed, the instance is not destroyed, because it would call the device.
  // Null: the instance uses no device.
  std::shared_ptr<PartHealth> device_health;
  std::string_view model_config;  // normalised config.json, for models; read only by the constructor
  std::int32_t rank = 0;
  std::int32_t world = 1;
  ExtensionHook extensions;  // finds extensions of the host; may be empty
};

// Owns one instance with its mortise_host, its options and its state (created or active). The destructor deactivates
// and destroys the instance. A failed instance (PartHealth) is leaked together with its mortise_host instead, because
// calling it could do anything. Moving a PartInstance does not move the instance. Invariant: an instance that has
// failed is never called again. [control] calls only; not thread-safe.
class PartInstance {
 public:
  // Creates the instance. Throws an Error with the plugin's name if that fails.
  // REQUIRES: `options` passed the component's schema and has all defaults.
  PartInstance(const Component& component, nlohmann::json options, const CreateContext& context);
  ~PartInstance();
  PartInstance(PartInstance&& other) noexcept;
  PartInstance& operator=(PartInstance&&) = delete;

  // Activates the instance. Throws an Error if the plugin refuses; the instance then stays created.
  // REQUIRES: it is created, and the binding calls of its kind have been made.
  void activate(const mortise_activate_args& args);
  void activate();    // the same for a device, which has no sizes
  void deactivate();  // Back to created. REQUIRES: active.
  // Replaces the sizes `before` of an active instance. Throws an Error if the plugin refuses; the instance is then
  // active for `before` again, or has failed if it refuses these as well.
  // REQUIRES: active for `before`.
  void resize(const mortise_activate_args& now, const mortise_activate_args& before);
  bool active() const { return active_; }

  // Calls `body(mortise_error*)`, which calls one function of the instance before it is active ("bind", "load"), with
  // the rules of active_part.hpp. Throws a PartError "attention 'paged' (FILE): bind: text of the plugin (STATUS)".
  template <typename Body>
  void perform(const char* function, Body&& body) const {
    const CallResult result = attempt_call(full_name(), *health_, function, std::forward<Body>(body));
    if (!result.ok()) throw PartError(full_name(), function, result.status, result.error);
  }
  // Throws like perform() for a call that was made without it.
  void check(mortise_status status, const mortise_error& error, const char* doing) const;

  template <typename Handle>  // mortise_attention for an attention, ...
  Handle* handle() const {
    return static_cast<Handle*>(instance_);
  }
  template <typename Table>
  const Table* table() const {
    return component_->table<Table>();
  }
  // The instance for steps: ActivePart<mortise_attention, mortise_attention_table>. All copies share one PartHealth.
  template <typename Handle, typename Table>
  ActivePart<Handle, Table> active_part() const {
    return {handle<Handle>(), table<Table>(), component_->label(), health_};
  }
  const void* get_ext(const char* id) const;  // an extension of the instance; nullptr: none with this id

  const Component& component() const { return *component_; }
  std::string full_name() const;  // "attention 'paged' (paged-cpu.so)"
  const nlohmann::json& options() const { return options_; }
  std::uint64_t allocated_bytes() const { return services_->allocated_bytes(); }

 private:
  bool is_abandoned() const { return health_->failed() || (device_health_ != nullptr && device_health_->failed()); }

  const Component* component_;
  nlohmann::json options_;
  std::unique_ptr<HostServices> services_;  // outlives the instance
  void* instance_ = nullptr;                // null: moved from
  std::shared_ptr<PartHealth> health_;
  std::shared_ptr<PartHealth> device_health_;
  bool active_ = false;
};

}  // namespace mortise
