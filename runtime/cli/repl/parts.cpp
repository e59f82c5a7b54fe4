// runtime/cli/repl/parts.cpp: /plugins, /proposer and /swap.
#include <algorithm>
#include <chrono>
#include <memory>

#include "assembly/another_model.hpp"
#include "cli/repl/part_text.hpp"
#include "cli/repl/state.hpp"
#include "error.hpp"
#include "loader/catalog.hpp"
#include "pipeline/part_change.hpp"

namespace mortise {
namespace {

using Components = std::vector<const Component*>;

bool is_in_use(const Component& component, const Components& used) {
  // Files with the same bytes share one image, so the table tells the part, whichever file it was found in.
  return std::ranges::any_of(used, [&](const Component* part) { return part->abi->table == component.abi->table; });
}

std::string list_of(PartKind kind, const PluginCatalog::Listing& listing, const Components& used) {
  std::string text = fmt::format("{}\n", kind_name(kind));
  bool any = false;
  for (const PluginFile* file : listing.files) {
    for (const Component& component : file->components) {
      if (component.kind != kind) continue;
      any = true;
      text += fmt::format("{} {:<16}  {:<16}  {}\n", is_in_use(component, used) ? '*' : ' ', component.name,
                          file->path.filename().string(), component.summary);
    }
  }
  return any ? text : text + "  none\n";
}

std::string describe_component(const Component& component, const Components& used) {
  std::string text =
      fmt::format("{} {}{}: {}\n  file {}\n", kind_name(component.kind), component.name,
                  is_in_use(component, used) ? ", in use" : "", component.summary, component.file.string());
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
  const auto proposers = state.session.pipeline().assembly.description().proposers;
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
  const auto proposers = state.session.pipeline().assembly.description().proposers;
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

// The keys of the script as they are now.
std::string show_parts(const ReplState& state) {
  const PipelineDescription now = state.session.pipeline().assembly.description();
  std::string text;
  const std::pair<const char*, const PartDescription*> parts[] = {
      {"device", &now.device}, {"model", &now.model}, {"attention", &now.attention}, {"scheduler", &now.scheduler}};
  for (const auto& [key, part] : parts) text += fmt::format("{}: {}\n", key, show_part(*part));
  return text + show_proposer(state);
}

// Another model is opened as another pipeline, before the first one ends. The dialogue stays; what depends on the model
// does not.
void swap_or_replace(ReplState& state, OpenPipeline& pipeline, const PipelineDescription& next) {
  try {
    pipeline.swap(next);
    return;
  } catch (const AnotherModelError&) {
  }
  std::unique_ptr<OpenPipeline> other = state.session.open_beside(pipeline, next);
  Settings settings = state.settings.for_model(other->service.info().defaults, other->assembly.dims().vocab_size);
  state.session.replace(pipeline, std::move(other), {});
  state.settings = std::move(settings);
  state.speculation = {};
  state.last_request.reset();
}

void swap_parts(ReplState& state, const PartChange& change) {
  OpenPipeline& pipeline = state.session.pipeline();
  const auto start = std::chrono::steady_clock::now();
  try {
    swap_or_replace(state, pipeline, pipeline.with(change));
  } catch (const Error& error) {
    fail("{}; the pipeline goes on as it was ({})", error.what(), show_proposer(state));
  }
  if (change.key == "proposer") state.speculation = {};
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const std::string what = change.key == "proposer" ? show_proposer(state)
                           : change.plugin.empty()  ? change.key
                                                    : fmt::format("{}: {}", change.key, change.plugin);
  state.console.say(fmt::format("{}; swapped in {:.2f} s", what, elapsed.count()));
}

}  // namespace

void show_plugins(ReplState& state, const std::string& name) {
  const PluginCatalog catalog = PluginCatalog::standard();
  const Components used = state.session.pipeline().assembly.components();
  std::string text;
  if (!name.empty()) {
    const auto found = catalog.find(name);
    if (found.components.empty()) catalog.fail_unknown(name, found);
    for (const Component* component : found.components) text += describe_component(*component, used);
    return state.console.say(text);
  }
  const auto listing = catalog.list();
  for (const PartKind kind : kAllKinds) text += list_of(kind, listing, used);
  if (!listing.refused.empty()) text += "refused\n";
  for (const auto& file : listing.refused) text += fmt::format("  {}\n", file.reason);
  state.console.say(text);
}

void change_proposer(ReplState& state, const std::string& text) {
  if (text.empty()) return state.console.say(show_proposer(state));
  const PartText given = parse_part_text(text);
  if (given.options.empty() && choose_proposer(state, given.name)) return state.console.say(show_proposer(state));
  swap_parts(state, {"proposer", given.name, given.options});
}

void swap_part(ReplState& state, const std::string& text) {
  if (text.empty()) return state.console.say(show_parts(state));
  PartChange change = parse_part_change(text);
  change.plugin = expand_home(change.plugin);
  swap_parts(state, change);
}

}  // namespace mortise
