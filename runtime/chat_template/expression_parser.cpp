#include "chat_template/expression_parser.hpp"

#include <algorithm>
#include <charconv>

#include "json/bounded_json.hpp"

namespace mortise::jinja {
namespace {

using ExpressionKind = Expression::Kind;
using TokenKind = Token::Kind;

// Real templates chain about 40 additions. Evaluation recurses as deep as an expression nests,
// and Limits::max_depth bounds that.
constexpr std::size_t kMaxDepth = 200;
constexpr std::size_t kMaxBrackets = 60;  // each bracket takes a dozen nested calls

const Maker kConstants(nullptr);

Operator operator_of(std::string_view sign) {
  static constexpr std::pair<std::string_view, Operator> kSigns[] = {
      {"+", Operator::kAdd},          {"-", Operator::kSubtract},     {"*", Operator::kMultiply},
      {"/", Operator::kDivide},       {"//", Operator::kFloorDivide}, {"%", Operator::kModulo},
      {"**", Operator::kPower},       {"==", Operator::kEqual},       {"!=", Operator::kNotEqual},
      {"<", Operator::kLess},         {"<=", Operator::kLessEqual},   {">", Operator::kGreater},
      {">=", Operator::kGreaterEqual}};
  return std::ranges::find(kSigns, sign, &std::pair<std::string_view, Operator>::first)->second;
}

bool is_one_of(const TokenStream& tokens, std::initializer_list<std::string_view> signs) {
  return std::ranges::any_of(signs, [&](std::string_view sign) { return tokens.is_sign(sign); });
}

}  // namespace

void TokenStream::refuse_next(std::string_view expected) const {
  const Token& token = peek();
  const bool has_text = token.kind == TokenKind::kName || token.kind == TokenKind::kString ||
                        token.kind == TokenKind::kSign || token.kind == TokenKind::kInteger ||
                        token.kind == TokenKind::kFloat;
  const std::string got = has_text                             ? quote(token.text)
                          : token.kind == TokenKind::kData     ? "text"
                          : token.kind == TokenKind::kEnd      ? "the end of the template"
                          : token.kind == TokenKind::kTagBegin ? "a tag"
                                                               : "the end of the tag";
  refuse(fmt::format("expected {}, got {}", expected, got));
}

ExpressionPointer ExpressionParser::measured(ExpressionPointer node) {
  std::size_t depth = 0;
  for (const auto& operand : node->operands) depth = std::max(depth, operand ? operand->depth : 0);
  for (const auto& [name, value] : node->named) depth = std::max(depth, value->depth);
  node->depth = depth + 1;
  if (node->depth > kMaxDepth) tokens_.refuse(fmt::format("an expression nests deeper than {} levels", kMaxDepth));
  return node;
}

ExpressionPointer ExpressionParser::make(ExpressionKind kind, std::vector<ExpressionPointer> operands) {
  auto node = std::make_unique<Expression>(Expression{.kind = kind, .line = tokens_.peek().line});
  node->operands = std::move(operands);
  if (!node->operands.empty() && node->operands.front()) node->line = node->operands.front()->line;
  return measured(std::move(node));
}

template <typename... Operands>
ExpressionPointer ExpressionParser::node(ExpressionKind kind, Operands... operands) {
  std::vector<ExpressionPointer> list;
  (list.push_back(std::move(operands)), ...);
  return make(kind, std::move(list));
}

ExpressionPointer ExpressionParser::variable(const std::string& name) {
  auto node = make(ExpressionKind::kName);
  node->text = name;
  node->name = tokens_.name_id(name);
  return node;
}

ExpressionPointer ExpressionParser::expression() {
  if (++nesting_ > kMaxBrackets) tokens_.refuse(fmt::format("brackets nest deeper than {} levels", kMaxBrackets));
  ExpressionPointer value = any();
  while (tokens_.skip_name("if")) {
    ExpressionPointer condition = any();
    ExpressionPointer otherwise = tokens_.skip_name("else") ? expression() : nullptr;
    value = node(ExpressionKind::kConditional, std::move(value), std::move(condition), std::move(otherwise));
  }
  --nesting_;
  return value;
}

ExpressionPointer ExpressionParser::any() {
  ExpressionPointer left = all();
  while (tokens_.skip_name("or")) left = node(ExpressionKind::kOr, std::move(left), all());
  return left;
}

ExpressionPointer ExpressionParser::all() {
  ExpressionPointer left = negation();
  while (tokens_.skip_name("and")) left = node(ExpressionKind::kAnd, std::move(left), negation());
  return left;
}

ExpressionPointer ExpressionParser::negation() {
  std::size_t count = 0;
  while (tokens_.skip_name("not")) ++count;
  ExpressionPointer value = comparison();
  for (; count > 0; --count) value = node(ExpressionKind::kNot, std::move(value));
  return value;
}

ExpressionPointer ExpressionParser::comparison() {
  ExpressionPointer first = sum();
  ExpressionPointer chain;
  const auto add = [&](Operator op) {
    if (!chain) chain = node(ExpressionKind::kCompare, std::move(first));
    chain->operators.push_back(op);
    chain->operands.push_back(sum());
    chain = measured(std::move(chain));
  };
  while (true) {
    if (is_one_of(tokens_, {"==", "!=", "<", "<=", ">", ">="})) {
      add(operator_of(tokens_.next().text));
    } else if (tokens_.skip_name("in")) {
      add(Operator::kIn);
    } else if (tokens_.is_name("not") && tokens_.peek(1).kind == TokenKind::kName && tokens_.peek(1).text == "in") {
      tokens_.next();
      tokens_.next();
      add(Operator::kNotIn);
    } else {
      return chain ? std::move(chain) : std::move(first);
    }
  }
}

ExpressionPointer ExpressionParser::sum() {
  ExpressionPointer left = concatenation();
  while (is_one_of(tokens_, {"+", "-"})) {
    const Operator op = operator_of(tokens_.next().text);
    left = node(ExpressionKind::kBinary, std::move(left), concatenation());
    left->operators = {op};
  }
  return left;
}

ExpressionPointer ExpressionParser::concatenation() {
  ExpressionPointer first = product();
  if (!tokens_.is_sign("~")) return first;
  std::vector<ExpressionPointer> parts;
  parts.push_back(std::move(first));
  while (tokens_.skip_sign("~")) parts.push_back(product());
  return make(ExpressionKind::kConcat, std::move(parts));
}

ExpressionPointer ExpressionParser::product() {
  ExpressionPointer left = power();
  while (is_one_of(tokens_, {"*", "/", "//", "%"})) {
    const Operator op = operator_of(tokens_.next().text);
    left = node(ExpressionKind::kBinary, std::move(left), power());
    left->operators = {op};
  }
  return left;
}

ExpressionPointer ExpressionParser::power() {
  ExpressionPointer left = unary();
  while (tokens_.skip_sign("**")) {
    left = node(ExpressionKind::kBinary, std::move(left), unary());
    left->operators = {Operator::kPower};
  }
  return left;
}

ExpressionPointer ExpressionParser::unary(bool with_filters) {
  if (++nesting_ > kMaxBrackets) tokens_.refuse(fmt::format("brackets nest deeper than {} levels", kMaxBrackets));
  ExpressionPointer value;
  if (tokens_.skip_sign("-")) {
    value = node(ExpressionKind::kNegate, unary(/*with_filters=*/false));
  } else if (tokens_.skip_sign("+")) {
    value = node(ExpressionKind::kPlus, unary(/*with_filters=*/false));
  } else {
    value = primary();
  }
  --nesting_;
  value = postfix(std::move(value));
  return with_filters ? filters(std::move(value)) : std::move(value);
}

ExpressionPointer ExpressionParser::primary() {
  const auto constant = [&](Value value) {
    auto node = make(ExpressionKind::kConstant);
    node->constant = std::move(value);
    return node;
  };
  const Token& token = tokens_.peek();
  switch (token.kind) {
    case TokenKind::kName: {
      if (token.text == "true" || token.text == "True") return tokens_.next(), constant(true);
      if (token.text == "false" || token.text == "False") return tokens_.next(), constant(false);
      if (token.text == "none" || token.text == "None") return tokens_.next(), constant(None{});
      return variable(tokens_.next().text);
    }
    case TokenKind::kString: {
      std::string text;
      while (tokens_.is(TokenKind::kString)) text += tokens_.next().text;
      return constant(kConstants.text(text));
    }
    case TokenKind::kInteger: {
      std::int64_t whole = 0;
      const auto [end, code] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), whole);
      if (code != std::errc{}) tokens_.refuse(fmt::format("{} has more than 64 bits", quote(token.text)));
      return tokens_.next(), constant(whole);
    }
    case TokenKind::kFloat: {
      double number = 0;
      const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
      // Infinity or 0, as in Python.
      if (error == std::errc::result_out_of_range) number = std::strtod(token.text.c_str(), nullptr);
      return tokens_.next(), constant(number);
    }
    default:
      break;
  }
  if (tokens_.skip_sign("(")) {
    if (tokens_.skip_sign(")")) return make(ExpressionKind::kTuple);
    ExpressionPointer inner = tuple();
    tokens_.expect_sign(")");
    return inner;
  }
  if (tokens_.skip_sign("[")) return brackets(ExpressionKind::kList, "]");
  if (tokens_.skip_sign("{")) return dict();
  tokens_.refuse_next("a value");
}

