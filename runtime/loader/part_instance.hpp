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

// What an instance is made with besides its options. The device must outlive the instance.
struct CreateContext {
  mortise_device* device = nullptr;  // NULL for devices, and for parts that run on the host
  const mortise_device_table* device_table = nullptr;
  // The device's: an instance is not destroyed when its device has failed, for it would call the device. Null: the
  // instance uses none.
  std::shared_ptr<PartHealth> device_health;
  std::string_view model_config;  // normalised config.json, for models; read during the constructor only
  std::int32_t rank = 0;
  std::int32_t world = 1;
  ExtensionHook extensions;  // of the host; empty: none
};

// Owns one instance: its mortise_host, its options, its state (created or active). The destructor deactivates an active
// one and destroys it, unless it has failed (PartHealth): what a failed instance would do is not known, so it is leaked
// with its mortise_host. Moving keeps the instance where it is. [control] calls only; not thread-safe.
class PartInstance {
 public:
  // Creates the instance. `options` must have passed the component's schema with defaults filled in. Throws an Error
  // with the plugin's name when create fails.
  PartInstance(const Component& component, nlohmann::json options, const CreateContext& context);
  ~PartInstance();
  PartInstance(PartInstance&& other) noexcept;
  PartInstance& operator=(PartInstance&&) = delete;

  // To active. Throws an Error when the plugin refuses; the instance is then created, as before.
  // REQUIRES: created, and its kind's binding calls are done.
  void activate(const mortise_activate_args& args);
  void deactivate();  // Back to created. REQUIRES: active.
  // Active for other sizes in the place of `before`. Throws an Error when the plugin refuses: it is active for `before`
  // again, or has failed if it refuses these too. REQUIRES: active for `before`.
  void resize(const mortise_activate_args& now, const mortise_activate_args& before);
  bool active() const { return active_; }

  // Calls `body(mortise_error*)`, which calls one function of the instance before it is active ("bind", "load"), under
  // the rules of active_part.hpp. Throws a PartError "attention 'paged' (FILE): bind: text of the plugin (STATUS)".
  template <typename Body>
  void perform(const char* function, Body&& body) const {
    const CallResult result = attempt_call(full_name(), *health_, function, std::forward<Body>(body));
    if (!result.ok()) throw PartError(full_name(), function, result.status, result.error);
  }
  // Throws what perform() does, for a call that was made without it.
  void check(mortise_status status, const mortise_error& error, const char* doing) const;

  template <typename Handle>  // mortise_attention for an attention, ...
  Handle* handle() const {
    return static_cast<Handle*>(instance_);
  }
  template <typename Table>
  const Table* table() const {
    return component_->table<Table>();
  }
  // The instance as steps call it: ActivePart<mortise_attention, mortise_attention_table>. All of them share one
  // health.
  template <typename Handle, typename Table>
  ActivePart<Handle, Table> active_part() const {
    return {handle<Handle>(), table<Table>(), component_->label(), health_};
  }
  const void* get_ext(const char* id) const;  // of the instance; nullptr: it has none of that id

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
