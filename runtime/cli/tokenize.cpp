// runtime/cli/tokenize.cpp: `mortise tokenize MODEL_DIR` turns each text of JSON lines into the list of its ids, like
// encode(add_special_tokens=False); `mortise detokenize MODEL_DIR` turns each list of ids into its text.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "error.hpp"
#include "json/bounded_json.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {
namespace {

using Json = nlohmann::json;

Json tokenize(const Tokenizer& tokenizer, const Json& line) {
  if (!line.is_string()) fail("expected a JSON string");
  return tokenizer.encode(line.get_ref<const std::string&>(), /*add_special_tokens=*/false);
}

Json detokenize(const Tokenizer& tokenizer, const Json& line) {
  if (!line.is_array()) fail("expected a JSON list of token ids");
  std::vector<std::int32_t> ids;
  for (const Json& id : line) {
    const bool fits = id.is_number_unsigned() && id.get<std::uint64_t>() < tokenizer.vocab_size();
    if (!fits) fail("{} is not a token id; expected 0 to {}", quote(id.dump()), tokenizer.vocab_size() - 1);
    ids.push_back(id.get<std::int32_t>());
  }
  return tokenizer.decode(ids, /*skip_special_tokens=*/false);
}

// Converts line by line. An invalid line is reported with its number and skipped; blank lines are skipped silently.
void convert_lines(const std::string& model_dir, const std::function<Json(const Tokenizer&, const Json&)>& convert) {
  const Tokenizer tokenizer = Tokenizer::load(model_dir);
  std::ios::sync_with_stdio(false);
  bool all_good = true;
  std::string line;
  for (std::size_t number = 1; std::getline(std::cin, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      const std::string out = convert(tokenizer, parse_json(line)).dump() + "\n";
      std::fwrite(out.data(), 1, out.size(), stdout);
    } catch (const Error& error) {
      all_good = false;
      std::fprintf(stderr, "mortise: line %zu: %s\n", number, error.what());
    }
  }
  if (!all_good) throw CLI::RuntimeError(1);
}

void add(CLI::App& app, const char* name, const char* help,
         std::function<Json(const Tokenizer&, const Json&)> convert) {
  CLI::App* command = app.add_subcommand(name, help);
  auto model_dir = std::make_shared<std::string>();
  command->add_option("model_dir", *model_dir, "folder with tokenizer.json, or a GGUF file")->required();
  command->callback([model_dir, convert = std::move(convert)] { convert_lines(*model_dir, convert); });
}

}  // namespace

void add_tokenize_commands(CLI::App& app) {
  add(app, "tokenize", "convert JSON strings on standard input to lists of token ids, one on each line", tokenize);
  add(app, "detokenize", "convert lists of token ids on standard input to JSON strings, one on each line", detokenize);
}

}  // namespace mortise
