#include "conformance/part.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "conformance/guarded_memory.hpp"

namespace mortise::conformance {

std::string Answer::text() const {
  const std::string message = plugin_text(error.message, sizeof error.message);
  return fmt::format("{} ({})", message.empty() ? "no message" : message, status_name(status));
}

Part::Part(const Component& component, PartSetup setup)
    : component_(component),
      setup_(std::move(setup)),
      name_(lasting_text(component.label())),
      host_([this](const char* id) { return host_extension(id); }) {
  host_.refuse_memory_from(setup_.refuse_memory_from);
  const OptionReader reader(setup_.options);
  mortise_create_args args{};
  reader.give_to(args);
  args.device = setup_.device;
  args.device_table = setup_.device_table;
  args.model_config = {setup_.model_config.data(), setup_.model_config.size()};
  args.rank = setup_.rank;
  args.world = setup_.world;
  args.struct_size = setup_.create_size;
  GuardedPages pages(setup_.create_size);
  std::memcpy(pages.data(), &args, std::min<std::size_t>(setup_.create_size, sizeof args));
  pages.make_read_only();
  created_ = call("create", [&](mortise_error* error) {
    return component.abi->create(host_.abi(), static_cast<const mortise_create_args*>(pages.data()), &instance_, error);
  });
  if (created_.ok()) {
    expect(instance_ != nullptr, "create returns OK and leaves the instance NULL");
  } else {
    expect(instance_ == nullptr, "create fails and leaves an instance that nobody destroys");
  }
}

Part::~Part() {
  try {
    destroy();
  } catch (const Error&) {  // the case reports its first failure
  }
}

Answer Part::activate(const mortise_activate_args& args) {
  Answer answer;
  if (component_.abi->activate != nullptr) {
    answer = call("activate", [&](mortise_error* error) {
      const mortise_status status = component_.abi->activate(instance_, &args, error);
      is_active_ = status == MORTISE_OK;  // set even if the answer breaks a rule, for which call() throws
      return status;
    });
  }
  is_active_ = answer.ok();
  return answer;
}

const void* Part::host_extension(const char* id) const {
  if (setup_.extensions) return setup_.extensions(id);
  const bool is_runner = component_.kind == PartKind::kProposer && std::string_view(id) == MORTISE_EXT_RUNNER;
  return is_runner && setup_.offers_runners ? runners_.abi() : nullptr;
}

void Part::deactivate() {
  if (!std::exchange(is_active_, false) || component_.abi->deactivate == nullptr) return;
  perform("deactivate", [&](mortise_error*) { return component_.abi->deactivate(instance_), MORTISE_OK; });
}

void Part::destroy() {
  if (instance_ == nullptr) return;
  deactivate();
  void* const instance = std::exchange(instance_, nullptr);
  perform("destroy", [&](mortise_error*) { return component_.abi->destroy(instance), MORTISE_OK; });
}

const void* Part::get_ext(const char* id) const {
  if (component_.abi->get_ext == nullptr) return nullptr;
  const void* table = nullptr;
  perform("get_ext", [&](mortise_error*) { return table = component_.abi->get_ext(instance_, id), MORTISE_OK; });
  return table;
}

void Part::check_answer(const char* function, const Answer& answer, bool has_thrown) const {
  expect(!has_thrown, "{}: {}", function, plugin_text(answer.error.message, sizeof answer.error.message));
  const auto is_text = [](const auto& text) { return std::memchr(text, '\0', sizeof text) != nullptr; };
  expect(is_text(answer.error.where) && is_text(answer.error.message),
         "{} leaves a text in mortise_error that is not NUL-terminated", function);
  expect(answer.error.struct_size == sizeof answer.error, "{} changes the struct_size of mortise_error", function);
  const std::string breach = runners_.breach();
  expect(breach.empty(), "{}: {} (mortise/ext/runner.h)", function, breach);
  if (answer.ok() || !setup_.gives_error) return;
  expect(answer.error.message[0] != '\0', "{} fails with {} and gives no message", function,
         status_name(answer.status));
}

}  // namespace mortise::conformance
