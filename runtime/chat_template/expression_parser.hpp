// runtime/chat_template/expression_parser.hpp: what stands between {{ and }}, and within tags. Jinja's grammar, one
// function for each level of precedence.
#pragma once

#include <string>
#include <vector>

#include "chat_template/syntax_tree.hpp"
#include "chat_template/token_stream.hpp"

namespace mortise::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExpressionPointer expression();
  // One expression, or several with commas between them: a tuple. `conditional`: "a if b" may stand there.
  ExpressionPointer tuple(bool conditional = true);
  // A variable, or a tuple of them; `attribute`: "ns.x" too.
  ExpressionPointer target(bool attribute);
  // Filters one behind another, for the text of a block: "upper | trim" in {% filter upper | trim %}.
  ExpressionPointer block_filter();
  // Names and defaults between brackets.
  std::vector<Parameter> parameters();
  ExpressionPointer postfix_call();  // what {% call %} calls

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
  // Depth and number, of what got more operands.
  ExpressionPointer measured(ExpressionPointer node);
  template <typename... Operands>
  ExpressionPointer node(Expression::Kind kind, Operands... operands);

  TokenStream& tokens_;
  std::size_t nesting_ = 0;
};

}  // namespace mortise::jinja