ExpressionPointer ExpressionParser::brackets(ExpressionKind kind, std::string_view close) {
  std::vector<ExpressionPointer> items;
  while (!tokens_.is_sign(close)) {
    items.push_back(expression());
    if (!tokens_.skip_sign(",")) break;
  }
  tokens_.expect_sign(close);
  return make(kind, std::move(items));
}

ExpressionPointer ExpressionParser::dict() {
  std::vector<ExpressionPointer> items;
  while (!tokens_.is_sign("}")) {
    items.push_back(expression());
    tokens_.expect_sign(":");
    items.push_back(expression());
    if (!tokens_.skip_sign(",")) break;
  }
  tokens_.expect_sign("}");
  return make(ExpressionKind::kDict, std::move(items));
}

ExpressionPointer ExpressionParser::tuple(bool conditional) {
  const auto one = [&] { return conditional ? expression() : any(); };
  ExpressionPointer first = one();
  if (!tokens_.is_sign(",")) return first;
  std::vector<ExpressionPointer> items;
  items.push_back(std::move(first));
  while (tokens_.skip_sign(",")) {
    if (tokens_.is(TokenKind::kTagEnd) || tokens_.is(TokenKind::kOutputEnd) || tokens_.is_sign(")")) break;
    items.push_back(one());
  }
  return make(ExpressionKind::kTuple, std::move(items));
}

