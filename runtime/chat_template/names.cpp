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

  void visit(Statement& of) {
    visit_target(of.target);
    visit(of.value);
    visit(of.condition);
    for (Branch& branch : of.branches) {
      visit(branch.condition);
      visit(branch.body);
    }
    for (const auto& [target, value] : of.bindings) {
      visit_target(target);
      visit(value);
    }
    visit(of.body);
    visit(of.otherwise);
    if (of.kind != Statement::Kind::kMacro && of.kind != Statement::Kind::kCallBlock) return;
    if (of.kind == Statement::Kind::kMacro) given_.insert(of.macro.text);
    visit_macro(of.macro);
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

  void visit(const ExpressionPointer& of) {
    if (!of) return;
    if (of->kind == Expression::Kind::kName) used_.insert(of->text);
    for (const auto& operand : of->operands) visit(operand);
    for (const auto& [name, value] : of->named) visit(value);
    if (of->operands.empty() || !of->operands[0] || of->operands[0]->kind != Expression::Kind::kName) return;
    if (of->kind == Expression::Kind::kCall) called_.push_back(of->operands[0].get());
    // A template that tests whether the function is defined may call it.
    if (of->kind == Expression::Kind::kTest && (of->text == "defined" || of->text == "undefined")) {
      given_.insert(of->operands[0]->text);
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
