#include "loader/part_instance.hpp"

#include <cassert>
#include <mutex>
#include <utility>
#include <vector>

#include "error.hpp"
#include "loader/option_reader.hpp"

namespace mortise {
namespace {

// Keeps a failed instance, which must not be called, and its host, which threads of the instance may still call. Both
// stay reachable, so that leak checkers do not report them.
void keep_for_ever(void* instance, std::unique_ptr<HostServices> services) {
  static auto* mutex = new std::mutex;
  static auto* kept = new std::vector<std::pair<void*, std::unique_ptr<HostServices>>>;
  const std::lock_guard lock(*mutex);
  kept->emplace_back(instance, std::move(services));
}

}  // namespace

PartInstance::PartInstance(const Component& component, nlohmann::json options, const CreateContext& context)
    : component_(&component),
      options_(std::move(options)),
      services_(std::make_unique<HostServices>(component.label(), context.extensions)),
      health_(std::make_shared<PartHealth>(full_name())),
      device_health_(context.device_health) {
  const OptionReader reader(options_);
  mortise_create_args args{};
  args.struct_size = sizeof args;
  reader.give_to(args);
  args.device = context.device;
  args.device_table = context.device_table;
  args.model_config = {context.model_config.data(), context.model_config.size()};
  args.rank = context.rank;
  args.world = context.world;
  void* instance = nullptr;
  perform("create",
          [&](mortise_error* error) { return component_->create(services_->host(), &args, &instance, error); });
  if (instance == nullptr) fail("{}: create: returned OK without an instance", full_name());
  instance_ = instance;
}

PartInstance::PartInstance(PartInstance&& other) noexcept
    : component_(other.component_),
      options_(std::move(other.options_)),
      services_(std::move(other.services_)),
      instance_(std::exchange(other.instance_, nullptr)),
      health_(other.health_),
      device_health_(std::move(other.device_health_)),
      active_(other.active_) {}

PartInstance::~PartInstance() {
  if (instance_ == nullptr) return;
  if (active_) deactivate();
  if (!is_abandoned()) {
    value_of_call(full_name(), *health_, "destroy", 0, [&] { return component_->abi->destroy(instance_), 0; });
  }
  if (is_abandoned()) keep_for_ever(instance_, std::move(services_));
}

void PartInstance::activate(const mortise_activate_args& args) {
  assert(!active_);
  if (component_->abi->activate != nullptr) {
    perform("activate", [&](mortise_error* error) { return component_->abi->activate(instance_, &args, error); });
  }
  active_ = true;
  health_->set_active(true);
}

void PartInstance::activate() {
  mortise_activate_args none{};
  none.struct_size = sizeof none;
  activate(none);
}

void PartInstance::deactivate() {
  assert(active_);
  active_ = false;
  health_->set_active(false);
  if (component_->abi->deactivate == nullptr || is_abandoned()) return;
  value_of_call(full_name(), *health_, "deactivate", 0, [&] { return component_->abi->deactivate(instance_), 0; });
}

void PartInstance::resize(const mortise_activate_args& now, const mortise_activate_args& before) {
  deactivate();
  try {
    activate(now);
  } catch (const Error& refusal) {
    try {
      activate(before);
    } catch (const Error& error) {
      health_->fail(fmt::format("{}; and it could not return to its previous sizes: {}", refusal.what(), error.what()));
    }
    throw;
  }
}

void PartInstance::check(mortise_status status, const mortise_error& error, const char* doing) const {
  if (status == MORTISE_OK) return;
  const PartError failure(full_name(), doing, status, error);
  if (status == MORTISE_INTERNAL) health_->fail(failure.what());
  throw failure;
}

const void* PartInstance::get_ext(const char* id) const {
  if (component_->abi->get_ext == nullptr) return nullptr;
  return value_of_call<const void*>(full_name(), *health_, "get_ext", nullptr,
                                    [&] { return component_->abi->get_ext(instance_, id); });
}

std::string PartInstance::full_name() const {
  return fmt::format("{} ({})", component_->label(), component_->file.filename().string());
}

}  // namespace mortise
