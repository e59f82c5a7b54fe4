#include "cli/verification.hpp"

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "assembly/default_script.hpp"
#include "cli/batch_line.hpp"
#include "cli/session.hpp"
#include "cli/stop_signals.hpp"
#include "error.hpp"
#include "jsonl/json_line.hpp"
#include "jsonl/ordered_lines.hpp"
#include "jsonl/progress.hpp"
#include "openai/job.hpp"
#include "replay/request_collector.hpp"

namespace mortise {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// The limit is high because a line of a log also has the results.
constexpr std::size_t kMaxLineBytes = std::size_t{256} << 20;
constexpr std::size_t kTokensAround = 12;  // tokens of text shown before a difference
constexpr std::size_t kTokensBehind = 6;
constexpr ComparisonNames kNames = {"old", "new"};

// Removes names of models and scripts, which may differ, and fingerprints, which differ if numerics ids do (reported
// once).
void drop_names(OrderedJson& answer) {
  if (!answer.is_object() || !answer.contains("response") || !answer["response"].is_object()) return;
  OrderedJson& body = answer["response"]["body"];
  if (!body.is_object()) return;
  body.erase("system_fingerprint");
  body.erase("model");
}

// The requests of a line end in any order, so they are sorted.
void sort_requests(std::vector<RecordedRequest>& requests) {
  std::ranges::stable_sort(requests, [](const RecordedRequest& a, const RecordedRequest& b) {
    return a.request.prompt != b.request.prompt ? a.request.prompt < b.request.prompt : a.id < b.id;
  });
}

std::vector<RecordedRequest> read_requests(const Json& outcome) {
  std::vector<RecordedRequest> requests;
  for (const Json& request : outcome.at("requests")) requests.push_back(read_recorded_request(request));
  return requests;
}

std::string shortened(const std::string& text) {
  constexpr std::size_t kMax = 200;
  return text.size() <= kMax ? text : text.substr(0, kMax) + "...";
}

// Describes the first difference of two answers: "/response/body/choices/0/text is "a" in old and "b" in new".
std::string answer_difference(const Json& before, const Json& after) {
  const Json changes = Json::diff(before, after);
  const Json::json_pointer path(changes.front().at("path").get<std::string>());
  const auto value_at = [&](const Json& answer) {
    return answer.contains(path) ? shortened(dump_line(OrderedJson(answer.at(path)))) : std::string("missing");
  };
  return fmt::format("the answers differ: {} is {} old, {} new", path.to_string(), value_at(before), value_at(after));
}

}  // namespace

bool Verification::same_numerics() const {
  return std::ranges::all_of(numerics_ids, [](const auto& ids) { return ids.first == ids.second; });
}

// Runs the requests of the file once, with one of the two scripts.
class Verifier::Run {
 public:
  // `take` gets the outcome of each line, in order.
  using Take = std::function<void(const InputLine& line, const Json& outcome, Session& session)>;
  using Opened = std::function<void(const std::string& pipeline, const std::string& numerics_id)>;

  Run(const std::string& script, const std::string& input, const std::string& label, Opened opened)
      : in_(input, kMaxLineBytes), opened_(std::move(opened)), progress_(label) {
    SessionOptions options;
    options.script = script;
    options.watcher = [this](const std::string& pipeline, const Assembly& assembly) {
      opened_(pipeline, assembly.numerics_id());
      auto collector = std::make_unique<RequestCollector>(
          pipeline, [this](RecordedRequest request) { collect(std::move(request)); });
      return collectors_.emplace_back(std::move(collector)).get();
    };
    session_ = std::make_unique<Session>(options);
  }

  // Returns false if a signal stopped the run.
  bool run(const Take& take) {
    session_->pipeline();  // opened here, so that a broken model gives one error instead of one per line
    state_.bytes_total = in_.size();
    const LinesRun lines{*session_, /*created=*/0, kMaxInputLineBytes, unknown_fields_};
    const StopSignals signals;
    OrderedLinesEvents events;
    events.write = [&](const InputLine& line, const LineResult& result) {
      if (result.failed) session_->check_health();  // there is no answer, because the pipeline has failed
      ++state_.num_lines;
      state_.num_failed += result.failed ? 1 : 0;
      state_.num_tokens += result.num_tokens;
      state_.bytes_done = line.end;
      if (!result.text.empty()) take(line, Json::parse(result.text), *session_);
    };
    events.tick = [&] {
      progress_.update(state_);
      session_->check_health();
      return StopSignals::received();
    };
    progress_.begin(state_);
    const auto start = [&](const InputLine& line, const FinishLine& finish) {
      return this->start(lines, line, finish);
    };
    const bool complete = run_ordered_lines(in_, OrderedLinesLimits{}, start, events);
    progress_.finish(state_);
    session_->close();
    return complete;
  }

