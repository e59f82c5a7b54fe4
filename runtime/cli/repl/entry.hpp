// runtime/cli/repl/entry.hpp: from typed lines to entries. An entry is a command or a prompt; most are one line. Longer
// ones are written in two ways:
//   a line that ends in a backslash goes on in the next line (an odd number of them: "\\" at the end is text)
//   """                      a block: everything between these two lines, as it stands,
//   ...                      and always a prompt, whatever it begins with
//   """
// A line may itself hold newlines: pasted text, or an earlier entry brought back. They do not end the entry.
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

class EntryAssembler {
 public:
  // Takes a line without its newline; the entry when that completes one.
  std::optional<Entry> add(std::string_view line);

  // Lines have been taken and the entry is not complete.
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
// Without the white space at both ends.
std::string_view trimmed(std::string_view text);

// One line (with newlines in it, perhaps) that gives this entry again, for the history.
std::string as_one_line(const Entry& entry);

}  // namespace mortise
