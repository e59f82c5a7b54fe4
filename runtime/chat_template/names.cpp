// Checks that every function that a template calls exists, so that a missing one is an error when the template is
// loaded instead of at the first request that reaches it.
#include <set>

#include "chat_template/syntax_tree.hpp"
#include "error.hpp"
#include "json/bounded_json.hpp"

namespace mortise::jinja {
namespace {

// Collects the names that a template defines, uses and calls, and refuses unknown functions. Used by one thread.
class NameCheck {
 public:
  void run(Block& body) {
    visit(body);
    for (const Expression* callee : called_) {
      if (!given_.contains(callee->text) && !is_global_function(callee->text)) {
        fail("line {}: the function {} is not supported", callee->line, quote(callee->text));
      }
    }
  }

 private:
  void visit(Block& block) {
    for (const auto& statement : block) visit(*statement);
  }

  void visit(Statement& statement) {
    visit_target(statement.target);
    visit(statement.value);
    visit(statement.condition);
    for (Branch& branch : statement.branches) {
      visit(branch.condition);
      visit(branch.body);
    }
    for (const auto& [target, value] : statement.bindings) {
      visit_target(target);
      visit(value);
    }
    visit(statement.body);
    visit(statement.otherwise);
    if (statement.kind != Statement::Kind::kMacro && statement.kind != Statement::Kind::kCallBlock) return;
    if (statement.kind == Statement::Kind::kMacro) given_.insert(statement.macro.text);
    visit_macro(statement.macro);
  }

  void visit_macro(MacroDefinition& macro) {
    const std::set<std::string> outside = std::exchange(used_, {});
    for (const Parameter& parameter : macro.parameters) {
      given_.insert(parameter.text);
      visit(parameter.default_value);
    }
    visit(macro.body);
    macro.uses_varargs = used_.contains("varargs");
    macro.uses_kwargs = used_.contains("kwargs");
    macro.uses_caller = used_.contains("caller");
    given_.insert("caller");
    used_ = outside;
  }

  void visit_target(const ExpressionPointer& target) {
    if (!target) return;
    if (target->kind == Expression::Kind::kName) given_.insert(target->text);
    for (const auto& part : target->operands) visit_target(part);
  }

  void visit(const ExpressionPointer& expression) {
    if (!expression) return;
    if (expression->kind == Expression::Kind::kName) used_.insert(expression->text);
    for (const auto& operand : expression->operands) visit(operand);
    for (const auto& [name, value] : expression->named) visit(value);
    if (expression->operands.empty() || !expression->operands[0] ||
        expression->operands[0]->kind != Expression::Kind::kName)
      return;
    if (expression->kind == Expression::Kind::kCall) called_.push_back(expression->operands[0].get());
    // A template that tests whether the function is defined may call it.
    if (expression->kind == Expression::Kind::kTest &&
        (expression->text == "defined" || expression->text == "undefined")) {
      given_.insert(expression->operands[0]->text);
    }
  }

  std::set<std::string> given_;  // defined anywhere: which block sees a name is only known when the template runs
  std::set<std::string> used_;   // by the macro that is being visited
  std::vector<const Expression*> called_;
};

}  // namespace

void check_names(SyntaxTree& tree) {
  NameCheck().run(tree.body);
}

}  // namespace mortise::jinja
