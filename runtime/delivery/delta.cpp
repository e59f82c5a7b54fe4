#include "delivery/delta.hpp"

#include <iterator>
#include <utility>

namespace mortise {
namespace {

void move_behind(std::vector<TokenInfo>& tokens, std::vector<TokenInfo>&& more) {
  if (tokens.empty()) {
    tokens = std::move(more);
  } else {
    tokens.insert(tokens.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
  }
}

}  // namespace

const char* to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAborted:
      return "abort";
    case FinishReason::kError:
      return "error";
  }
  return "";
}

void Delta::append(Delta&& next) {
  if (!tokens.empty() && !next.tokens.empty()) earlier.push_back({sent, tokens.size()});
  move_behind(prompt, std::move(next.prompt));
  move_behind(tokens, std::move(next.tokens));
  text += next.text;
  sent = next.sent;
  if (next.started) started = next.started;
  if (next.first_token) first_token = next.first_token;
  if (next.finish == FinishReason::kNone) return;
  finish = next.finish;
  error = std::move(next.error);
  code = next.code;
  stop_token = next.stop_token;
  seed = next.seed;
  usage = next.usage;
}

void Delta::clear() {
  request = 0;
  choice = 0;
  prompt.clear();
  tokens.clear();
  text.clear();
  finish = FinishReason::kNone;
  error.clear();
  code = ErrorCode::kInternal;
  stop_token.reset();
  seed = 0;
  usage = {};
  started.reset();
  first_token.reset();
  sent = {};
  earlier.clear();
}

}  // namespace mortise