 private:
  void collect(RecordedRequest request) {
    const std::lock_guard lock(mutex_);
    collected_[request.request.client_id].push_back(std::move(request));
  }

  std::string outcome(const std::string& key, OrderedJson answer) {
    std::vector<RecordedRequest> requests;
    {
      const std::lock_guard lock(mutex_);
      if (auto found = collected_.extract(key)) requests = std::move(found.mapped());
    }
    sort_requests(requests);
    OrderedJson list = OrderedJson::array();
    for (const RecordedRequest& request : requests) list.push_back(to_json(request));
    return dump_line({{"line", key}, {"answer", std::move(answer)}, {"requests", std::move(list)}});
  }

  std::size_t start(const LinesRun& lines, const InputLine& line, const FinishLine& finish) {
    const std::string key = std::to_string(line.number);
    if (is_of_log(line)) return start_recorded(line, key, finish);
    const auto answered = [this, key, finish](LineResult result) {
      OrderedJson answer = OrderedJson::parse(result.text);
      drop_names(answer);
      result.text = outcome(key, std::move(answer));
      finish(std::move(result));
    };
    return start_batch_line(lines, line, answered, key);
  }

  static bool is_of_log(const InputLine& line) {
    return line.text.starts_with(R"({"mortise_log":)") || line.text.starts_with(R"({"request":)");
  }

  // Runs the request of a line of a request log, regardless of the recorded result.
  std::size_t start_recorded(const InputLine& line, const std::string& key, const FinishLine& finish) {
    try {
      const Json json = parse_json_line(line, kMaxLineBytes);
      if (is_log_header(json)) return finish({}), 0;
      const RecordedRequest recorded = read_recorded_request(json);
      Request request = recorded.request;
      request.client_id = key;
      const auto num_choices = static_cast<std::size_t>(request.sampling.n);
      const std::size_t num_tokens = request.prompt.size();
      run_job(session_->pipeline_named(recorded.pipeline).engine, {std::move(request)}, nullptr,
              [this, key, finish, num_tokens](const JobResult&, const std::optional<Error>& error) {
                const OrderedJson answer = error ? OrderedJson(error->what()) : OrderedJson();
                finish({outcome(key, answer), error.has_value(), num_tokens});
              });
      return num_choices;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kUnavailable) throw;
      finish({outcome(key, error.what()), true, 0});
      return 0;
    }
  }

  InputLines in_;
  const Opened opened_;
  std::mutex mutex_;                                               // guards the member below
  std::map<std::string, std::vector<RecordedRequest>> collected_;  // by line, for lines at work

  std::vector<std::unique_ptr<RequestCollector>> collectors_;
  UnknownFieldLog unknown_fields_;
  ProgressState state_;
  std::unique_ptr<Session> session_;  // its engines end before the members that their watchers use
  Progress progress_;
};

namespace {

// Shows the texts around a difference in generated tokens.
void show_texts(const Tokenizer& tokenizer, const RecordedRequest& before, const RecordedRequest& after,
                LineDifference& difference) {
  const auto& [choice, position] = *difference.place;
  const std::size_t num_prompt = before.request.prompt.size();
  std::vector<std::int32_t> common = before.request.prompt;
  const std::vector<TokenInfo>& tokens = before.choices[choice].tokens;
  if (position < num_prompt) {
    common.resize(position);
  } else {
    for (std::size_t i = 0; i < std::min(position - num_prompt, tokens.size()); ++i) common.push_back(tokens[i].id);
  }
  const auto decode = [&](std::span<const std::int32_t> ids) {
    return tokenizer.decode(ids, /*skip_special_tokens=*/false);
  };
  difference.before = decode(std::span(common).last(std::min(common.size(), kTokensAround)));
  const auto following = [&](const RecordedRequest& request) {
    std::vector<std::int32_t> ids(request.request.prompt);
    for (const TokenInfo& token : request.choices[choice].tokens) ids.push_back(token.id);
    const std::size_t begin = std::min(position, ids.size());
    return decode(std::span(ids).subspan(begin, std::min(kTokensBehind, ids.size() - begin)));
  };
  difference.old_text = following(before);
  difference.new_text = following(after);
}

// Compares a line, and adds the compared amounts to the totals.
std::optional<LineDifference> compare_line(const Json& before, const Json& after, const Tokenizer& tokenizer,
                                           Verification& totals) {
  const std::vector<RecordedRequest> old_requests = read_requests(before), new_requests = read_requests(after);
  LineDifference difference;
  difference.num_requests = old_requests.size();
  if (old_requests.size() != new_requests.size()) {
    difference.what = fmt::format("{} requests ran old, {} new", old_requests.size(), new_requests.size());
    if (before.at("answer") != after.at("answer")) {
      difference.what += "; " + answer_difference(before.at("answer"), after.at("answer"));
    }
    return difference;
  }
  bool differs = false;
  for (std::size_t i = 0; i < old_requests.size(); ++i) {
    const RecordedRequest &a = old_requests[i], &b = new_requests[i];
    if (a.request.prompt != b.request.prompt || a.choices.size() != b.choices.size()) {
      if (!differs) {
        difference.request = i;
        difference.what =
            fmt::format("the prompts differ: {} tokens old, {} new; the tokenizers or chat templates differ",
                        a.request.prompt.size(), b.request.prompt.size());
      }
      differs = true;
      continue;
    }
    const Comparison comparison = compare(a, b, kNames);
    totals.num_tokens += comparison.num_tokens;
    totals.num_logprobs += comparison.num_logprobs;
    if (!comparison.first || differs) continue;
    differs = true;
    difference.request = i;
    difference.what = *comparison.first;
    difference.place = comparison.place;
    show_texts(tokenizer, a, b, difference);
  }
  if (!differs && before.at("answer") != after.at("answer")) {
    differs = true;
    difference.what = answer_difference(before.at("answer"), after.at("answer"));
  }
  return differs ? std::optional(difference) : std::nullopt;
}

std::string custom_id_of(const Json& outcome) {
  const Json& answer = outcome.at("answer");
  if (!answer.is_object() || !answer.contains("custom_id") || answer.at("custom_id").is_null()) return "";
  return dump_line(OrderedJson(answer.at("custom_id")));
}

}  // namespace

