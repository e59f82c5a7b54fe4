// runtime/openai/work.hpp: what a body of completions or chat asks for, read and checked: its requests, and how their
// choices are written, as one answer or as the chunks of a stream. Internal to this folder.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "openai/choice_logprobs.hpp"
#include "openai/job.hpp"

namespace mortise {

// Where a choice stands: behind which of the body's prompts, and at which index of the answer.
struct ChoicePlace {
  std::size_t prompt = 0, index = 0;
};

// One chunk's choice, and how far the choice has come with it.
struct ChunkChoice {
  enum class Stage {
    kBegun,   // nothing of what was generated has been sent yet: a role, an echoed prompt
    kTokens,  // all tokens and the text of the delta have been sent
    kEnded,   // and the finish reason
  };
  nlohmann::ordered_json json;
  Stage stage = Stage::kTokens;
};

// Writes the choices of a stream's chunks. It sees the deltas of each choice in order.
class ChunkWriter {
 public:
  virtual ~ChunkWriter() = default;
  // `begins`: it is the choice's first delta. Appends to `chunks`; nothing when there is nothing to say yet.
  virtual void write(const ChoicePlace& place, const Delta& delta, bool begins, std::vector<ChunkChoice>& chunks) = 0;
};

struct StreamOptions {
  bool wanted = false;
  bool usage_at_the_end = false;  // stream_options.include_usage
  bool usage_always = false;      // stream_options.continuous_usage_stats
  bool event_ids = true;          // stream_options.include_event_ids: from which a broken stream goes on
};

struct Work {
  const char* id_prefix = "";
  const char* object = "";        // of the whole answer
  const char* chunk_object = "";  // of a chunk
  StreamOptions stream = {};
  std::vector<Request> requests = {};  // one for each prompt
  std::size_t num_guided_lists = 0;    // answers to each that get their choices' log probabilities
  // Fills in `choices` of an answer whose head is there.
  std::function<void(JobResult& result, const ChoiceLogprobs& guided, nlohmann::ordered_json& answer)> write = {};
  // Makes the writer of a stream. Throws an Error when this body cannot be streamed.
  std::function<std::unique_ptr<ChunkWriter>()> chunks = {};
};

// `stream` and `stream_options`.
StreamOptions read_stream_options(const Body& body);

}  // namespace mortise
