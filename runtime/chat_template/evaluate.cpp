// Evaluates expressions.
#include "chat_template/interpreter.hpp"

namespace mortise::jinja {

using ExpressionKind = Expression::Kind;

namespace {

// Jinja's Markup escapes its operand in every operation. Here only + does that, so other operations refuse markup.
void refuse_markup(const Value& value) {
  const String* text = value.object<String>();
  if (text == nullptr || !text->is_markup) return;
  fail("a text that came through 'safe' can only be printed, and joined with + and ~; put 'safe' at the end");
}

void refuse_markup(const Value& value, const Arguments& arguments) {
  refuse_markup(value);
  for (const Value& argument : arguments.positional) refuse_markup(argument);
  for (const auto& [name, argument] : arguments.named) refuse_markup(argument);
}

}  // namespace

Value Interpreter::evaluate(const Expression& expression) {
  const Level level(runtime_.budget());
  runtime_.budget().step();
  line_ = expression.line;
  const auto operand = [&](std::size_t i) { return evaluate(*expression.operands[i]); };
  switch (expression.kind) {
    case ExpressionKind::kConstant:
      return expression.constant;
    case ExpressionKind::kName:
      return variable(expression);
    case ExpressionKind::kAttribute:
      return runtime_.attribute(operand(0), expression.text);
    case ExpressionKind::kItem: {
      const Value value = operand(0);
      refuse_markup(value);
      return runtime_.item(value, operand(1));
    }
    case ExpressionKind::kSlice: {
      const Value value = operand(0), begin = evaluate_or_none(expression.operands[1]);
      const Value end = evaluate_or_none(expression.operands[2]);
      refuse_markup(value);
      return runtime_.slice(value, begin, end, evaluate_or_none(expression.operands[3]));
    }
    case ExpressionKind::kCall:
      return call(expression);
    case ExpressionKind::kFilter:
      return filtered(expression, nullptr);
    case ExpressionKind::kTest:
      return tested(expression);
    case ExpressionKind::kNegate:
    case ExpressionKind::kPlus:
      return negated(expression);
    case ExpressionKind::kNot:
      return !operand(0).truth();
    case ExpressionKind::kAnd: {
      Value left = operand(0);
      return left.truth() ? operand(1) : left;
    }
    case ExpressionKind::kOr: {
      Value left = operand(0);
      return left.truth() ? left : operand(1);
    }
    case ExpressionKind::kBinary: {
      const Value left = operand(0), right = operand(1);
      line_ = expression.line;
      if (expression.operators[0] != Operator::kAdd) {
        refuse_markup(left);
        refuse_markup(right);
      }
      return runtime_.binary(expression.operators[0], left, right);
    }
    case ExpressionKind::kConcat:
      return concatenated(expression);
    case ExpressionKind::kCompare:
      return compared(expression);
    case ExpressionKind::kConditional:
      if (operand(1).truth()) return operand(0);
      return expression.operands[2] ? operand(2) : undefined("an 'if' without 'else' gave nothing");
    case ExpressionKind::kList:
      return runtime_.make().list(all(expression.operands, 0));
    case ExpressionKind::kTuple:
      return runtime_.make().tuple(all(expression.operands, 0));
    case ExpressionKind::kDict:
      return made_dict(expression);
  }
  return {};
}

Value Interpreter::variable(const Expression& expression) {
  if (const Value* value = scope_->find(expression.name, runtime_.budget())) return *value;
  return runtime_.missing(fmt::format("'{}' is undefined", short_name(expression.text)));
}

std::vector<Value> Interpreter::all(const std::vector<ExpressionPointer>& expressions, std::size_t begin) {
  std::vector<Value> values;
  for (std::size_t i = begin; i < expressions.size(); ++i) values.push_back(evaluate(*expressions[i]));
  return values;
}

Arguments Interpreter::arguments_of(const Expression& expression) {
  Arguments arguments{all(expression.operands, 1), {}};
  for (const auto& [name, value] : expression.named) arguments.named.emplace_back(name, evaluate(*value));
  return arguments;
}

Value Interpreter::call(const Expression& expression) {
  const Expression& callee = *expression.operands[0];
  if (callee.kind == ExpressionKind::kAttribute) {
    // Calls the method directly, without a bound function that would be made for this one call.
    const Value self = evaluate(*callee.operands[0]);
    const Method method = find_method(self, callee.text);
    const Value function = method != nullptr ? Value() : runtime_.attribute(self, callee.text);
    Arguments arguments = arguments_of(expression);
    line_ = expression.line;
    if (method == nullptr) return runtime_.call(function, arguments);
    refuse_markup(self, arguments);
    return method(runtime_, self, arguments);
  }
  const Value function = evaluate(callee);
  Arguments arguments = arguments_of(expression);
  line_ = expression.line;
  return runtime_.call(function, arguments);
}

Value Interpreter::filtered(const Expression& expression, const Value* block_text) {
  // The innermost filter of a filter block has no value of its own.
  const ExpressionPointer& operand = expression.operands[0];
  const Value value = !operand                ? *block_text
                      : block_text != nullptr ? filtered(*operand, block_text)
                                              : evaluate(*operand);
  Arguments arguments = arguments_of(expression);
  line_ = expression.line;
  refuse_markup(value, arguments);
  return expression.filter(runtime_, value, arguments);
}

bool Interpreter::tested(const Expression& expression) {
  const Value value = evaluate(*expression.operands[0]);
  Arguments arguments = arguments_of(expression);
  line_ = expression.line;
  refuse_markup(value, arguments);
  return expression.test(runtime_, value, arguments);
}

bool Interpreter::compared(const Expression& expression) {
  Value left = evaluate(*expression.operands[0]);
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = evaluate(*expression.operands[i + 1]);
    refuse_markup(left);
    refuse_markup(right);
    if (!runtime_.compare(expression.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::concatenated(const Expression& expression) {
  MarkedText text;
  Growth growth(runtime_.budget());
  for (const auto& part : expression.operands) {
    text.append(runtime_.text_of(evaluate(*part)));
    growth.reach(text.memory());
  }
  return runtime_.make().text(std::move(text));
}

Value Interpreter::negated(const Expression& expression) {
  const Value value = evaluate(*expression.operands[0]);
  const Value zero(std::int64_t{0});
  const bool minus = expression.kind == ExpressionKind::kNegate;
  if (minus && value.get_if<double>() != nullptr) return -*value.number();  // also for 0
  return runtime_.binary(minus ? Operator::kSubtract : Operator::kAdd, zero, value);
}

Value Interpreter::made_dict(const Expression& expression) {
  Dict::Entries entries;
  for (std::size_t i = 0; i < expression.operands.size(); i += 2) {
    Value key = evaluate(*expression.operands[i]);
    entries.emplace_back(std::move(key), evaluate(*expression.operands[i + 1]));
  }
  return runtime_.make().dict(std::move(entries));
}

}  // namespace mortise::jinja
