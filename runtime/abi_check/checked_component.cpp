#include "abi_check/checked_component.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>

#include "abi_check/call.hpp"
#include "abi_check/kinds.hpp"
#include "mortise/ext/graph.h"
#include "mortise/struct_sizes.h"

namespace mortise {
namespace abi_check {
namespace {

constexpr Function kCreate = {"create", Tag::kControl, State::kCreated};
constexpr Function kDestroy = {"destroy", Tag::kControl, State::kCreated};
constexpr Function kActivate = {"activate", Tag::kControl, State::kCreated};
constexpr Function kDeactivate = {"deactivate", Tag::kControl, State::kActive};
constexpr Function kGetExt = {"get_ext", Tag::kAny};

std::shared_ptr<Instance> make_instance(const Component& real) {
  switch (real.kind) {
    case PartKind::kDevice:
      return make_device(real);
    case PartKind::kModel:
      return make_model(real);
    case PartKind::kAttention:
      return make_attention(real);
    case PartKind::kProposer:
      return make_proposer(real);
    case PartKind::kScheduler:
      break;
  }
  return make_scheduler(real);
}

mortise_status create(const Component& real, const mortise_host* host, const mortise_create_args* args, void** handle,
                      mortise_error* error) {
  const std::shared_ptr<Instance> instance = make_instance(real);
  Call call(*instance, kCreate);
  try {
    call.begin();
    call.check_struct(host, MORTISE_SIZE_0_5(mortise_host), "host");
    call.check_struct(args, MORTISE_SIZE_0_5(mortise_create_args), "args");
    void* made = nullptr;
    const mortise_host* const watched = instance->watch(host);
    const mortise_status status =
        call.make(error, [&](mortise_error* own) { return real.create(watched, args, &made, own); });
    call.part_must(status == MORTISE_OK || made == nullptr, "mortise/abi.h", "On failure the out-handle is NULL",
                   "create fails and leaves a handle");
    call.part_must(status != MORTISE_OK || made != nullptr, "mortise/plugin.h", "On OK *instance is not NULL",
                   "create returns OK without an instance");
    *handle = made;
    if (made != nullptr) Instance::add(made, instance);
    return status;
  } catch (const Breach& breach) {
    return call.report(breach, error);
  }
}

void destroy(void* handle) {
  checked_value(handle, kDestroy, 0, [&](Call& call, Instance& self) {
    Instance::remove(handle);
    call.make([&] { self.real.abi->destroy(handle); });
    call.part_must(self.num_allocations() == 0 && *self.num_held == 0, "mortise/abi.h",
                   "The side that allocates memory frees it",
                   "destroy leaves {} allocations of the host and {} objects of the device", self.num_allocations(),
                   self.num_held->load());
    return 0;
  });
}

mortise_status activate(void* handle, const mortise_activate_args* args, mortise_error* error) {
  return checked(handle, kActivate, error, [&](Call& call, Instance& self) {
    call.check_struct(args, MORTISE_SIZE_0_5(mortise_activate_args), "args");
    const mortise_activate_args sizes = *args;
    const auto real = self.real.abi->activate;
    const mortise_status status =
        real == nullptr ? MORTISE_OK : call.make(error, [&](mortise_error* own) { return real(handle, &sizes, own); });
    self.is_active = status == MORTISE_OK;
    self.sizes = *args;
    return status;
  });
}

void deactivate(void* handle) {
  checked_value(handle, kDeactivate, 0, [&](Call& call, Instance& self) {
    self.is_active = false;
    if (self.real.abi->deactivate != nullptr) call.make([&] { self.real.abi->deactivate(handle); });
    return 0;
  });
}

const void* get_ext(void* handle, const char* id) {
  return checked_value(handle, kGetExt, static_cast<const void*>(nullptr), [&](Call& call, Instance& self) {
    call.caller_must(id != nullptr, "mortise/abi.h", "`const char*` is NUL-terminated", "get_ext is called with NULL");
    const void* table = nullptr;
    call.make([&] { table = self.real.abi->get_ext(handle, id); });
    call.part_must(self.first_answer(id, table) == table, "mortise/plugin.h",
                   "the table of an extension of this instance, which lives until destroy",
                   "get_ext(\"{}\") returns another table than before", id);
    return self.real.kind == PartKind::kDevice ? checked_device_extension(self, id, table) : table;
  });
}

// Host and plugin may have been built with different sizes of a table.
template <typename Table>
void copy_table(Table& to, const void* from) {
  std::uint32_t size;
  std::memcpy(&size, from, sizeof size);
  std::memcpy(&to, from, std::min<std::size_t>(size, sizeof to));
  check_table(to);
}

class CheckedComponent {
 public:
  explicit CheckedComponent(const Component& real) : component_(real), abi_(*real.abi), tables_{} {
    switch (real.kind) {
      case PartKind::kDevice:
        copy_table(tables_.device, real.abi->table);
        break;
      case PartKind::kModel:
        copy_table(tables_.model, real.abi->table);
        break;
      case PartKind::kAttention:
        copy_table(tables_.attention, real.abi->table);
        break;
      case PartKind::kProposer:
        copy_table(tables_.proposer, real.abi->table);
        break;
      case PartKind::kScheduler:
        copy_table(tables_.scheduler, real.abi->table);
        break;
    }
    abi_.table = &tables_;
    abi_.destroy = destroy;
    abi_.activate = activate;  // also in place of NULL, so that the state can be followed
    abi_.deactivate = deactivate;
    replace(abi_.get_ext, &get_ext);
    component_.abi = &abi_;
    component_.creator = [&real](const mortise_host* host, const mortise_create_args* args, void** handle,
                                 mortise_error* error) { return create(real, host, args, handle, error); };
  }
  CheckedComponent(const CheckedComponent&) = delete;
  CheckedComponent& operator=(const CheckedComponent&) = delete;

  const Component& component() const { return component_; }

 private:
  Component component_;
  mortise_component abi_;
  union {
    mortise_device_table device;
    mortise_model_table model;
    mortise_attention_table attention;
    mortise_proposer_table proposer;
    mortise_scheduler_table scheduler;
  } tables_;
};

}  // namespace
}  // namespace abi_check

const Component& checked_component(const Component& component) {
  // Global, because a swap or a runner may ask for a component that is already checked.
  static auto* const mutex = new std::mutex;
  static auto* const all = new std::map<const Component*, std::unique_ptr<abi_check::CheckedComponent>>;
  static auto* const checked = new std::set<const Component*>;
  const std::lock_guard lock(*mutex);
  if (checked->contains(&component)) return component;
  std::unique_ptr<abi_check::CheckedComponent>& entry = (*all)[&component];
  if (entry == nullptr) {
    entry = std::make_unique<abi_check::CheckedComponent>(component);
    checked->insert(&entry->component());
  }
  return entry->component();
}

}  // namespace mortise
