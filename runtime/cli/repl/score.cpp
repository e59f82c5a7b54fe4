#include "cli/repl/score.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "counted.hpp"
#include "error.hpp"

namespace mortise {
namespace {

// Returns a token's text in quotes, with escapes for invisible characters.
std::string quoted(const Tokenizer& tokenizer, std::int32_t id) {
  const std::string text = tokenizer.decode(std::span(&id, 1), /*skip_special_tokens=*/false);
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

ScoreText parse_score(std::string_view text) {
  ScoreText result;
  bool behind = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string& part = behind ? result.completion : result.prompt;
    if (text.substr(i, 2) == "\\|") {
      part += text[++i];
    } else if (text[i] == '|' && !behind) {
      behind = true;
    } else {
      part += text[i];
    }
  }
  if (!behind) fail("/score needs two texts with a bar between them, as in: /score The sky is | blue");
  if (result.completion.empty()) fail("/score: there is nothing to score after the bar");
  if (result.prompt.ends_with(' ')) result.prompt.pop_back();
  return result;
}

Request score_request(const ScoreText& text, const Tokenizer& tokenizer) {
  Request request;
  request.prompt = tokenizer.encode(text.prompt, /*add_special_tokens=*/true);
  if (request.prompt.empty()) fail("/score: there is no text before the bar; the first token needs a token before it");
  const std::vector<std::int32_t> completion = tokenizer.encode(text.completion, /*add_special_tokens=*/false);
  request.score_from = static_cast<std::int32_t>(request.prompt.size());
  request.prompt.insert(request.prompt.end(), completion.begin(), completion.end());
  request.sampling.max_tokens = 0;
  return request;
}

std::string score_table(const std::vector<TokenInfo>& tokens, const Tokenizer& tokenizer) {
  std::string table = fmt::format("{:>12}  {:>6}  {:>7}  token\n", "logprob", "rank", "id");
  double sum = 0;
  bool is_greedy = true;
  for (const TokenInfo& token : tokens) {
    table +=
        fmt::format("{:12.6f}  {:6}  {:7}  {}\n", token.logprob, token.rank, token.id, quoted(tokenizer, token.id));
    sum += token.logprob;
    is_greedy = is_greedy && token.rank == 1;
  }
  table += fmt::format("{:12.6f}  sum of {}; is_greedy {}\n", sum, counted(tokens.size(), "token"), is_greedy);
  return table;
}

}  // namespace mortise
