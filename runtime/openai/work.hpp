// runtime/openai/work.hpp: a body of completions or chat after it was read and checked: its requests, and how their
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

// The place of a choice: the prompt that it continues, and its index in the answer.
struct ChoicePlace {
  std::size_t prompt = 0, index = 0;
};

// The choice of one chunk, and how far the choice has come with this chunk.
struct ChunkChoice {
  enum class Stage {
    kBegun,   // a role or an echoed prompt; no generated text yet
    kTokens,  // all tokens and the text of the delta
    kEnded,   // also the finish reason
  };
  nlohmann::ordered_json json;
  Stage stage = Stage::kTokens;
};

// Writes the chunks of a stream. Sees the deltas of each choice in order. Used by one thread at a time. Invariant: the
// chunks of a choice, joined, are its answer.
class ChunkWriter {
 public:
  virtual ~ChunkWriter() = default;
  // `begins`: this is the first delta of the choice. Appends to `chunks`; appends nothing if there is nothing to send
  // yet.
  virtual void write(const ChoicePlace& place, const Delta& delta, bool begins, std::vector<ChunkChoice>& chunks) = 0;
};

// Independent fields of the API: each combination has a meaning.
struct StreamOptions {
  bool wanted = false;
  bool usage_at_the_end = false;  // stream_options.include_usage
  bool usage_always = false;      // stream_options.continuous_usage_stats
  bool event_ids = true;          // stream_options.include_event_ids; with them a broken stream can be resumed
};

struct Work {
  const char* id_prefix = "";
  const char* object = "";        // the object field of a whole answer
  const char* chunk_object = "";  // the object field of a chunk
  StreamOptions stream = {};
  std::vector<Request> requests = {};  // one for each prompt
  std::size_t num_guided_lists = 0;    // the number of answers per request that get choice_logprobs
  // Fills in the `choices` of an answer that has its head.
  std::function<void(JobResult& result, const ChoiceLogprobs& guided, nlohmann::ordered_json& answer)> write = {};
  // Creates the writer of a stream. Throws an Error if this body cannot be streamed.
  std::function<std::unique_ptr<ChunkWriter>()> chunks = {};
};

// Reads `stream` and `stream_options`.
StreamOptions read_stream_options(const Body& body);

}  // namespace mortise
