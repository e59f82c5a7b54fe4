#include "cli/repl/diff.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>

#include "assembly/default_script.hpp"
#include "cli/generation.hpp"
#include "cli/repl/entry.hpp"
#include "cli/repl/state.hpp"
#include "counted.hpp"
#include "error.hpp"
#include "pipeline/part_change.hpp"

namespace mortise {
namespace {

constexpr const char* kForm =
    "write /diff A B, each a script or changes between quotes, as in: /diff now \"attention cascade {block_size = "
    "16}\"";
constexpr std::string_view kSpace = " \t\n";

// Removes a quoted text from the beginning of `text` and returns it. A backslash in front of a quote makes it part of
// the text.
std::string take_quoted(std::string_view& text) {
  const char quote = text.front();
  std::string inside;
  std::size_t i = 1;
  for (; i < text.size() && text[i] != quote; ++i) {
    const bool is_escape = text[i] == '\\' && i + 1 < text.size() && text[i + 1] == quote;
    inside += text[is_escape ? ++i : i];
  }
  if (i >= text.size()) fail("a {} is not closed; {}", quote, kForm);
  text.remove_prefix(i + 1);
  return inside;
}

bool is_script(const std::string& set) {
  std::error_code unknown;
  return set.ends_with(".lua") || set.ends_with(".gguf") ||
         (!set.empty() && std::filesystem::is_directory(expand_home(set), unknown));
}

// Returns the pipeline of that name if the script has several, otherwise the script's first pipeline.
PipelineDescription pipeline_of(const std::string& script, const std::string& name) {
  const std::string path = expand_home(script);
  const std::vector<PipelineDescription> all =
      load_pipelines(std::span(&path, 1), PluginCatalog::standard()).pipelines();
  const auto same = std::ranges::find(all, name, &PipelineDescription::name);
  return same == all.end() ? all.front() : *same;
}

PipelineDescription parts_of(const std::string& set, const PipelineDescription& now) {
  if (set == "now") return now;
  if (is_script(set)) return pipeline_of(set, now.name);
  const PluginCatalog catalog = PluginCatalog::standard();
  PipelineDescription parts = now;
  for (const std::string& text : split_changes(set)) {
    PartChange change = parse_part_change(text);
    change.plugin = expand_home(change.plugin);
    parts = with_change(std::move(parts), change, catalog, std::filesystem::current_path());
  }
  return parts;
}

// Makes the pipeline run other parts. put_back() or the destructor restores the previous parts.
class OtherParts {
 public:
  explicit OtherParts(OpenPipeline& pipeline) : pipeline_(pipeline), before_(pipeline.assembly.description()) {}
  ~OtherParts() {
    try {
      put_back();
    } catch (const Error&) {  // a caller that wants errors calls put_back()
    }
  }
  OtherParts(const OtherParts&) = delete;
  OtherParts& operator=(const OtherParts&) = delete;

  const PipelineDescription& before() const { return before_; }
  void run(PipelineDescription parts) {
    // The prefix cache is off, because one run must not read what the other one cached.
    parts.kv_cache.prefix_cache = false;
    pipeline_.assembly.swap(pipeline_.engine, parts);
  }
  void put_back() {
    if (same_pipeline(pipeline_.assembly.description(), before_)) return;
    pipeline_.assembly.swap(pipeline_.engine, before_);
  }

