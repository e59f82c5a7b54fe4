// runtime/cli/repl/parts.cpp: /plugins and /proposer.
#include <chrono>

#include "cli/repl/part_text.hpp"
#include "cli/repl/state.hpp"
#include "error.hpp"
#include "loader/catalog.hpp"

namespace mortise {
namespace {

bool is_in_use(const Component& component, const Parts& parts) {
  // Files with the same bytes share one image, so the table tells the part, whichever file it was found in.
  const void* table = component.abi->table;
  return table == parts.device.api || table == parts.model.api || table == parts.attention.api ||
         table == parts.scheduler.api || table == parts.proposer.api;
}

std::string list_of(PartKind kind, const PluginCatalog::Listing& listing, const Parts& parts) {
  std::string text = fmt::format("{}\n", kind_name(kind));
  bool any = false;
  for (const PluginFile* file : listing.files) {
    for (const Component& component : file->components) {
      if (component.kind != kind) continue;
      any = true;
      text += fmt::format("{} {:<16}  {:<16}  {}\n", is_in_use(component, parts) ? '*' : ' ', component.name,
                          file->path.filename().string(), component.summary);
    }
  }
  return any ? text : text + "  none\n";
}

std::string describe_component(const Component& component, const Parts& parts) {
  std::string text =
      fmt::format("{} {}{}: {}\n  file {}\n", kind_name(component.kind), component.name,
                  is_in_use(component, parts) ? ", in use" : "", component.summary, component.file.string());
  for (const Option& option : component.schema.options()) {
    text += fmt::format("  {:<20}  {}; {} ({})\n", option.name,
                        option.required ? "required" : "default " + option.default_value.dump(), option.title,
                        option.expected);
  }
  if (component.schema.options().empty()) text += "  no options\n";
  return text;
}

}  // namespace

void show_plugins(ReplState& state, const std::string& name) {
  const PluginCatalog catalog = PluginCatalog::standard();
  const Parts& parts = state.session.pipeline().assembly.parts();
  std::string text;
  if (!name.empty()) {
    const auto found = catalog.find(name);
    if (found.components.empty()) catalog.fail_unknown(name, found);
    for (const Component* component : found.components) text += describe_component(*component, parts);
    return state.console.say(text);
  }
  const auto listing = catalog.list();
  for (const PartKind kind : kAllKinds) text += list_of(kind, listing, parts);
  if (!listing.refused.empty()) text += "refused\n";
  for (const auto& file : listing.refused) text += fmt::format("  {}\n", file.reason);
  state.console.say(text);
}

void change_proposer(ReplState& state, const std::string& text) {
  const auto show = [&] {
    const auto& proposer = state.session.pipeline().description.proposer;
    return "proposer: " + (proposer ? show_part(*proposer) : "none");
  };
  if (text.empty()) return state.console.say(show());
  std::optional<PartDescription> proposer;
  if (text != "none") proposer = find_part(PluginCatalog::standard(), PartKind::kProposer, parse_part_text(text));
  if (!proposer && !state.session.pipeline().description.proposer) return state.console.say(show());
  const auto start = std::chrono::steady_clock::now();
  const EngineStats before = state.session.pipeline().engine.stats();
  try {
    state.session.replace_proposer(std::move(proposer));
  } catch (const Error& error) {
    fail("{}; the pipeline goes on as it was ({})", error.what(), show());
  }
  state.figures.add_closed(before);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  state.console.say(fmt::format("{}; the pipeline is open again after {:.1f} s", show(), elapsed.count()));
}

}  // namespace mortise
