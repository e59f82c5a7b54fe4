#include "loader/part_instance.hpp"

#include <cassert>

#include "error.hpp"

namespace mortise {
namespace {

// "attention 'paged' (paged-cpu.so)"
std::string label_with_file(const Component& component) {
  return fmt::format("{} ({})", component.label(), component.file.filename().string());
}

}  // namespace

PartInstance::PartInstance(const Component& component, nlohmann::json options, const CreateContext& context)
    : component_(&component),
      options_(std::move(options)),
      services_(std::make_unique<HostServices>(component.label(), context.extensions)),
      instance_(nullptr, Destroy{component.abi}) {
  const std::string options_text = options_.dump();
  mortise_create_args args{};
  args.struct_size = sizeof args;
  args.options = {options_text.data(), options_text.size()};
  args.device = context.device;
  args.device_table = context.device_table;
  args.model_config = {context.model_config.data(), context.model_config.size()};
  args.rank = context.rank;
  args.world = context.world;
  mortise_error error = empty_error();
  void* instance = nullptr;
  const mortise_status status =
      contain_exceptions(error, [&] { return component.abi->create(services_->host(), &args, &instance, &error); });
  if (status != MORTISE_OK) throw PartError(label_with_file(component), "create", status, error);
  if (instance == nullptr)
    fail("{} ({}): create succeeded without an instance", component.label(), component.file.string());
  instance_.reset(instance);
}

PartInstance::~PartInstance() {
  if (instance_ != nullptr && active_) deactivate();
}

void PartInstance::activate(const mortise_activate_args& args) {
  assert(!active_);
  if (component_->abi->activate != nullptr) {
    mortise_error error = empty_error();
    check(contain_exceptions(error, [&] { return component_->abi->activate(instance_.get(), &args, &error); }), error,
          "activate");
  }
  active_ = true;
}

void PartInstance::deactivate() {
  assert(active_);
  if (component_->abi->deactivate != nullptr) component_->abi->deactivate(instance_.get());
  active_ = false;
}

void PartInstance::check(mortise_status status, const mortise_error& error, const char* doing) const {
  if (status != MORTISE_OK) throw PartError(label_with_file(*component_), doing, status, error);
}

const void* PartInstance::get_ext(const char* id) const {
  return component_->abi->get_ext == nullptr ? nullptr : component_->abi->get_ext(instance_.get(), id);
}

}  // namespace mortise
