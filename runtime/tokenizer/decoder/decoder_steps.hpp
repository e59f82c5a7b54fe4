// runtime/tokenizer/decoder/decoder_steps.hpp: the steps that decoders are made of.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "tokenizer/decoder/decoder.hpp"
#include "tokenizer/regex/pattern.hpp"

namespace mortise::tokenizer {

// No decoder in the file: the tokens with a space between them.
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

// Characters of the byte alphabet to bytes, and those to text, invalid ones as U+FFFD. A token with another character
// stands for itself. All tokens become one.
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
  std::string bytes_;  // between tokens: at most three, the start of a character
};

// "<0xE2>" tokens to bytes. A run of them that is valid UTF-8 becomes one token; in any other run each byte becomes a
// U+FFFD, so that a run is withheld until it ends.
class ByteFallbackStep final : public DecodeStep {
 public:
  explicit ByteFallbackStep(DecodeStep& next) : next_(next) {}
  void text(std::string_view piece) override;
  void end_token() override;
  void finish() override;

 private:
  void end_run();

  DecodeStep& next_;
  std::string token_;        // its start, as long as it can be a byte
  bool is_passing_ = false;  // the current token is none and goes straight on
  std::string run_;
};

// Makes one token of all.
class FuseStep final : public DecodeStep {
 public:
  explicit FuseStep(DecodeStep& next) : next_(next) {}
  void text(std::string_view piece) override { next_.text(piece); }
  void end_token() override {}
  void finish() override;

 private:
  DecodeStep& next_;
};

// Replaces a fixed text within each token; withholds what may be the start of one.
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

// Replaces the matches of a regular expression within each token; withholds the token, since a match may look ahead.
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

// Takes up to `start` times the character `content` off the start of each token, and up to `stop` times off its end.
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
  bool is_started_ = false;       // something else than `content` was there
  std::size_t num_withheld_ = 0;  // times `content` at the end so far, not handed on
};

// Metaspace's character to spaces; in the first token it goes if Metaspace puts one there when it encodes.
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

// The suffix that marks the ends of words to spaces, in the last token to nothing: withholds a token from its first
// suffix on until another token comes.
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
