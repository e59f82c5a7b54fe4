// runtime/chat_template/expression_parser.hpp: parses expressions, between {{ and }} and inside tags. Jinja's grammar,
// one function for each level of precedence.
#pragma once

#include <string>
#include <vector>

#include "chat_template/syntax_tree.hpp"
#include "chat_template/token_stream.hpp"

namespace mortise::jinja {

// Parses the expressions of one template. Used by one thread. Invariant: tokens_ stands after the last expression that
// was parsed.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExpressionPointer expression();
  // Parses an expression, or several with commas between them, which make a tuple. `conditional`: "a if b" is allowed.
  ExpressionPointer tuple(bool conditional = true);
  // Parses a variable or a tuple of variables. `attribute`: "ns.x" is allowed as well.
  ExpressionPointer target(bool attribute);
  // Parses a chain of filters for the text of a block: "upper | trim" in {% filter upper | trim %}.
  ExpressionPointer block_filter();
  // Parses parameters with their defaults, in brackets.
  std::vector<Parameter> parameters();
  ExpressionPointer postfix_call();  // the call in a {% call %} tag

 private:
  ExpressionPointer any();
  ExpressionPointer all();
  ExpressionPointer negation();
  ExpressionPointer comparison();
  ExpressionPointer sum();
  ExpressionPointer concatenation();
  ExpressionPointer product();
  ExpressionPointer power();
  ExpressionPointer unary(bool filters = true);
  ExpressionPointer primary();
  ExpressionPointer brackets(Expression::Kind kind, std::string_view close);
  ExpressionPointer dict();
  ExpressionPointer postfix(ExpressionPointer value);
  ExpressionPointer attribute(ExpressionPointer value);
  ExpressionPointer item(ExpressionPointer value);
  ExpressionPointer call(ExpressionPointer callee);
  ExpressionPointer filters(ExpressionPointer value);
  ExpressionPointer filter(ExpressionPointer value);
  ExpressionPointer test(ExpressionPointer value);
  void arguments(Expression& call);
  bool argument_follows() const;
  void check_filter_name(const Expression& filter) const;

  ExpressionPointer make(Expression::Kind kind, std::vector<ExpressionPointer> operands = {});
  ExpressionPointer variable(const std::string& name);
  // Sets the depth of a node from its operands. Refuses an expression that nests too deep.
  ExpressionPointer measured(ExpressionPointer node);
  template <typename... Operands>
  ExpressionPointer node(Expression::Kind kind, Operands... operands);

  TokenStream& tokens_;
  std::size_t nesting_ = 0;
};

}  // namespace mortise::jinja
