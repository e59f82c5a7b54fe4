// runtime/cli/verification.hpp: runs a file of requests in two pipelines, one after the other, and compares all
// results: tokens, log probabilities bit by bit, finish reasons, texts. `verify` reports the result, and `bisect`
// starts from it.
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

// The options that say what to compare.
struct VerifyOptions {
  std::string old_script, new_script;
  std::string input;  // batch's format, or a log of --record; not standard input, since it is read twice
};

// The first difference of a line.
struct LineDifference {
  std::size_t line = 0;  // in the input, from 1
  std::string custom_id;
  std::size_t request = 0, num_requests = 0;  // of the line; a body may have several prompts
  std::string what;                           // choice, position, tokens, log probabilities with their bits
  std::optional<DifferencePlace> place;
  std::string before, old_text, new_text;  // around a difference in generated tokens; otherwise empty
};

// The result of comparing two pipelines over a file of requests. A value. Invariant: num_different <= num_lines.
struct Verification {
  std::vector<std::pair<std::string, std::string>> numerics_ids;  // (old, new) for each pipeline that both opened
  std::uint64_t num_lines = 0, num_different = 0;  // num_lines: compared; num_different: those with a difference
  std::uint64_t num_failed = 0;                    // lines that both pipelines refuse with the same text
  std::uint64_t num_tokens = 0, num_logprobs = 0;
  std::optional<LineDifference> first;
  bool stopped = false;  // a signal stopped the run: the rest was not compared

  bool same_numerics() const;
};

// The requests of a line, and their results in the old pipeline.
struct VerifiedLine {
  std::size_t number = 0;  // in the input, from 1
  std::vector<RecordedRequest> requests;
  std::string new_pipeline;  // the pipeline of the new script that ran the line; "": none
};

// Runs both pipelines and keeps the results of the old one in a file. Used by one thread. Invariant: entry i of store_
// and of new_pipeline_ belongs to line i.
class Verifier {
 public:
  explicit Verifier(VerifyOptions options);

  // `numerics_known` is called as soon as both numerics ids are known. Throws an Error if a script, a pipeline or the
  // input fails. An invalid line is a result.
  Verification run(const std::function<void(const Verification&)>& numerics_known);
  // REQUIRES: run() has returned.
  std::size_t num_lines() const { return store_.size(); }
  VerifiedLine line(std::size_t index) const;

 private:
  class Run;

  const VerifyOptions options_;
  std::uint32_t number_of_name(const std::string& pipeline);

  LineStore store_;                          // the old pipeline's result of each line
  std::vector<std::string> new_names_;       // names of the new script's pipelines
  std::vector<std::uint32_t> new_pipeline_;  // for each line, an index in new_names_
};

}  // namespace mortise