Verifier::Verifier(VerifyOptions options) : options_(std::move(options)) {
  if (options_.input == "-") {
    fail("requests are read once for each pipeline, but standard input can be read only once; give -i a file");
  }
  // Checks both scripts first, so that a problem with the second is reported before the first pipeline runs for hours.
  for (const std::string& script : {options_.old_script, options_.new_script}) {
    load_pipelines(std::span(&script, 1), PluginCatalog::standard());
  }
}

Verification Verifier::run(const std::function<void(const Verification&)>& numerics_known) {
  Verification result;
  std::vector<std::pair<std::string, std::string>> old_ids;  // (pipeline, numerics id), in the order of opening
  {
    Run old_run(options_.old_script, options_.input, "mortise: old: ",
                [&](const std::string& name, const std::string& id) { old_ids.emplace_back(name, id); });
    result.stopped = !old_run.run(
        [&](const InputLine&, const Json& outcome, Session&) { store_.add(dump_line(OrderedJson(outcome))); });
    if (result.stopped) return result;
  }
  // The first pipelines of both scripts are compared whatever their names, others by name.
  const auto opened = [&](const std::string& name, const std::string& id) {
    const auto partner = result.numerics_ids.empty()
                             ? old_ids.begin()
                             : std::ranges::find(old_ids, name, &std::pair<std::string, std::string>::first);
    if (partner == old_ids.end()) return;
    result.numerics_ids.emplace_back(partner->second, id);
    numerics_known(result);
  };
  Run new_run(options_.new_script, options_.input, "mortise: new: ", opened);
  std::size_t index = 0;
  const auto take = [&](const InputLine& line, const Json& outcome, Session& session) {
    const Json before = Json::parse(store_.read(index++));
    ++result.num_lines;
    const Json& requests = outcome.at("requests");
    new_pipeline_.push_back(number_of_name(requests.empty() ? "" : requests.front().at("pipeline").get<std::string>()));
    const Tokenizer& tokenizer = session.pipeline().assembly.tokenizer();
    std::optional<LineDifference> difference = compare_line(before, outcome, tokenizer, result);
    const Json& answer = outcome.at("answer");
    const bool failed = outcome.at("requests").empty() && (answer.is_string() || answer.is_object());
    if (!difference) {
      result.num_failed += failed ? 1 : 0;
      return;
    }
    ++result.num_different;
    if (result.first) return;
    difference->line = line.number;
    difference->custom_id = custom_id_of(outcome);
    result.first = std::move(difference);
  };
  result.stopped = !new_run.run(take);
  return result;
}

std::uint32_t Verifier::number_of_name(const std::string& pipeline) {
  const auto found = std::ranges::find(new_names_, pipeline);
  const auto number = static_cast<std::uint32_t>(found - new_names_.begin());
  if (found == new_names_.end()) new_names_.push_back(pipeline);
  return number;
}

VerifiedLine Verifier::line(std::size_t index) const {
  const Json outcome = Json::parse(store_.read(index));
  return {static_cast<std::size_t>(std::stoull(outcome.at("line").get<std::string>())), read_requests(outcome),
          new_names_[new_pipeline_[index]]};
}

}  // namespace mortise
