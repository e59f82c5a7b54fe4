// runtime/chat_template/value.hpp: the values of a template: those of Python that templates can use. Lists and dicts
// never change after they are made (transformers' sandbox forbids it); namespaces do. Values are shared. The Budget of
// their rendering, which outlives them, counts their memory. Used by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "chat_template/budget.hpp"
#include "chat_template/marked_text.hpp"

namespace mortise::jinja {

class Runtime;
class Value;
struct Arguments;
struct Callable;
struct Dict;
struct Loop;
struct Namespace;
struct Sequence;

// Pays for an object as long as it lives. Objects of a compiled template have no budget. Invariant: num_bytes_ are
// taken from the budget. Used by the thread of the budget.
class Counted {
 public:
  Counted(Budget* budget, std::size_t num_bytes) : budget_(budget), num_bytes_(num_bytes + sizeof(Counted)) {
    if (budget_ != nullptr) budget_->take(num_bytes_);
  }
  ~Counted() {
    if (budget_ != nullptr) budget_->give_back(num_bytes_);
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 protected:
  void grow(std::size_t num_bytes) {
    if (budget_ != nullptr) budget_->take(num_bytes);
    num_bytes_ += num_bytes;
  }
  void read(std::size_t num_bytes) const {
    if (budget_ != nullptr) budget_->read(num_bytes);
  }

 private:
  Budget* budget_;
  std::size_t num_bytes_;
};

struct String : Counted {
  String(Budget* budget, MarkedText text, bool is_markup = false)
      : Counted(budget, sizeof(MarkedText) + text.memory()), text(std::move(text)), is_markup(is_markup) {}
  const MarkedText text;
  const bool is_markup;  // result of `safe`: text that is added to it is escaped for HTML, as in Jinja
};

// Prints as nothing. Any other use is an error with the text `why`.
struct Undefined {
  std::shared_ptr<const std::string> why;
};
struct None {};

// A value, or a reference to a shared object. Invariant: an object of a compiled template never changes. Used by one
// thread.
class Value {
 public:
  Value() = default;  // none
  Value(None) {}
  Value(Undefined undefined) : data_(std::move(undefined)) {}
  Value(bool value) : data_(value) {}
  Value(std::int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  template <typename Object>
  Value(std::shared_ptr<Object> object) : data_(std::move(object)) {}

  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&data_);
  }
  // The object of a string, sequence, ..; null if the value is of another kind.
  template <typename Object>
  Object* object() const {
    const auto* pointer = std::get_if<std::shared_ptr<Object>>(&data_);
    return pointer == nullptr ? nullptr : pointer->get();
  }

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  const MarkedText* text() const {
    const String* string = object<String>();
    return string == nullptr ? nullptr : &string->text;
  }
  // The value of an integer, or of a bool, which counts as an integer.
  std::optional<std::int64_t> integer() const;
  // The value of any number.
  std::optional<double> number() const;
  bool is_number() const { return number().has_value(); }
  bool truth() const;
  // Whether both refer to the same object.
  bool is_same(const Value& other) const;
  // The name of the type in Python, and the same with its article ("an int"), for errors.
  const char* type_name() const;
  std::string type_with_article() const;
  // Levels of nested lists, dicts, functions and loops, which is the depth of recursion when the value is destroyed.
  // Namespaces count as leaves, because they are emptied before they are destroyed (Runtime::clear_namespaces).
  std::size_t depth() const;

 private:
  std::variant<None, Undefined, bool, std::int64_t, double, std::shared_ptr<String>, std::shared_ptr<Sequence>,
               std::shared_ptr<Dict>, std::shared_ptr<Namespace>, std::shared_ptr<Callable>, std::shared_ptr<Loop>>
      data_;
};

// A list, a tuple, or another series of values. Used by one thread. Invariant: num_taken is at most the number of
// items.
struct Sequence : Counted {
  enum class Shape { kList, kTuple, kRange, kView, kGenerator };
  Sequence(Budget* budget, Shape shape, std::vector<Value> items, std::string_view name = "");

  bool is_indexable() const { return shape <= Shape::kRange; }
  bool has_length() const { return shape != Shape::kGenerator; }

