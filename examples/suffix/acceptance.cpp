// examples/suffix/acceptance.cpp: how many drafts of a proposer a target would accept that generates given texts.
//   acceptance PLUGIN.so OPTIONS MAX_DRAFTS BATCH < texts.jsonl
// A line of texts.jsonl is {"prompt": [token ids], "output": [token ids]}. BATCH texts run at a time, in the order of
// the file; each step asks for MAX_DRAFTS drafts a text. Prints one line of JSON. Needs neither engine nor model.
#include <cstdio>
#include <iostream>
#include <stdexcept>

#include "loaded_proposer.hpp"

namespace {

using suffix::LoadedProposer;
using suffix::Tokens;

struct Text {
  Tokens prompt, output;
};

struct Running {
  uint64_t id;
  const Text* text;
  int32_t num_generated;
  int32_t position() const { return static_cast<int32_t>(text->prompt.size()) + num_generated; }
  int32_t left() const { return static_cast<int32_t>(text->output.size()) - num_generated; }
};

struct Figures {
  int64_t tokens = 0, steps = 0, steps_with_drafts = 0, drafts = 0, accepted = 0;
  double prompts_s = 0;
};

// Lets the next texts begin: the step that runs the prompt yields the first token, without drafts.
void begin(LoadedProposer& proposer, const std::vector<Text>& texts, std::size_t& next, std::size_t batch,
           std::vector<Running>& running, Figures& figures) {
  while (running.size() < batch && next < texts.size()) {
    const Text& text = texts[next];
    const Running added = {++next, &text, 1};
    Tokens known = text.prompt;
    known.push_back(text.output[0]);
    const double before = proposer.observe_s;
    if (proposer.observe({{added.id, 0, known, 0}}) != MORTISE_OK) throw std::runtime_error(proposer.error.message);
    figures.prompts_s += proposer.observe_s - before;
    if (added.left() > 0) running.push_back(added);
  }
}

// One step of all running texts; those that end leave `running`. As by the host, their ends are told with the next
// step: `ended`.
void step(LoadedProposer& proposer, int32_t max_drafts, std::vector<Running>& running, std::vector<uint64_t>& ended,
          Figures& figures) {
  std::vector<LoadedProposer::Ask> asks;
  // The step itself yields one token more than the accepted drafts.
  for (const Running& one : running) asks.push_back({one.id, one.position(), std::min(max_drafts, one.left() - 1)});
  const std::vector<Tokens> drafts = proposer.propose(asks);
  std::vector<LoadedProposer::Step> committed;
  std::vector<uint64_t> ending;
  for (std::size_t i = 0; i < running.size(); ++i) {
    Running& one = running[i];
    const auto next = one.text->output.begin() + one.num_generated;
    const auto accepted =
        static_cast<int32_t>(std::mismatch(drafts[i].begin(), drafts[i].end(), next).first - drafts[i].begin());
    ++figures.steps;
    figures.steps_with_drafts += !drafts[i].empty();
    figures.drafts += static_cast<int64_t>(drafts[i].size());
    figures.accepted += accepted;
    figures.tokens += accepted + 1;
    committed.push_back({one.id, one.position(), Tokens(next, next + accepted + 1), accepted});
    one.num_generated += accepted + 1;
    if (one.left() == 0) ending.push_back(one.id);
  }
  std::erase_if(running, [](const Running& one) { return one.left() == 0; });
  if (proposer.observe(committed, ended) != MORTISE_OK) throw std::runtime_error(proposer.error.message);
  ended = ending;
}

std::vector<Text> read_texts() {
  std::vector<Text> texts;
  for (std::string line; std::getline(std::cin, line);) {
    const auto json = nlohmann::json::parse(line);
    texts.push_back({json.at("prompt").get<Tokens>(), json.at("output").get<Tokens>()});
    if (texts.back().output.empty()) texts.pop_back();
  }
  return texts;
}

int run(char** arguments) {
  const std::vector<Text> texts = read_texts();
  LoadedProposer proposer(arguments[1], arguments[2]);
  const int32_t max_drafts = std::stoi(arguments[3]);
  const std::size_t batch = std::stoul(arguments[4]);
  std::vector<Running> running;
  std::vector<uint64_t> ended;
  Figures figures;
  for (std::size_t next = 0;;) {
    begin(proposer, texts, next, batch, running, figures);
    if (running.empty()) break;
    step(proposer, max_drafts, running, ended, figures);
  }
  const auto ratio = [](auto a, auto b) {
    return static_cast<double>(a) / static_cast<double>(std::max<int64_t>(1, b));
  };
  std::size_t prompt_tokens = 0;
  for (const Text& text : texts) prompt_tokens += text.prompt.size();
  std::printf(
      "{\"texts\": %zu, \"tokens\": %lld, \"tokens_per_step\": %.3f, \"acceptance_rate\": %.3f, \"drafts_per_step\": "
      "%.2f, \"steps_with_drafts\": %.3f, \"us_per_step\": %.2f, \"us_per_draft_call\": %.2f, \"us_per_prompt_token\": "
      "%.3f}\n",
      texts.size(), static_cast<long long>(figures.tokens), ratio(figures.tokens, figures.steps),
      ratio(figures.accepted, figures.drafts), ratio(figures.drafts, figures.steps),
      ratio(figures.steps_with_drafts, figures.steps),
      1e6 * ratio(proposer.propose_s + proposer.observe_s - figures.prompts_s, figures.steps),
      1e6 * ratio(proposer.propose_s, figures.steps),
      1e6 * ratio(figures.prompts_s, static_cast<int64_t>(prompt_tokens)));
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) {
    std::fprintf(stderr, "acceptance PLUGIN.so OPTIONS MAX_DRAFTS BATCH < texts.jsonl\n");
    return 2;
  }
  try {
    return run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "acceptance: %s\n", error.what());
    return 1;
  }
}
