// runtime/chat_template/interpreter.hpp: executes a template once. Used by one thread.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat_template/runtime.hpp"
#include "chat_template/syntax_tree.hpp"

namespace mortise::jinja {

// The variables of a block, and the scope around it. Used by one thread. Invariant: each name is there once.
struct Scope {
  explicit Scope(std::shared_ptr<Scope> around) : around(std::move(around)) {}
  // Both search the variables one by one, and pay for it.
  Value* find(NameId name, Budget& budget);
  void set(NameId name, Value value, Budget& budget);

  const std::shared_ptr<Scope> around;
  std::vector<std::pair<NameId, Value>> variables;
};

// One execution of a template. Invariant: scope_ is the innermost scope of the statement that runs. Used by one thread.
class Interpreter {
 public:
  // Both outlive it.
  Interpreter(const SyntaxTree& tree, Runtime& runtime);
  ~Interpreter();

  void define(const std::string& name, Value value);
  // Throws an Error that begins with "line N: ".
  MarkedText run();

 private:
  enum class Flow { kOn, kBreak, kContinue };

  Flow run(const Block& block);
  Flow run(const Statement& statement);
  Flow run_if(const Statement& statement);
  Flow run_for(const Statement& statement);
  Flow run_scope(const Statement& statement);
  void run_call_block(const Statement& statement);
  std::vector<Value> loop_items(const Statement& statement);
  void set(NameId name, Value value) { scope_->set(name, std::move(value), runtime_.budget()); }
  void assign(const Expression& target, const Value& value);
  void print(const Value& value);
  // Executes a block and returns its text instead of printing it.
  MarkedText captured(const Block& block);
  Value make_macro(const MacroDefinition& macro);
  Value call_macro(const MacroDefinition& macro, const std::shared_ptr<Scope>& defined_in, Arguments& arguments);
  void bind(const MacroDefinition& macro, Arguments& arguments);

  Value evaluate(const Expression& expression);
  Value evaluate_or_none(const ExpressionPointer& expression) { return expression ? evaluate(*expression) : Value(); }
  Value variable(const Expression& expression);
  Value call(const Expression& expression);
  Value filtered(const Expression& expression, const Value* block_text);
  bool tested(const Expression& expression);
  bool compared(const Expression& expression);
  Value concatenated(const Expression& expression);
  Value negated(const Expression& expression);
  Value made_dict(const Expression& expression);
  std::vector<Value> all(const std::vector<ExpressionPointer>& expressions, std::size_t begin);
  Arguments arguments_of(const Expression& expression);

  class Inner;  // a scope inside of the current one, until the end of a C++ scope

  const SyntaxTree& tree_;
  Runtime& runtime_;
  std::shared_ptr<Scope> scope_;
  std::vector<std::shared_ptr<Scope>> kept_;  // scopes that macros refer to by weak pointers
  MarkedText* out_ = nullptr;
  MarkedText text_;
  Growth text_growth_;
  Growth* growth_ = nullptr;  // of out_
  NameId loop_name_ = UINT32_MAX, caller_name_ = UINT32_MAX, varargs_name_ = UINT32_MAX, kwargs_name_ = UINT32_MAX;
  int line_ = 1;
};

}  // namespace mortise::jinja
