// runtime/chat_template/token_stream.hpp: the tokens of a template, as both parsers read them, and the parsers' errors.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat_template/lexer.hpp"
#include "chat_template/syntax_tree.hpp"
#include "error.hpp"

namespace mortise::jinja {

// A position in the list of tokens. Used by one thread. Invariant: at_ is at most the index of the last token, which
// ends the list.
class TokenStream {
 public:
  explicit TokenStream(std::string_view source) : tokens_(tokenize(source)) {}

  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token next() { return at_ + 1 < tokens_.size() ? std::move(tokens_[at_++]) : tokens_[at_]; }
  bool is(Token::Kind kind) const { return peek().kind == kind; }
  bool is_sign(std::string_view sign) const { return is(Token::Kind::kSign) && peek().text == sign; }
  bool is_name(std::string_view name) const { return is(Token::Kind::kName) && peek().text == name; }
  bool skip_sign(std::string_view sign) { return is_sign(sign) && (next(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (next(), true); }
  void expect_sign(std::string_view sign) {
    if (!skip_sign(sign)) refuse_next(fmt::format("'{}'", sign));
  }
  std::string expect_name() {
    if (!is(Token::Kind::kName)) refuse_next("a name");
    return next().text;
  }
  void expect(Token::Kind kind, std::string_view what) {
    if (!is(kind)) refuse_next(what);
    next();
  }
  [[noreturn]] void refuse(std::string_view what) const { fail("line {}: {}", peek().line, what); }
  [[noreturn]] void refuse_next(std::string_view expected) const;

  NameId name_id(const std::string& name) {
    const auto [at, is_new] = ids_.emplace(name, static_cast<NameId>(names.size()));
    if (is_new) names.push_back(name);
    return at->second;
  }
  std::vector<std::string> names;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::map<std::string, NameId> ids_;
};

}  // namespace mortise::jinja
