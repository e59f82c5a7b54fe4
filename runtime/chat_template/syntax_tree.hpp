// runtime/chat_template/syntax_tree.hpp: a template as it was parsed. Immutable, so many threads may render it at once.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat_template/value.hpp"

namespace mortise::jinja {

using NameId = std::uint32_t;  // variables by number

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
  // kItem: value, key. kSlice: value, begin, end, step, each but the first may be null. kCall: callee, arguments.
  // kFilter and kTest: value, arguments; a filter block has null for its value. kConditional: then, condition, else or
  // null. kDict: key, value, key, value ...
  std::vector<Pointer> operands = {};
  Value constant = {};
  std::string text = {};  // the name of a variable, attribute, filter or test
  NameId name = 0;
  std::vector<Operator> operators = {};  // one of kBinary; of kCompare one before each further operand
  std::vector<std::pair<std::string, Pointer>> named = {};  // arguments
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

// Of a macro, or of the body of a call block.
struct MacroDefinition {
  std::string text;
  std::vector<Parameter> parameters;
  Block body;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

struct Branch {
  ExpressionPointer condition;  // null: else
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
  ExpressionPointer target = {};  // of kFor and the sets: a name, a tuple of them, or an attribute of a namespace
  ExpressionPointer value = {};   // what is printed, assigned, called or run through
  ExpressionPointer condition = {};
  std::vector<Branch> branches = {};
  Block body = {}, otherwise = {};
  std::vector<std::pair<ExpressionPointer, ExpressionPointer>> bindings = {};  // of {% with %}
  NameId name = 0;                                                             // of a macro
  MacroDefinition macro = {};
};

struct SyntaxTree {
  Block body;
  std::vector<std::string> names;  // by NameId
};

// Throws an Error that begins with "line N: " for what is no Jinja and for what is not supported.
SyntaxTree parse(std::string_view source);

// Throws when the template calls what nothing gives it, and notes what macros use. Part of parse().
void check_names(SyntaxTree& tree);

// For the parser and for names that are looked up as the template runs: null when there is none.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);
bool is_global_function(std::string_view name);
// Whether Python has a method of this name that is not supported.
bool is_unsupported_method(std::string_view name);

}  // namespace mortise::jinja
