// Parses tags and text to statements.
#include <algorithm>

#include "chat_template/expression_parser.hpp"
#include "chat_template/syntax_tree.hpp"
#include "chat_template/token_stream.hpp"
#include "json/bounded_json.hpp"

namespace mortise::jinja {
namespace {

using StatementKind = Statement::Kind;
using TokenKind = Token::Kind;

constexpr std::size_t kMaxBlocks = 60;  // nested blocks

// Parses the statements of one template. Used by one thread.
class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(source), expressions_(tokens_) {}

  SyntaxTree run() {
    SyntaxTree tree;
    tree.body = block({});
    tree.names = std::move(tokens_.names);
    return tree;
  }

 private:
  using Words = std::initializer_list<std::string_view>;

  // The statements up to a tag that begins with one of `ends`, whose name is stored in end_. Empty `ends`: up to the
  // end of the template.
  Block block(Words ends) {
    if (++nesting_ > kMaxBlocks) tokens_.refuse(fmt::format("tags nest deeper than {} levels", kMaxBlocks));
    Block list;
    while (!tokens_.is(TokenKind::kEnd)) {
      if (tokens_.is(TokenKind::kData)) {
        auto data = make(StatementKind::kData);
        data->data = tokens_.next().text;
        list.push_back(std::move(data));
      } else if (tokens_.is(TokenKind::kOutputBegin)) {
        list.push_back(output());
      } else {
        tokens_.next();
        const std::string word = tokens_.peek().text;
        if (tokens_.is(TokenKind::kName) && std::ranges::find(ends, word) != ends.end()) {
          tokens_.next();
          end_ = word;
          --nesting_;
          return list;
        }
        if (auto statement = tag()) list.push_back(std::move(statement));
      }
    }
    if (ends.size() > 0) tokens_.refuse_next(fmt::format("the tag '{}'", *(ends.end() - 1)));
    --nesting_;
    return list;
  }

  // The body of a tag whose "%}" is still unread, up to one of `ends`.
  Block body(Words ends) {
    close();
    return block(ends);
  }
  void close() { tokens_.expect(TokenKind::kTagEnd, "the end of the tag"); }

  std::unique_ptr<Statement> make(StatementKind kind) const {
    return std::make_unique<Statement>(Statement{.kind = kind, .line = tokens_.peek().line});
  }

  std::unique_ptr<Statement> output() {
    tokens_.next();
    auto statement = make(StatementKind::kOutput);
    statement->value = expressions_.tuple();
    tokens_.expect(TokenKind::kOutputEnd, "'}}'");
    return statement;
  }

  std::unique_ptr<Statement> tag() {
    const int line = tokens_.peek().line;
    const std::string word = tokens_.expect_name();
    std::unique_ptr<Statement> statement;
    if (word == "if") {
      statement = if_tag();
    } else if (word == "for") {
      statement = for_tag();
    } else if (word == "set") {
      statement = set_tag();
    } else if (word == "macro") {
      statement = macro_tag();
    } else if (word == "call") {
      statement = call_tag();
    } else if (word == "filter") {
      statement = make(StatementKind::kFilterBlock);
      statement->value = expressions_.block_filter();
      statement->body = caught_body("endfilter");
    } else if (word == "with") {
      statement = with_tag();
    } else if (word == "generation") {
      // A tag of transformers that marks the assistant's text; it does not change the text.
      statement = make(StatementKind::kScope);
      statement->body = body({"endgeneration"});
    } else if (word == "break" || word == "continue") {
      if (num_loops_ == 0)
        tokens_.refuse(
            fmt::format("the tag '{}' stands outside of a loop, or in a block inside it whose text is captured", word));
      statement = make(word == "break" ? StatementKind::kBreak : StatementKind::kContinue);
    } else {
      fail("line {}: the tag {} is not supported", line, quote(word));
    }
    close();
    statement->line = line;
    return statement;
  }

  std::unique_ptr<Statement> if_tag() {
    auto statement = make(StatementKind::kIf);
    end_ = "if";
    while (end_ != "endif") {
      Branch branch;
      const bool otherwise = end_ == "else";
      if (!otherwise) branch.condition = expressions_.tuple(/*conditional=*/false);
      branch.body = otherwise ? body({"endif"}) : body({"elif", "else", "endif"});
      statement->branches.push_back(std::move(branch));
    }
    return statement;
  }

  std::unique_ptr<Statement> for_tag() {
    auto statement = make(StatementKind::kFor);
    statement->target = expressions_.target(/*attribute=*/false);
    if (!tokens_.skip_name("in")) tokens_.refuse_next("'in'");
    statement->value = expressions_.tuple(/*conditional=*/false);
    if (tokens_.skip_name("if")) statement->condition = expressions_.expression();
    if (tokens_.is_name("recursive")) tokens_.refuse("recursive loops are not supported; call a macro");
    ++num_loops_;
    statement->body = body({"else", "endfor"});
    --num_loops_;
    if (end_ == "else") statement->otherwise = body({"endfor"});
    return statement;
  }

  std::unique_ptr<Statement> set_tag() {
    auto statement = make(StatementKind::kSet);
    statement->target = expressions_.target(/*attribute=*/true);
    if (tokens_.skip_sign("=")) {
      statement->value = expressions_.tuple();
      return statement;
    }
    statement->kind = StatementKind::kSetBlock;
    if (tokens_.skip_sign("|")) statement->value = expressions_.block_filter();
    statement->body = caught_body("endset");
    return statement;
  }

  std::unique_ptr<Statement> with_tag() {
    auto statement = make(StatementKind::kScope);
    while (!tokens_.is(TokenKind::kTagEnd)) {
      ExpressionPointer target = expressions_.target(/*attribute=*/false);
      tokens_.expect_sign("=");
      statement->bindings.emplace_back(std::move(target), expressions_.expression());
      if (!tokens_.skip_sign(",")) break;
    }
    statement->body = body({"endwith"});
    return statement;
  }

  // A body whose text is captured (of a macro, for instance) is not part of the loops around it.
  Block caught_body(std::string_view end) {
    const std::size_t num_loops = std::exchange(num_loops_, 0);
    Block list = body({end});
    num_loops_ = num_loops;
    return list;
  }

  std::unique_ptr<Statement> macro_tag() {
    auto statement = make(StatementKind::kMacro);
    statement->macro.text = tokens_.expect_name();
    statement->name = tokens_.name_id(statement->macro.text);
    statement->macro.parameters = expressions_.parameters();
    statement->macro.body = caught_body("endmacro");
    return statement;
  }

  std::unique_ptr<Statement> call_tag() {
    auto statement = make(StatementKind::kCallBlock);
    statement->macro.text = "caller";
    if (tokens_.is_sign("(")) statement->macro.parameters = expressions_.parameters();
    statement->value = expressions_.postfix_call();
    statement->macro.body = caught_body("endcall");
    return statement;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  std::string end_;
  std::size_t nesting_ = 0;
  std::size_t num_loops_ = 0;
};

}  // namespace

SyntaxTree parse(std::string_view source) {
  SyntaxTree tree = Parser(source).run();
  check_names(tree);
  return tree;
}

}  // namespace mortise::jinja
