// runtime/cli/repl/entry.hpp: joins typed lines to entries. An entry is a command or a prompt, usually one line. There
// are two ways to write a longer one:
//   a line that ends in a backslash continues in the next line (an odd number of backslashes; "\\" at the end is text)
//   """                      a block: everything between these two lines, unchanged;
//   ...                      it is always a prompt, whatever it begins with
//   """
// A line may contain newlines itself (pasted text, or a recalled entry), which do not end the entry.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mortise {

struct Entry {
  std::string text;
  bool is_block = false;

  bool operator==(const Entry&) const = default;
};

// Collects the lines of one entry at a time. Used by one thread. Invariant: text_ is empty unless an entry has begun.
class EntryAssembler {
 public:
  // Takes a line without its newline. Returns the entry if the line completes one.
  std::optional<Entry> add(std::string_view line);

  // Returns whether an entry has begun and is not complete.
  bool is_open() const { return state_ != State::kEmpty; }
  bool in_block() const { return state_ == State::kBlock; }
  void clear();

 private:
  enum class State { kEmpty, kContinued, kBlock };

  std::optional<Entry> add_to_block(std::string_view line);
  Entry take(bool is_block);

  State state_ = State::kEmpty;
  std::string text_;
};

bool is_blank(std::string_view text);
// Returns `text` without white space at both ends.
std::string_view trimmed(std::string_view text);

// Returns a single line (which may contain newlines) that gives this entry again, for the history.
std::string as_one_line(const Entry& entry);

}  // namespace mortise