ExpressionPointer ExpressionParser::target(bool attribute) {
  const auto one = [&]() -> ExpressionPointer {
    if (tokens_.skip_sign("(")) {
      ExpressionPointer inner = target(/*attribute=*/false);
      tokens_.expect_sign(")");
      return inner;
    }
    const std::string name = tokens_.expect_name();
    for (const char* word : {"true", "false", "none", "True", "False", "None", "not", "in", "if", "loop"}) {
      if (name == word) tokens_.refuse(fmt::format("'{}' cannot be assigned", name));
    }
    ExpressionPointer variable = this->variable(name);
    if (!attribute || !tokens_.skip_sign(".")) return variable;
    ExpressionPointer node = this->node(ExpressionKind::kAttribute, std::move(variable));
    node->text = tokens_.expect_name();
    return node;
  };
  if (++nesting_ > kMaxBrackets) tokens_.refuse(fmt::format("brackets nest deeper than {} levels", kMaxBrackets));
  ExpressionPointer first = one();
  --nesting_;
  if (!tokens_.is_sign(",")) return first;
  std::vector<ExpressionPointer> items;
  items.push_back(std::move(first));
  while (tokens_.skip_sign(",")) {
    if (!tokens_.is(TokenKind::kName) && !tokens_.is_sign("(")) break;
    if (tokens_.is_name("in")) break;
    items.push_back(one());
  }
  return make(ExpressionKind::kTuple, std::move(items));
}

