// runtime/cli/verification.hpp: runs a file of requests in two pipelines, one after the other, and compares everything
// that came out: tokens, log probabilities as bits, finish reasons, texts. `verify` reports the result, and `bisect`
// goes on from it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "jsonl/line_store.hpp"
#include "replay/compare.hpp"
#include "replay/request_log.hpp"

namespace mortise {

// The options that name what is compared.
struct VerifyOptions {
  std::string old_script, new_script;
  std::string input;  // of batch's format, or a log of --record; no standard input, since it is read twice
};

// The first difference of a line.
struct LineDifference {
  std::size_t line = 0;  // of the input, from 1
  std::string custom_id;
  std::size_t request = 0, num_requests = 0;  // of the line: a body may have several prompts
  std::string what;                           // choice, position, tokens, log probabilities with their bits
  std::optional<DifferencePlace> place;
  std::string before, old_text, new_text;  // around a difference in generated tokens; else empty
};

struct Verification {
  std::vector<std::pair<std::string, std::string>> numerics_ids;  // old and new, of each pipeline that both opened
  std::uint64_t num_lines = 0, num_different = 0;                 // compared, and of them with a difference
  std::uint64_t num_failed = 0;                                   // lines that both pipelines refuse with one text
  std::uint64_t num_tokens = 0, num_logprobs = 0;
  std::optional<LineDifference> first;
  bool stopped = false;  // by a signal: the rest was not compared

  bool same_numerics() const;
};

// A line's requests and their results in the old pipeline.
struct VerifiedLine {
  std::size_t number = 0;  // in the input, from 1
  std::vector<RecordedRequest> requests;
  std::string new_pipeline;  // in which the line ran in the new script; "": in none
};

class Verifier {
 public:
  explicit Verifier(VerifyOptions options);

  // `numerics_known` is called as soon as both ids are known. Throws an Error when a script, a pipeline or the input
  // fails; a line that is no request is a result.
  Verification run(const std::function<void(const Verification&)>& numerics_known);
  // Behind run().
  std::size_t num_lines() const { return store_.size(); }
  VerifiedLine line(std::size_t index) const;

 private:
  class Run;

  const VerifyOptions options_;
  std::uint32_t number_of_name(const std::string& pipeline);

  LineStore store_;                          // what the old pipeline made of each line
  std::vector<std::string> new_names_;       // of pipelines of the new script
  std::vector<std::uint32_t> new_pipeline_;  // of each line: which of them
};

}  // namespace mortise
