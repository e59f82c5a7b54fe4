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
  std::string_view model_config;  // normalised config.json, for models; read during the constructor only
  std::int32_t rank = 0;
  std::int32_t world = 1;
  ExtensionHook extensions;  // of the host; empty: none
};

// Owns one instance: its mortise_host, its options, its state (created or active). The destructor deactivates an active
// one and destroys it. Moving keeps the instance where it is. [control] calls only; not thread-safe.
class PartInstance {
 public:
  // Creates the instance. `options` must have passed the component's schema with defaults filled in. Throws an Error
  // with the plugin's name when create fails.
  PartInstance(const Component& component, nlohmann::json options, const CreateContext& context);
  ~PartInstance();
  PartInstance(PartInstance&&) noexcept = default;
  PartInstance& operator=(PartInstance&&) = delete;

  // To active. Throws an Error when the plugin refuses; the instance is then created, as before.
  // REQUIRES: created, and its kind's binding calls are done.
  void activate(const mortise_activate_args& args);
  void deactivate();  // Back to created. REQUIRES: active.
  bool active() const { return active_; }

  // Throws a PartError "attention 'paged' (FILE): doing: text of the plugin (STATUS)" unless status is OK. `doing` is
  // the function's name ("bind", "plan").
  void check(mortise_status status, const mortise_error& error, const char* doing) const;

  template <typename Handle>  // mortise_attention for an attention, ...
  Handle* handle() const {
    return static_cast<Handle*>(instance_.get());
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
  const nlohmann::json& options() const { return options_; }
  std::uint64_t allocated_bytes() const { return services_->allocated_bytes(); }

 private:
  struct Destroy {
    const mortise_component* abi;
    void operator()(void* instance) const { abi->destroy(instance); }
  };

  const Component* component_;
  nlohmann::json options_;
  std::unique_ptr<HostServices> services_;  // outlives instance_
  std::unique_ptr<void, Destroy> instance_;
  std::shared_ptr<PartHealth> health_ = std::make_shared<PartHealth>();
  bool active_ = false;
};

}  // namespace mortise