ExpressionPointer ExpressionParser::postfix(ExpressionPointer value) {
  while (true) {
    if (tokens_.skip_sign(".")) {
      value = attribute(std::move(value));
    } else if (tokens_.skip_sign("[")) {
      value = item(std::move(value));
    } else if (tokens_.skip_sign("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPointer ExpressionParser::attribute(ExpressionPointer value) {
  if (tokens_.is(TokenKind::kInteger)) {
    ExpressionPointer key = primary();
    return node(ExpressionKind::kItem, std::move(value), std::move(key));
  }
  ExpressionPointer access = node(ExpressionKind::kAttribute, std::move(value));
  access->text = tokens_.expect_name();
  return access;
}

ExpressionPointer ExpressionParser::item(ExpressionPointer value) {
  const auto ends = [&] { return tokens_.is_sign("]") || tokens_.is_sign(":"); };
  ExpressionPointer begin = ends() ? nullptr : expression();
  if (!tokens_.is_sign(":")) {
    if (tokens_.is_sign(",")) tokens_.refuse("several keys between brackets are not supported");
    tokens_.expect_sign("]");
    if (!begin) tokens_.refuse_next("a key");
    return node(ExpressionKind::kItem, std::move(value), std::move(begin));
  }
  tokens_.expect_sign(":");
  ExpressionPointer end = ends() ? nullptr : expression();
  ExpressionPointer step = tokens_.skip_sign(":") && !ends() ? expression() : nullptr;
  tokens_.expect_sign("]");
  return node(ExpressionKind::kSlice, std::move(value), std::move(begin), std::move(end), std::move(step));
}

// REQUIRES: the opening bracket has been read.
void ExpressionParser::arguments(Expression& call) {
  while (!tokens_.is_sign(")")) {
    if (is_one_of(tokens_, {"*", "**"})) tokens_.refuse("arguments with * and ** are not supported");
    const Token& after = tokens_.peek(1);
    if (tokens_.is(TokenKind::kName) && after.kind == TokenKind::kSign && after.text == "=") {
      std::string name = tokens_.next().text;
      tokens_.next();
      call.named.emplace_back(std::move(name), expression());
    } else {
      if (!call.named.empty()) tokens_.refuse("an argument without a name follows named ones");
      call.operands.push_back(expression());
    }
    if (!tokens_.skip_sign(",")) break;
  }
  tokens_.expect_sign(")");
}

ExpressionPointer ExpressionParser::call(ExpressionPointer callee) {
  if (callee->kind == ExpressionKind::kAttribute && is_unsupported_method(callee->text)) {
    tokens_.refuse(fmt::format("the method '{}' is not supported", callee->text));
  }
  ExpressionPointer call = node(ExpressionKind::kCall, std::move(callee));
  arguments(*call);
  return measured(std::move(call));
}

ExpressionPointer ExpressionParser::filters(ExpressionPointer value) {
  while (true) {
    if (tokens_.skip_sign("|")) {
      value = filter(std::move(value));
    } else if (tokens_.skip_name("is")) {
      value = test(std::move(value));
    } else if (tokens_.skip_sign("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

// Checks the filter or test that map('upper') or select('string') names by a text.
void ExpressionParser::check_filter_name(const Expression& filter) const {
  const bool maps = filter.text == "map", attribute = filter.text == "selectattr" || filter.text == "rejectattr";
  if (!maps && !attribute && filter.text != "select" && filter.text != "reject") return;
  const std::size_t at = attribute ? 2 : 1;
  if (filter.operands.size() <= at || !filter.operands[at]) return;
  const MarkedText* name = filter.operands[at]->constant.text();
  if (name == nullptr || filter.operands[at]->kind != ExpressionKind::kConstant) return;
  if (maps && find_filter(name->bytes()) == nullptr) {
    tokens_.refuse(fmt::format("the filter {} is not supported", quote(name->bytes())));
  }
  if (!maps && find_test(name->bytes()) == nullptr) {
    tokens_.refuse(fmt::format("the test {} is not supported", quote(name->bytes())));
  }
}

ExpressionPointer ExpressionParser::filter(ExpressionPointer value) {
  ExpressionPointer filter = node(ExpressionKind::kFilter, std::move(value));
  filter->line = tokens_.peek().line;
  filter->text = tokens_.expect_name();
  filter->filter = find_filter(filter->text);
  if (filter->filter == nullptr) tokens_.refuse(fmt::format("the filter {} is not supported", quote(filter->text)));
  if (tokens_.skip_sign("(")) arguments(*filter);
  check_filter_name(*filter);
  return measured(std::move(filter));
}

bool ExpressionParser::argument_follows() const {
  const Token& token = tokens_.peek();
  if (token.kind == TokenKind::kName) return token.text != "else" && token.text != "or" && token.text != "and";
  return token.kind == TokenKind::kString || token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat ||
         is_one_of(tokens_, {"[", "{"});
}

ExpressionPointer ExpressionParser::test(ExpressionPointer value) {
  const bool negated = tokens_.skip_name("not");
  ExpressionPointer test = node(ExpressionKind::kTest, std::move(value));
  test->line = tokens_.peek().line;
  test->text = tokens_.expect_name();
  test->test = find_test(test->text);
  if (test->test == nullptr) tokens_.refuse(fmt::format("the test {} is not supported", quote(test->text)));
  if (tokens_.skip_sign("(")) {
    arguments(*test);
  } else if (argument_follows()) {
    if (tokens_.is_name("is")) tokens_.refuse("tests cannot be chained with 'is'; put 'and' between them");
    test->operands.push_back(postfix(primary()));
  }
  test = measured(std::move(test));
  return negated ? node(ExpressionKind::kNot, std::move(test)) : std::move(test);
}

ExpressionPointer ExpressionParser::block_filter() {
  ExpressionPointer value = filter(nullptr);
  while (tokens_.skip_sign("|")) value = filter(std::move(value));
  return value;
}

std::vector<Parameter> ExpressionParser::parameters() {
  std::vector<Parameter> list;
  tokens_.expect_sign("(");
  while (!tokens_.is_sign(")")) {
    Parameter parameter;
    parameter.text = tokens_.expect_name();
    parameter.name = tokens_.name_id(parameter.text);
    if (tokens_.skip_sign("=")) parameter.default_value = expression();
    if (!parameter.default_value && !list.empty() && list.back().default_value) {
      tokens_.refuse("a parameter without a default follows one with a default");
    }
    list.push_back(std::move(parameter));
    if (!tokens_.skip_sign(",")) break;
  }
  tokens_.expect_sign(")");
  return list;
}

ExpressionPointer ExpressionParser::postfix_call() {
  ExpressionPointer value = expression();
  if (value->kind != ExpressionKind::kCall) tokens_.refuse("{% call %} needs a call of a macro");
  return value;
}

}  // namespace mortise::jinja
