// runtime/cli/repl/parts.cpp: /plugins, /proposer and /swap.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <future>
#include <memory>
#include <stop_token>
#include <thread>

#include "assembly/another_model.hpp"
#include "cli/interrupt.hpp"
#include "cli/repl/part_text.hpp"
#include "cli/repl/state.hpp"
#include "counted.hpp"
#include "error.hpp"
#include "loader/catalog.hpp"
#include "pipeline/part_change.hpp"

namespace mortise {
namespace {

using Components = std::vector<const Component*>;

bool is_in_use(const Component& component, const Components& used) {
  // Files with equal bytes share one image, so the address of the table identifies the component, whatever its file.
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

// Returns the proposer for the following prompts, and the other proposers of the pipeline.
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

// Chooses the proposer for the following prompts. Returns false if the pipeline does not have it.
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

// Returns the keys of the script with their current parts.
std::string show_parts(const ReplState& state) {
  const PipelineDescription now = state.session.pipeline().assembly.description();
  std::string text;
  const std::pair<const char*, const PartDescription*> parts[] = {
      {"device", &now.device}, {"model", &now.model}, {"attention", &now.attention}, {"scheduler", &now.scheduler}};
  for (const auto& [key, part] : parts) text += fmt::format("{}: {}\n", key, show_part(*part));
  return text + show_proposer(state);
}

// Removes the end of "scheduler fcfs {} verify_steps = 20" from the text, and returns the number; 0: there is none.
std::int32_t take_verify_steps(std::string& text) {
  constexpr std::string_view kKey = "verify_steps";
  const std::size_t key = text.rfind(kKey);
  if (key == std::string::npos || text.find('}', key) != std::string::npos) return 0;  // it is an option of the plugin
  std::string value = text.substr(key + kKey.size());
  std::erase_if(value, [](char c) { return c == ' ' || c == '=' || c == '\t'; });
  std::int32_t steps = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), steps);
  if (error != std::errc() || end != value.data() + value.size() || steps < 0) {
    fail("verify_steps = '{}': expected a number of steps, as in: scheduler fcfs {{}} verify_steps = 20", value);
  }
  text.resize(key);
  return steps;
}

// Steps run only while there are requests, and a dialogue has none during a swap. So the last prompt runs again and
// again during the comparison, and its answers are not shown. Ctrl-C ends the comparison.
SwapFigures swap_while_it_runs(const ReplState& state, OpenPipeline& pipeline, const PipelineDescription& next,
                               SwapOptions options) {
  const Tokenizer& tokenizer = pipeline.assembly.tokenizer();
  const auto& completions = state.dialogue.completions;
  Request request;
  request.prompt = tokenizer.encode(completions.empty() ? "Once upon a time" : completions.back().prompt,
                                    /*add_special_tokens=*/true);
  request.sampling.seed = 0;
  request.sampling.temperature = 0.8f;
  request.sampling.ignore_eos = true;
  const EngineLimits limits = pipeline.assembly.limits();
  const std::int64_t tokens =
      std::min<std::int64_t>(limits.max_model_len, std::int64_t{limits.num_blocks} * limits.block_size);
  if (static_cast<std::int64_t>(request.prompt.size()) >= tokens)
    request.prompt.resize(static_cast<std::size_t>(tokens / 2));
  request.sampling.max_tokens = static_cast<std::int32_t>(tokens) - static_cast<std::int32_t>(request.prompt.size());
  std::stop_source stop;
  options.cancel = stop.get_token();
  std::future<SwapFigures> swap = std::async(std::launch::async, [&] { return pipeline.swap(next, options); });
  const auto is_over = [&] { return swap.wait_for(std::chrono::milliseconds(5)) == std::future_status::ready; };
  while (!is_over() && !InterruptGuard::interrupted()) {
    std::atomic<bool> has_ended = false;
    const RequestId id = pipeline.engine.submit(
        request, [&](const Delta& delta) { has_ended = has_ended || delta.finish != FinishReason::kNone; },
        News::kAtTheEnd);
    while (!has_ended && !is_over() && !InterruptGuard::interrupted()) {
    }
    pipeline.engine.abort(id);
    while (!has_ended) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  stop.request_stop();
  return swap.get();
}

// Opens another model as another pipeline before the first one ends. The dialogue is kept, except for everything that
// depends on the model.
SwapFigures swap_or_replace(ReplState& state, OpenPipeline& pipeline, const PipelineDescription& next,
                            const SwapOptions& options) {
  try {
    return options.verify_steps > 0 ? swap_while_it_runs(state, pipeline, next, options) : pipeline.swap(next, options);
  } catch (const AnotherModelError&) {
    if (options.verify_steps > 0) throw;  // with another model there is nothing to compare
  }
  std::unique_ptr<OpenPipeline> other = state.session.open_beside(pipeline, next);
  Settings settings = state.settings.for_model(other->service.info().defaults, other->assembly.dims().vocab_size);
  state.session.replace(pipeline, std::move(other), {});
  state.settings = std::move(settings);
  state.speculation = {};
  state.last_request.reset();
  return {};
}

void swap_parts(ReplState& state, const PartChange& change, const SwapOptions& options = {}) {
  OpenPipeline& pipeline = state.session.pipeline();
  const auto start = std::chrono::steady_clock::now();
  SwapFigures figures;
  try {
    figures = swap_or_replace(state, pipeline, pipeline.try_change(change), options);
  } catch (const Error& error) {
    fail("{}; the pipeline continues as it was ({})", error.what(), show_proposer(state));
  }
  if (change.key == "proposer") state.speculation = {};
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const std::string what = change.key == "proposer" ? show_proposer(state)
                           : change.plugin.empty()  ? change.key
                                                    : fmt::format("{}: {}", change.key, change.plugin);
  const std::string verified =
      figures.verified_steps > 0 ? fmt::format(", {} compared and equal", counted(figures.verified_steps, "step")) : "";
  state.console.say(fmt::format("{}; swapped in {:.2f} s{}", what, elapsed.count(), verified));
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
  std::string rest = text;
  SwapOptions options;
  options.verify_steps = take_verify_steps(rest);
  PartChange change = parse_part_change(rest);
  change.plugin = expand_home(change.plugin);
  swap_parts(state, change, options);
}

}  // namespace mortise
