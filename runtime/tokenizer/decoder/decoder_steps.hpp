// runtime/tokenizer/decoder/decoder_steps.hpp: the steps of decoders. A running step is used by one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "tokenizer/decoder/decoder.hpp"
#include "tokenizer/regex/pattern.hpp"

namespace mortise::tokenizer {

// For files without a decoder: puts a space between tokens. Used by one thread. Invariant: is_first_ is true until the
// first token ends.
class JoinStep final : public DecodeStep {
 public:
  explicit JoinStep(DecodeStep& next) : next_(next) {}
  void text(std::string_view piece) override;
  void end_token() override;
  void finish() override { next_.finish(); }

 private:
  DecodeStep& next_;
  bool is_first_ = true;
};

// Turns characters of the byte alphabet into bytes, and the bytes into text, with U+FFFD for invalid ones. A token with
// any other character is text itself. Makes one token of all. Used by one thread. Invariant: between tokens bytes_ is
// empty or the start of one character.
class ByteLevelStep final : public DecodeStep {
 public:
  explicit ByteLevelStep(DecodeStep& next) : next_(next) {}
  void text(std::string_view piece) override { token_ += piece; }
  void end_token() override;
  void finish() override;

 private:
  void hand_on(bool is_end);

  DecodeStep& next_;
  std::string token_;
  std::string bytes_;  // between tokens at most three, the start of a character
  std::string text_;   // of hand_on(), which keeps its memory
};

// Turns "<0xE2>" tokens into bytes. A run of such tokens that is valid UTF-8 becomes one token; in any other run each
// byte becomes U+FFFD. So a run is withheld until it ends. Used by one thread. Invariant: run_ has the bytes of the
// latest byte tokens, none of which was passed on.
class ByteFallbackStep final : public DecodeStep {
 public:
  explicit ByteFallbackStep(DecodeStep& next) : next_(next) {}
  void text(std::string_view piece) override;
  void end_token() override;
  void finish() override;

 private:
  void end_run();

  DecodeStep& next_;
  std::string token_;        // start of the token, while it may be a byte token
  bool is_passing_ = false;  // the current token is not a byte token and is passed on directly
  std::string run_;
};

// Joins all tokens of a text into one. Used by one thread. Invariant: the next step gets one end_token(), from
// finish().
class FuseStep final : public DecodeStep {
 public:
  explicit FuseStep(DecodeStep& next) : next_(next) {}
  void text(std::string_view piece) override { next_.text(piece); }
  void end_token() override {}
  void finish() override;

 private:
  DecodeStep& next_;
};

// Replaces a fixed text within each token. Withholds a possible beginning of the text. Used by one thread. Invariant:
// pending_ is shorter than the text, and begins it.
class ReplaceTextStep final : public DecodeStep {
 public:
  ReplaceTextStep(const std::string& wanted, const std::string& content, DecodeStep& next)
      : wanted_(wanted), content_(content), next_(next) {}
  void text(std::string_view piece) override;
  void end_token() override;
  void finish() override { next_.finish(); }

 private:
  const std::string& wanted_;
  const std::string& content_;
  DecodeStep& next_;
  std::string pending_;
};

// Replaces matches of a regular expression within each token. Withholds the whole token, because a match may look
// ahead. Used by one thread. Invariant: token_ is empty between tokens.
class ReplaceRegexStep final : public DecodeStep {
 public:
  ReplaceRegexStep(const Pattern& pattern, const std::string& content, DecodeStep& next)
      : pattern_(pattern), content_(content), next_(next) {}
  void text(std::string_view piece) override { token_ += piece; }
  void end_token() override;
  void finish() override { next_.finish(); }

 private:
  const Pattern& pattern_;
  const std::string& content_;
  DecodeStep& next_;
  std::string token_;
};

// Removes the character `content` up to `start` times from the start of each token, and up to `stop` times from its
// end. Used by one thread. Invariant: at most `stop` characters are withheld.
class StripStep final : public DecodeStep {
 public:
  StripStep(std::string_view content, std::size_t start, std::size_t stop, DecodeStep& next)
      : content_(content), start_(start), stop_(stop), next_(next) {}
  void text(std::string_view piece) override;
  void end_token() override;
  void finish() override { next_.finish(); }

 private:
  std::string_view content_;
  std::size_t start_;
  std::size_t stop_;
  DecodeStep& next_;
  std::size_t num_stripped_ = 0;
  bool is_started_ = false;       // the token had another character
  std::size_t num_withheld_ = 0;  // occurrences of `content` at the end that are withheld
};

// Turns Metaspace's character into spaces. In the first token it is removed if Metaspace adds one when it encodes. Used
// by one thread. Invariant: withholds nothing.
class MetaspaceStep final : public DecodeStep {
 public:
  MetaspaceStep(std::string_view character, bool drop_in_first, DecodeStep& next)
      : character_(character), drops_(drop_in_first), next_(next) {}
  void text(std::string_view piece) override;
  void end_token() override;
  void finish() override { next_.finish(); }

 private:
  std::string_view character_;
  bool drops_;
  DecodeStep& next_;
};

// Turns the suffix that marks the end of a word into a space, and removes it in the last token. Withholds a token from
// its first suffix on until another token comes. Used by one thread. Invariant: withheld_ is empty or begins with the
// suffix.
class WordSuffixStep final : public DecodeStep {
 public:
  WordSuffixStep(const Pattern& suffix, DecodeStep& next) : suffix_(suffix), next_(next) {}
  void text(std::string_view piece) override { token_ += piece; }
  void end_token() override;
  void finish() override;

 private:
  void release(std::string_view replacement);

  const Pattern& suffix_;
  DecodeStep& next_;
  std::string token_;
  std::string withheld_;
};

}  // namespace mortise::tokenizer
