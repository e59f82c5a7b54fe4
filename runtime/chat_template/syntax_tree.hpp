// runtime/chat_template/syntax_tree.hpp: a parsed template. Immutable, so any number of threads may render it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat_template/value.hpp"

namespace mortise::jinja {

using NameId = std::uint32_t;  // number of a variable's name

// A filter gets the value before the bar, a test the value before `is`.
using Filter = Value (*)(Runtime&, const Value&, Arguments&);
using Test = bool (*)(Runtime&, const Value&, Arguments&);

enum class Operator {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Expression {
  enum class Kind {
    kConstant,
    kName,
    kAttribute,
    kItem,
    kSlice,
    kCall,
    kFilter,
    kTest,
    kNegate,
    kPlus,
    kNot,
    kAnd,
    kOr,
    kBinary,
    kConcat,
    kCompare,
    kConditional,
    kList,
    kTuple,
    kDict,
  };
  using Pointer = std::unique_ptr<Expression>;

  Kind kind;
  int line;
  std::size_t depth = 1;
  // kItem: value, key. kSlice: value, begin, end, step; all but the value may be null. kCall: callee, arguments.
  // kFilter and kTest: value, arguments; a filter block has a null value. kConditional: then, condition, else (may be
  // null). kDict: key, value, key, value, ..
  std::vector<Pointer> operands = {};
  Value constant = {};
  std::string text = {};  // name of a variable, attribute, filter or test
  NameId name = 0;
  std::vector<Operator> operators = {};                     // kBinary: one; kCompare: one before each further operand
  std::vector<std::pair<std::string, Pointer>> named = {};  // named arguments
  Filter filter = nullptr;
  Test test = nullptr;
};
using ExpressionPointer = Expression::Pointer;

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

struct Parameter {
  std::string text;
  NameId name;
  ExpressionPointer default_value;  // may be null
};

// A macro, or the body of a call block.
struct MacroDefinition {
  std::string text;
  std::vector<Parameter> parameters;
  Block body;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

struct Branch {
  ExpressionPointer condition;  // null for else
  Block body;
};

struct Statement {
  enum class Kind {
    kData,
    kOutput,
    kIf,
    kFor,
    kSet,
    kSetBlock,
    kMacro,
    kCallBlock,
    kFilterBlock,
    kScope,
    kBreak,
    kContinue
  };

  Kind kind;
  int line;
  std::string data = {};
  ExpressionPointer target = {};  // for kFor and sets: a name, a tuple of names, or an attribute of a namespace
  ExpressionPointer value = {};   // the printed, assigned, called or iterated value
  ExpressionPointer condition = {};
  std::vector<Branch> branches = {};
  Block body = {}, otherwise = {};
  std::vector<std::pair<ExpressionPointer, ExpressionPointer>> bindings = {};  // for {% with %}
  NameId name = 0;                                                             // for a macro
  MacroDefinition macro = {};
};

struct SyntaxTree {
  Block body;
  std::vector<std::string> names;  // by NameId
};

// Throws an Error that begins with "line N: " if the source is not valid Jinja, or uses something that is not
// supported.
SyntaxTree parse(std::string_view source);

// Throws an Error if the template calls an unknown function, and records which variables macros use. A step of parse().
void check_names(SyntaxTree& tree);

// For the parser, and for names that are looked up while the template runs. Null if there is none.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);
bool is_global_function(std::string_view name);
// Whether Python has a method of this name, but it is not supported.
bool is_unsupported_method(std::string_view name);

}  // namespace mortise::jinja