  const Shape shape;
  const std::string_view name;  // name of a view or generator when it is printed: "dict_items"
  const std::vector<Value> items;
  const std::size_t depth;
  std::size_t num_taken = 0;  // for a generator, which gives each item once
};

// A dict in order of insertion. Used by one thread. Invariant: places has the index of each entry.
struct Dict : Counted {
  using Entries = std::vector<std::pair<Value, Value>>;
  // If keys are equal, the last value counts. Throws if a value cannot be a key (a list).
  Dict(Budget* budget, Entries entries);

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;

  Entries entries;
  std::unordered_map<std::string, std::size_t> places;  // by hash_key
  std::size_t depth = 1;
};

// The object that namespace() makes: its attributes can be set. Used by one thread. Invariant: each name is there once.
struct Namespace : Counted {
  explicit Namespace(Budget* budget) : Counted(budget, sizeof(Namespace)) {}
  // Both search the attributes one by one, and pay for it.
  Value* find(std::string_view name);
  void set(std::string_view name, Value value);
  std::vector<std::pair<std::string, Value>> attributes;
};

// The depth of an object that holds `value`. Throws an Error if it is above kMaxValueDepth.
std::size_t depth_around(const Value& value);

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Callable : Counted {
  using Function = std::function<Value(Runtime&, Arguments&)>;
  // `holds`: the value that the function remembers, if any.
  Callable(Budget* budget, std::string name, Function function, const Value& holds)
      : Counted(budget, sizeof(Callable) + 64),
        name(std::move(name)),
        function(std::move(function)),
        depth(depth_around(holds)) {}
  const std::string name;
  const Function function;
  const std::size_t depth;
};

// The variable `loop` of a for loop. A namespace may keep it beyond the end of the loop. Used by one thread.
struct Loop : Counted {
  Loop(Budget* budget, std::vector<Value> items);
  const std::vector<Value> items;
  const std::size_t depth;
  std::size_t index = 0;
  std::vector<Value> last_changed;  // arguments of the last loop.changed(): texts and numbers
};

// Makes values. `budget` pays for them, unless it is null. Used by one thread. Invariant: one budget pays for all
// values of a maker.
class Maker {
 public:
  explicit Maker(Budget* budget) : budget_(budget) {}
  Value text(MarkedText text) const { return std::make_shared<String>(budget_, std::move(text)); }
  Value markup(MarkedText text) const { return std::make_shared<String>(budget_, std::move(text), true); }
  Value text(std::string_view text, Source source = Source::kTemplate) const {
    return this->text(MarkedText(text, source));
  }
  Value sequence(Sequence::Shape shape, std::vector<Value> items, std::string_view name = "") const {
    return std::make_shared<Sequence>(budget_, shape, std::move(items), name);
  }
  Value list(std::vector<Value> items) const { return sequence(Sequence::Shape::kList, std::move(items)); }
  Value tuple(std::vector<Value> items) const { return sequence(Sequence::Shape::kTuple, std::move(items)); }
  Value generator(std::vector<Value> items) const {
    return sequence(Sequence::Shape::kGenerator, std::move(items), "generator");
  }
  Value dict(Dict::Entries entries) const { return std::make_shared<Dict>(budget_, std::move(entries)); }
  Value callable(std::string name, Callable::Function function, const Value& holds = {}) const {
    return std::make_shared<Callable>(budget_, std::move(name), std::move(function), holds);
  }
  Budget* budget() const { return budget_; }

 private:
  Budget* budget_;
};

Value undefined(std::string why);

// A text that is equal for equal keys of a dict. Throws an Error if the value cannot be a key: a list, or a tuple with
// anything but texts and numbers.
std::string hash_key(const Value& key);

// Python's == and <. `budget` pays for the comparison. `less` throws an Error if the values have no order.
bool equal(const Value& a, const Value& b, Budget& budget);
bool less(const Value& a, const Value& b, Budget& budget);

// Python's str() and repr().
MarkedText to_text(const Value& value, Budget& budget);
void append_repr(const Value& value, MarkedText& out, Budget& budget);
std::string float_text(double value);

}  // namespace mortise::jinja
