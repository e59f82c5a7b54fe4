// Executes statements. evaluate.cpp evaluates expressions.
#include "chat_template/interpreter.hpp"

#include <algorithm>

namespace mortise::jinja {

constexpr std::size_t kKeptScopeBytes = 500;  // estimate for a scope with a few variables

Value* Scope::find(NameId name, Budget& budget) {
  for (Scope* scope = this; scope != nullptr; scope = scope->around.get()) {
    budget.step(scope->variables.size() / 16);
    const auto at = std::ranges::find(scope->variables, name, &std::pair<NameId, Value>::first);
    if (at != scope->variables.end()) return &at->second;
  }
  return nullptr;
}

void Scope::set(NameId name, Value value, Budget& budget) {
  budget.step(variables.size() / 16);
  const auto at = std::ranges::find(variables, name, &std::pair<NameId, Value>::first);
  if (at != variables.end()) {
    at->second = std::move(value);
  } else {
    variables.emplace_back(name, std::move(value));
  }
}

// Opens an inner scope; the destructor returns to the scope before. Used by one thread.
class Interpreter::Inner {
 public:
  Inner(Interpreter& interpreter, std::shared_ptr<Scope> around)
      : interpreter_(interpreter), before_(interpreter.scope_) {
    interpreter.scope_ = std::make_shared<Scope>(std::move(around));
  }
  explicit Inner(Interpreter& interpreter) : Inner(interpreter, interpreter.scope_) {}
  ~Inner() { interpreter_.scope_ = before_; }
  Inner(const Inner&) = delete;
  Inner& operator=(const Inner&) = delete;

