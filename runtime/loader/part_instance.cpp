#include "loader/part_instance.hpp"

#include <cassert>
#include <exception>

#include "error.hpp"

namespace mortise {
namespace {

[[noreturn]] void fail_status(const Component& component, mortise_status status, const mortise_error& error,
                              std::string_view doing) {
  const std::string where = plugin_text(error.where, sizeof error.where);
  std::string message = plugin_text(error.message, sizeof error.message);
  if (message.empty()) message = fmt::format("failed with status {} and gave no reason", status);
  const bool repeats = where.empty() || where == doing;
  fail("{} ({}): {}: {}{}{}", component.label(), component.file.filename().string(), doing, repeats ? "" : where,
       repeats ? "" : ": ", message);
}

// Runs a call into a plugin. An exception must not come out of one (the ABI is C), but some author will let it, and a
// message with the plugin's name is then worth more than std::terminate.
template <typename Call>
mortise_status contain(mortise_error& error, Call&& call) {
  try {
    return call();
  } catch (const std::exception& exception) {
    const std::string text = fmt::format("an exception crossed the C ABI: {}", exception.what());
    text.copy(error.message, sizeof error.message - 1);
  } catch (...) {
    std::string_view("an exception crossed the C ABI").copy(error.message, sizeof error.message - 1);
  }
  return MORTISE_INTERNAL;
}

}  // namespace

mortise_error empty_error() {
  mortise_error error{};
  error.struct_size = sizeof error;
  return error;
}

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
      contain(error, [&] { return component.abi->create(services_->host(), &args, &instance, &error); });
  if (status != MORTISE_OK) fail_status(component, status, error, "create");
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
    check(contain(error, [&] { return component_->abi->activate(instance_.get(), &args, &error); }), error, "activate");
  }
  active_ = true;
}

void PartInstance::deactivate() {
  assert(active_);
  if (component_->abi->deactivate != nullptr) component_->abi->deactivate(instance_.get());
  active_ = false;
}

void PartInstance::check(mortise_status status, const mortise_error& error, std::string_view doing) const {
  if (status != MORTISE_OK) fail_status(*component_, status, error, doing);
}

const void* PartInstance::get_ext(const char* id) const {
  return component_->abi->get_ext == nullptr ? nullptr : component_->abi->get_ext(instance_.get(), id);
}

}  // namespace mortise
