// runtime/cli/repl/parts.cpp: /plugins and /proposer.
#include <algorithm>
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
         table == parts.scheduler.api ||
         std::any_of(parts.proposers.begin(), parts.proposers.end(),
                     [&](const ActiveProposer& proposer) { return table == proposer.api; });
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

// What drafts from here on, and what else the pipeline has.
std::string show_proposer(const ReplState& state) {
  const auto& proposers = state.session.pipeline().description.proposers;
  if (proposers.empty()) return "proposer: none";
  std::string all, chosen = "none", names;
  for (const PartDescription& proposer : proposers) {
    all += (all.empty() ? "" : ", ") + show_part(proposer);
    names += (names.empty() ? "" : ", ") + proposer.name;
    if (proposer.name == state.speculation.proposer) chosen = show_part(proposer);
  }
  if (!state.speculation.proposer) return fmt::format("proposer: {}{}", proposers.size() > 1 ? "first_of " : "", all);
  return fmt::format("proposer: {}; the pipeline has {}", chosen, names);
}

// Whether the pipeline has what is to draft: then the next prompt is drafted for so.
bool choose_proposer(ReplState& state, const std::string& name) {
  const auto& proposers = state.session.pipeline().description.proposers;
  const bool known =
      std::any_of(proposers.begin(), proposers.end(), [&](const auto& part) { return part.name == name; });
  if (name == "first_of" || (known && proposers.size() == 1)) {
    state.speculation.proposer.reset();
  } else if (known || name == "none") {
    state.speculation.proposer = name;
  } else {
    return false;
  }
  return true;
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
  if (text.empty()) return state.console.say(show_proposer(state));
  const PartText given = parse_part_text(text);
  if (given.options.empty() && choose_proposer(state, given.name)) return state.console.say(show_proposer(state));
  PartDescription proposer = find_part(PluginCatalog::standard(), PartKind::kProposer, given);
  const auto start = std::chrono::steady_clock::now();
  const EngineStats before = state.session.pipeline().engine.stats();
  try {
    state.session.replace_proposers(std::move(proposer));
  } catch (const Error& error) {
    fail("{}; the pipeline goes on as it was ({})", error.what(), show_proposer(state));
  }
  state.speculation = {};
  state.figures.add_closed(before);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  state.console.say(
      fmt::format("{}; the pipeline is open again after {:.1f} s", show_proposer(state), elapsed.count()));
}

}  // namespace mortise