 private:
  Interpreter& interpreter_;
  const std::shared_ptr<Scope> before_;
};

Interpreter::Interpreter(const SyntaxTree& tree, Runtime& runtime)
    : tree_(tree), runtime_(runtime), scope_(std::make_shared<Scope>(nullptr)), text_growth_(runtime.budget()) {
  const auto id_of = [&](std::string_view name, NameId& id) {
    const auto at = std::ranges::find(tree.names, name);
    if (at != tree.names.end()) id = static_cast<NameId>(at - tree.names.begin());
  };
  id_of("loop", loop_name_);
  id_of("caller", caller_name_);
  id_of("varargs", varargs_name_);
  id_of("kwargs", kwargs_name_);
  for (NameId id = 0; id < tree.names.size(); ++id) {
    if (auto function = global_function(runtime, tree.names[id])) set(id, std::move(*function));
  }
}

// Namespaces and scopes may refer to each other, so their contents are destroyed first.
Interpreter::~Interpreter() {
  for (const auto& scope : kept_) scope->variables.clear();
  runtime_.clear_namespaces();
}

void Interpreter::define(const std::string& name, Value value) {
  runtime_.budget().step(1 + tree_.names.size() / 16);
  const auto at = std::ranges::find(tree_.names, name);
  if (at != tree_.names.end()) set(static_cast<NameId>(at - tree_.names.begin()), std::move(value));
}

MarkedText Interpreter::run() {
  out_ = &text_;
  growth_ = &text_growth_;
  try {
    run(tree_.body);
  } catch (const Error& error) {
    fail(error.code(), "line {}: {}", line_, error.what());
  }
  return std::move(text_);
}

Interpreter::Flow Interpreter::run(const Block& block) {
  const Level level(runtime_.budget());
  for (const auto& statement : block) {
    if (const Flow flow = run(*statement); flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::run(const Statement& statement) {
  using Kind = Statement::Kind;
  line_ = statement.line;
  runtime_.budget().step();
  switch (statement.kind) {
    case Kind::kData:
      out_->append(statement.data, Source::kTemplate);
      growth_->reach(out_->memory());
      break;
    case Kind::kOutput:
      print(evaluate(*statement.value));
      break;
    case Kind::kIf:
      return run_if(statement);
    case Kind::kFor:
      return run_for(statement);
    case Kind::kSet:
      assign(*statement.target, evaluate(*statement.value));
      break;
    case Kind::kSetBlock: {
      Value text = runtime_.make().text(captured(statement.body));
      assign(*statement.target, statement.value ? filtered(*statement.value, &text) : text);
      break;
    }
    case Kind::kMacro:
      set(statement.name, make_macro(statement.macro));
      break;
    case Kind::kCallBlock:
      run_call_block(statement);
      break;
    case Kind::kFilterBlock: {
      const Value text = runtime_.make().text(captured(statement.body));
      print(filtered(*statement.value, &text));
      break;
    }
    case Kind::kScope:
      return run_scope(statement);
    case Kind::kBreak:
      return Flow::kBreak;
    case Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kOn;
}

void Interpreter::print(const Value& value) {
  out_->append(runtime_.text_of(value));
  growth_->reach(out_->memory());
}

Interpreter::Flow Interpreter::run_if(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (!branch.condition || evaluate(*branch.condition).truth()) return run(branch.body);
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::run_scope(const Statement& statement) {
  std::vector<Value> values;  // evaluated in the surrounding scope
  for (const auto& [target, value] : statement.bindings) values.push_back(evaluate(*value));
  const Inner inner(*this);
  for (std::size_t i = 0; i < values.size(); ++i) assign(*statement.bindings[i].first, values[i]);
  return run(statement.body);
}

std::vector<Value> Interpreter::loop_items(const Statement& statement) {
  std::vector<Value> items = runtime_.items_of(evaluate(*statement.value));
  if (!statement.condition) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    const Inner inner(*this);
    assign(*statement.target, item);
    if (evaluate(*statement.condition).truth()) kept.push_back(std::move(item));
  }
  return kept;
}

Interpreter::Flow Interpreter::run_for(const Statement& statement) {
  const auto loop = std::make_shared<Loop>(&runtime_.budget(), loop_items(statement));
  if (loop->items.empty()) {
    const Inner inner(*this);
    return run(statement.otherwise);
  }
  for (; loop->index < loop->items.size(); ++loop->index) {
    const Inner inner(*this);
    if (loop_name_ != UINT32_MAX) set(loop_name_, loop);
    assign(*statement.target, loop->items[loop->index]);
    if (run(statement.body) == Flow::kBreak) break;
  }
  loop->index = std::min(loop->index, loop->items.size() - 1);
  return Flow::kOn;
}

void Interpreter::assign(const Expression& target, const Value& value) {
  if (target.kind == Expression::Kind::kName) return set(target.name, value);
  if (target.kind == Expression::Kind::kAttribute) {
    const Value owner = variable(*target.operands[0]);
    Namespace* space = owner.object<Namespace>();
    if (space == nullptr)
      fail("'{}' is set on {}; only a namespace allows this", target.text, owner.type_with_article());
    return space->set(target.text, value);
  }
  const std::vector<Value> parts = runtime_.items_of(value);
  if (parts.size() != target.operands.size()) {
    fail("{} values are assigned to {} names", parts.size(), target.operands.size());
  }
  for (std::size_t i = 0; i < parts.size(); ++i) assign(*target.operands[i], parts[i]);
}

MarkedText Interpreter::captured(const Block& block) {
  MarkedText text;
  Growth growth(runtime_.budget());
  MarkedText* const before = std::exchange(out_, &text);
  Growth* const growth_before = std::exchange(growth_, &growth);
  const Inner inner(*this);
  run(block);
  out_ = before;  // not restored after an error, which ends the rendering
  growth_ = growth_before;
  return text;
}

Value Interpreter::make_macro(const MacroDefinition& macro) {
  // A weak pointer, because the scope may hold the macro.
  if (kept_.empty() || kept_.back() != scope_) {
    runtime_.budget().take(kKeptScopeBytes);
    kept_.push_back(scope_);
  }
  return runtime_.make().callable(macro.text,
                                  [this, &macro, scope = std::weak_ptr(scope_)](Runtime&, Arguments& arguments) {
                                    return call_macro(macro, scope.lock(), arguments);
                                  });
}

Value Interpreter::call_macro(const MacroDefinition& macro, const std::shared_ptr<Scope>& defined_in,
                              Arguments& arguments) {
  const int line = line_;
  const Inner inner(*this, defined_in);
  bind(macro, arguments);
  MarkedText text = captured(macro.body);
  line_ = line;
  return runtime_.make().text(std::move(text));
}

void Interpreter::bind(const MacroDefinition& macro, Arguments& arguments) {
  std::vector<Value>& given = arguments.positional;
  const std::size_t num_named = macro.parameters.size();
  if (given.size() > num_named && !macro.uses_varargs) {
    fail("the macro '{}' takes at most {} arguments, got {}", macro.text, num_named, given.size());
  }
  for (std::size_t i = 0; i < num_named; ++i) {
    const Parameter& parameter = macro.parameters[i];
    const auto named = std::ranges::find(arguments.named, parameter.text, &std::pair<std::string, Value>::first);
    if (i < given.size()) {
      set(parameter.name, given[i]);
    } else if (named != arguments.named.end()) {
      set(parameter.name, named->second);
      arguments.named.erase(named);
    } else if (parameter.default_value) {
      set(parameter.name, evaluate(*parameter.default_value));
    } else {
      set(parameter.name, undefined(fmt::format("the argument '{}' was not given", parameter.text)));
    }
  }
  if (caller_name_ != UINT32_MAX && macro.uses_caller) {
    const auto caller = std::ranges::find(arguments.named, "caller", &std::pair<std::string, Value>::first);
    set(caller_name_, caller == arguments.named.end() ? undefined("no caller defined") : caller->second);
    if (caller != arguments.named.end()) arguments.named.erase(caller);
  }
  if (macro.uses_varargs && given.size() > num_named) {
    set(varargs_name_, runtime_.make().tuple({given.begin() + static_cast<std::ptrdiff_t>(num_named), given.end()}));
  } else if (macro.uses_varargs) {
    set(varargs_name_, runtime_.make().tuple({}));
  }
  Dict::Entries rest;
  for (const auto& [name, value] : arguments.named) rest.emplace_back(runtime_.make().text(name), value);
  if (!rest.empty() && !macro.uses_kwargs) {
    fail("the macro '{}' has no argument named '{}'", macro.text, arguments.named.front().first);
  }
  if (macro.uses_kwargs) set(kwargs_name_, runtime_.make().dict(std::move(rest)));
}

void Interpreter::run_call_block(const Statement& statement) {
  Arguments arguments = arguments_of(*statement.value);
  arguments.named.emplace_back("caller", make_macro(statement.macro));
  const Value callee = evaluate(*statement.value->operands[0]);
  print(runtime_.call(callee, arguments));
}

}  // namespace mortise::jinja
