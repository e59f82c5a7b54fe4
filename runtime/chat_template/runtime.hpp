// runtime/chat_template/runtime.hpp: the state of one rendering, and operations that operators, filters, tests, methods
// and functions share. Used by one thread.
#pragma once

#include <ctime>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "chat_template/syntax_tree.hpp"
#include "chat_template/value.hpp"

namespace mortise::jinja {

// Throws an Error that says that integers have 64 bits.
[[noreturn]] void fail_overflow();

// A name chosen by a template or a caller, for an error: shortened, and without control characters.
std::string short_name(std::string_view name);

// The state of one rendering. Invariant: every value that it makes is paid for by budget_. Used by one thread.
class Runtime {
 public:
  Runtime(const Limits& limits, std::function<std::tm()> clock) : budget_(limits), clock_(std::move(clock)) {}

  Budget& budget() { return budget_; }
  const Maker& make() const { return maker_; }
  std::tm now() const { return clock_(); }

  Value call(const Value& callee, Arguments& arguments);
  // Return x.name and x[key] as Jinja looks them up: attribute() tries methods before entries, item() entries before
  // methods.
  Value attribute(const Value& value, std::string_view name);
  Value item(const Value& value, const Value& key);
  Value slice(const Value& value, const Value& begin, const Value& end, const Value& step);
  // The items of a loop over the value. Takes them from a generator.
  std::vector<Value> items_of(const Value& value);
  std::size_t length(const Value& value);
  // Whether `part` is in `whole`.
  bool contains(const Value& whole, const Value& part);
  Value binary(Operator op, const Value& a, const Value& b);
  bool compare(Operator op, const Value& a, const Value& b);
  MarkedText text_of(const Value& value) {
    MarkedText text = to_text(value, budget_);
    budget_.read(text.size());
    return text;
  }

  // An undefined value. Pays for its text, which the budget does not count otherwise.
  Value missing(std::string why) {
    budget_.step(8);
    return undefined(std::move(why));
  }
  // A namespace that is emptied when the rendering ends, so that cycles of namespaces are freed.
  Value new_namespace(const Arguments& arguments);
  void clear_namespaces();

 private:
  Budget budget_;
  Maker maker_{&budget_};
  std::function<std::tm()> clock_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

// Assigns the arguments of a call to parameters by name. Throws an Error if an argument has no parameter. Invariant:
// values_ has one entry for each name. Used by one thread.
class Parameters {
 public:
  Parameters(const Arguments& arguments, std::string_view function, std::initializer_list<std::string_view> names);

  // Null if the argument was not given.
  const Value* find(std::size_t index) const { return values_[index]; }
  bool has(std::size_t index) const { return values_[index] != nullptr; }
  // Throws if the argument was not given.
  const Value& at(std::size_t index) const;
  bool truth(std::size_t index, bool otherwise) const { return has(index) ? at(index).truth() : otherwise; }
  std::int64_t integer(std::size_t index, std::int64_t otherwise) const;
  const MarkedText& text(std::size_t index) const;
  // Null if the argument is none or was not given.
  const MarkedText* optional_text(std::size_t index) const;

 private:
  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
};

using Method = Value (*)(Runtime&, const Value& self, Arguments&);
// A method of the value's type; null if there is none of that name.
Method find_method(const Value& value, std::string_view name);
// The global function or variable of this name, which every template has.
std::optional<Value> global_function(Runtime& runtime, std::string_view name);

// Python's json.dumps with transformers' settings.
struct JsonFormat {
  bool ensure_ascii = false, sort_keys = false;
  std::optional<MarkedText> indent;  // for each level; nullopt: all on one line
  MarkedText item_separator = {", ", Source::kTemplate}, key_separator = {": ", Source::kTemplate};
};
MarkedText to_json(const Value& value, const JsonFormat& format, Budget& budget);

// Formats as Python: "{} {name:>5}".format(...) and "%s %d" % (...).
MarkedText format_braces(const MarkedText& format, const Arguments& arguments, Runtime& runtime);
MarkedText format_percent(const MarkedText& format, const std::vector<Value>& values, const Dict* named,
                          Runtime& runtime);

// Text operations that filters and methods share.
enum class Ends { kLeft, kRight, kBoth };
// Removes white space, or `characters` if given, at these ends.
MarkedText strip(const MarkedText& text, const MarkedText* characters, Ends ends);
MarkedText replace(const MarkedText& text, const MarkedText& from, const MarkedText& to, std::int64_t count,
                   Runtime& runtime);
// Calls `visit` with [begin, end) of each line, with or without its line end. The last line may have none.
void each_line(const MarkedText& text, bool keep_ends, const std::function<void(std::size_t, std::size_t)>& visit);
MarkedText join(const std::vector<Value>& items, const MarkedText& separator, Runtime& runtime);
// A text for each character.
std::vector<Value> characters_of(const MarkedText& text, Runtime& runtime);

}  // namespace mortise::jinja