 private:
  OpenPipeline& pipeline_;
  const PipelineDescription before_;
};

// Returns the request for these parts. If it chose a proposer that they do not have, the choice is dropped.
Request request_for(const Request& last, const PipelineDescription& parts) {
  Request request = last;
  request.logprobs = 0;
  const std::optional<std::string>& proposer = last.speculation.proposer;
  const bool has_it = !proposer || *proposer == "none" ||
                      std::ranges::find(parts.proposers, *proposer, &PartDescription::name) != parts.proposers.end();
  if (!has_it) request.speculation.proposer.reset();
  return request;
}

std::string show_token(const Tokenizer& tokenizer, std::span<const TokenInfo> tokens, std::size_t index) {
  if (index >= tokens.size()) return "has ended";
  const TokenInfo& token = tokens[index];
  return fmt::format("has {} {} (log probability {})", token.id,
                     nlohmann::json(tokenizer.decode(std::span(&token.id, 1), /*skip_special_tokens=*/false))
                         .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                     token.logprob);
}

// Reports how the two runs compare. Throws an Error if they differ.
void compare(ReplState& state, const Generation& a, const Generation& b) {
  const Tokenizer& tokenizer = state.session.pipeline().assembly.tokenizer();
  const std::optional<std::size_t> index = first_difference(a.tokens, b.tokens);
  if (!index) {
    return state.console.say(
        fmt::format("equal: {} with the same log probabilities, bit by bit", counted(a.tokens.size(), "token")));
  }
  const bool same_token =
      *index < std::min(a.tokens.size(), b.tokens.size()) && a.tokens[*index].id == b.tokens[*index].id;
  fail("not equal: token {}{}: A {}, B {}", *index + 1, same_token ? ", only in its log probability" : "",
       show_token(tokenizer, a.tokens, *index), show_token(tokenizer, b.tokens, *index));
}

}  // namespace

std::vector<std::string> split_sets(std::string_view text) {
  std::vector<std::string> sets;
  text = trimmed(text);
  // The text may be a change in the form of /swap.
  const std::string_view first = text.substr(0, text.find_first_of(kSpace));
  const bool is_change = first.size() < text.size() && first.find_first_of("\"'./") == first.npos && first != "now";
  if (is_change) return {std::string(text)};
  while (!text.empty()) {
    if (text.front() == '"' || text.front() == '\'') {
      sets.push_back(std::string(trimmed(take_quoted(text))));
    } else {
      const std::size_t end = std::min(text.find_first_of(kSpace), text.size());
      sets.emplace_back(text.substr(0, end));
      text.remove_prefix(end);
    }
    text = trimmed(text);
  }
  if (sets.empty() || sets.size() > 2)
    fail("{} sets of parts are given, but /diff compares two; {}", sets.size(), kForm);
  for (const std::string& set : sets) {
    if (set.empty()) fail("a set of parts is empty; {}", kForm);
  }
  return sets;
}

std::vector<std::string> split_changes(std::string_view text) {
  std::vector<std::string> changes(1);
  int depth = 0;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == '\\' && i + 1 < text.size()) changes.back() += text[i++];
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}') {
      --depth;
    } else if (c == ';' && depth == 0) {
      changes.emplace_back();
      continue;
    }
    changes.back() += text[i];
  }
  std::erase_if(changes, [](const std::string& change) { return is_blank(change); });
  return changes;
}

std::optional<std::size_t> first_difference(std::span<const TokenInfo> a, std::span<const TokenInfo> b) {
  const auto same = [](const TokenInfo& x, const TokenInfo& y) {
    return x.id == y.id && std::bit_cast<std::uint32_t>(x.logprob) == std::bit_cast<std::uint32_t>(y.logprob);
  };
  const auto [at, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end(), same);
  if (at == a.end() && other == b.end()) return std::nullopt;
  return static_cast<std::size_t>(at - a.begin());
}

void diff(ReplState& state, const std::string& text) {
  std::vector<std::string> sets = split_sets(text);
  if (sets.size() == 1) sets.insert(sets.begin(), "now");
  if (!state.last_request) fail("there is no prompt to run again yet; write one, then /diff");
  OpenPipeline& pipeline = state.session.pipeline();
  OtherParts other(pipeline);
  const PipelineDescription parts[] = {parts_of(sets[0], other.before()), parts_of(sets[1], other.before())};
  Generation runs[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const char name = static_cast<char>('A' + i);
    try {
      other.run(parts[i]);
    } catch (const Error& error) {
      fail("{}: {}; nothing was compared", name, error.what());
    }
    runs[i] = generate(pipeline.engine, request_for(*state.last_request, parts[i]), [](const Delta&) {});
    if (runs[i].last.finish == FinishReason::kAborted) return state.console.say("stopped; the parts are unchanged");
    state.console.say(fmt::format("{} {}: {}", name, sets[i], describe(runs[i])));
  }
  try {
    other.put_back();
  } catch (const Error& error) {
    state.console.error(
        fmt::format("the previous parts cannot be restored: {}; /swap shows the serving parts", error.what()));
  }
  compare(state, runs[0], runs[1]);
}

}  // namespace mortise
