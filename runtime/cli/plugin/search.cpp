// runtime/cli/plugin/search.cpp: `mortise plugin search`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/plugin/commands.hpp"
#include "cli/plugin/index_options.hpp"
#include "error.hpp"

namespace mortise {
namespace {

struct SearchOptions {
  IndexOptions index;
  std::vector<std::string> words;
};

void search_plugins(const SearchOptions& options) {
  const auto lines = read_index(options.index);
  if (lines.empty()) fail(ErrorCode::kNotFound, "{} is an index without plugins", index_location(options.index));
  const auto found = search(lines, options.words);
  if (found.empty()) {
    fail(ErrorCode::kNotFound, "{} has no such plugin; without words, all its plugins are listed",
         index_location(options.index));
  }
  std::size_t name_width = 0;
  std::size_t version_width = 0;
  for (const IndexLine& line : found) {
    version_width = std::max(version_width, line.version.size());
    for (const IndexedPart& part : line.parts) name_width = std::max(name_width, part.name.size());
  }
  for (const IndexLine& line : found) {
    for (const IndexedPart& part : line.parts) {
      fmt::print("{:{}}  {:{}}  {:9}  {}\n", part.name, name_width, line.version, version_width, kind_name(part.kind),
                 part.summary);
      for (const std::string& id : part.numerics) fmt::print("{:{}}  numerics {}\n", "", name_width, id);
    }
    const std::string reason = unusable_here(line.abi_major, line.abi_minor, line.platform);
    if (!reason.empty()) fmt::print("{:{}}  cannot be used here: {}\n", "", name_width, reason);
  }
}

}  // namespace

void add_plugin_search_command(CLI::App& plugin) {
  CLI::App* command = plugin.add_subcommand("search", "list the plugins of an index on a web server or in a folder");
  auto options = std::make_shared<SearchOptions>();
  command->add_option("words", options->words,
                      "that a plugin's name, kind, summary, id or numerics id has (default: all plugins)");
  add_index_options(*command, options->index);
  command->callback([options] { search_plugins(*options); });
}

}  // namespace mortise
