// runtime/chat_template/marked_text.hpp: a text that records the source of each of its bytes. A chat prompt mixes the
// template's text, in which "<|im_end|>" is a special token, with texts of callers, in which it must stay a text. All
// string operations keep the marks, so that the tokenizer can distinguish them in the end.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mortise::jinja {

enum class Source : unsigned char {
  kTemplate,  // the template's own text, names of special tokens, numbers
  kCaller,    // messages, tools, variables of a request
};

// A text and its runs of equal source. Invariant: the runs cover the text. Not thread-safe.
class MarkedText {
 public:
  // The bytes between the end of the preceding run and `end`.
  struct Run {
    std::size_t end;
    Source source;
  };

  MarkedText() = default;
  MarkedText(std::string_view text, Source source) { append(text, source); }

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // Bytes of memory. Many short runs take more than the text.
  std::size_t memory() const { return bytes_.size() + runs_.size() * sizeof(Run); }
  // Neighbouring runs have different sources; no run is empty.
  const std::vector<Run>& runs() const { return runs_; }
  // The source of the byte at `at`.
  // REQUIRES: at < size().
  Source source_at(std::size_t at) const;
  // kCaller if any byte comes from the caller.
  Source source() const;

  void append(std::string_view text, Source source);
  void append(const MarkedText& text) { append(text, 0, text.size()); }
  // Appends the bytes [begin, end) of `text`, which may be this object.
  void append(const MarkedText& text, std::size_t begin, std::size_t end);
  MarkedText substr(std::size_t begin, std::size_t end) const;
  // Shortens the text. REQUIRES: size <= this->size().
  void resize(std::size_t size);

 private:
  std::size_t run_at(std::size_t at) const;

  std::string bytes_;
  std::vector<Run> runs_;
};

}  // namespace mortise::jinja
