#include "pipeline/part_change.hpp"

#include "pipeline/pipeline_script.hpp"
#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const PluginCatalog& catalog() {
  static const PluginCatalog catalog({MORTISE_BINARY_DIR});
  return catalog;
}

PipelineDescription running() {
  constexpr const char* kScript =
      "return pipeline { device = cpu {}, model = llama { path = '/models/x', max_model_len = 99 }, "
      "attention = paged { block_size = 32 }, scheduler = fcfs { max_num_seqs = 5 }, proposer = ngram {} }";
  return PipelineScript::from_text(kScript, "running.lua", "/", catalog()).pipelines().front();
}

PipelineDescription changed(const std::string& text) {
  return with_change(running(), parse_part_change(text), catalog(), "/folder");
}

TEST(PartChange, IsTypedAsAScriptSaysIt) {
  const PartChange change = parse_part_change("  attention cascade{ block_size = 8 * 2, names = {'a', 'b'} }");
  EXPECT_EQ(change.key, "attention");
  EXPECT_EQ(change.plugin, "cascade");
  EXPECT_EQ(change.options, (json{{"block_size", 16}, {"names", {"a", "b"}}}));
  EXPECT_EQ(parse_part_change("scheduler ./mine.so").plugin, "./mine.so");
  EXPECT_EQ(parse_part_change("scheduler fcfs {}").options, json::object());
  EXPECT_EQ(parse_part_change("kv_cache {memory = '1GiB'}").options, (json{{"memory", "1GiB"}}));
}

TEST(PartChange, WhatIsTypedWrongIsTold) {
  EXPECT_THAT(error_of([] { parse_part_change(" "); }),
              HasSubstr("the name of the part to swap is missing; write KEY PLUGIN {option = value}"));
  EXPECT_THAT(error_of([] { parse_part_change("attention {}"); }), HasSubstr("a plugin's name is missing"));
  EXPECT_THAT(error_of([] { parse_part_change("kv_cache big {}"); }), HasSubstr("needs a table only"));
  EXPECT_THAT(error_of([] { parse_part_change("attention paged {block_size = }"); }),
              HasSubstr("options of attention"));
  EXPECT_THAT(error_of([] { parse_part_change("attention paged {1, 2}"); }),
              HasSubstr("not a table of names and values"));
  // Options are read in the sandbox of scripts, within its limits.
  EXPECT_THAT(error_of([] { parse_part_change("attention paged {x = os.execute('true')}"); }), HasSubstr("execute"));
  EXPECT_THAT(error_of([] { parse_part_change("attention paged {x = (function() while true do end end)()}"); }),
              HasSubstr("instructions"));
}

TEST(PartChange, TheKeyIsSaidAnewAndTheRestStays) {
  const PipelineDescription now = running();
  const PipelineDescription attention = changed("attention cascade {block_size = 64}");
  EXPECT_EQ(attention.attention.name, "cascade");
  EXPECT_EQ(attention.block_size, 64);
  EXPECT_TRUE(same_part(attention.scheduler, now.scheduler));
  EXPECT_EQ(changed("attention cascade").block_size, 16);  // the new part's default, not the value of the part before
  EXPECT_EQ(changed("scheduler prefix_group {max_num_seqs = 7}").max_num_seqs, 7);
  EXPECT_TRUE(changed("proposer none").proposers.empty());
  EXPECT_FALSE(changed("kv_cache {prefix_cache = false}").kv_cache.prefix_cache);
  EXPECT_EQ(changed("speculation {lengths = 'fixed'}").speculation.lengths, DraftLengths::kFixed);
  const json model = changed("model llama {}").model.choices.front().options;
  EXPECT_EQ(model.at("path"), "/models/x");  // the model's path stays
  EXPECT_TRUE(model.at("max_model_len").is_null());
  EXPECT_TRUE(same_pipeline(changed("proposer ngram {}"), now));
  EXPECT_FALSE(same_pipeline(changed("proposer ngram {max_tokens = 3}"), now));
}

TEST(PartChange, FirstOfIsAListOfProposers) {
  const PartChange typed =
      parse_part_change("proposer first_of { ngram {max_tokens = 2 + 1}, draft_model {path = 'small'} }");
  EXPECT_EQ(typed.plugin, "first_of");
  EXPECT_EQ(typed.options, json::parse(R"({"proposers": [{"plugin": "ngram", "options": {"max_tokens": 3}},
                                                         {"plugin": "draft_model", "options": {"path": "small"}}]})"));
  const auto file = parse_part_change("proposer first_of {plugin('./mine.so') {}}").options["proposers"][0];
  EXPECT_EQ(file.at("plugin"), "./mine.so");
  const PipelineDescription both =
      changed("proposer first_of {ngram {max_tokens = math.max(3, 2)}, draft_model {path = 'small'}}");
  ASSERT_EQ(both.proposers.size(), 2u);
  EXPECT_EQ(both.proposers[0].name, "ngram");
  EXPECT_EQ(both.proposers[0].choices.front().options.at("max_tokens"), 3);
  EXPECT_EQ(both.proposers[1].choices.front().options.at("path"), "/folder/small");
  EXPECT_EQ(changed("proposer first_of {ngram}").proposers.size(), 1u);  // its defaults
}

TEST(PartChange, MistakesInAListOfProposersAreTold) {
  EXPECT_THAT(error_of([] { changed("proposer first_of"); }),
              HasSubstr("first_of has an empty list; give it proposers"));
  EXPECT_THAT(error_of([] { changed("proposer first_of {ngram {}, ngram {}}"); }),
              HasSubstr("first_of has 'ngram' twice"));
  EXPECT_THAT(error_of([] { changed("proposer first_of {5}"); }),
              HasSubstr("item 1 of first_of is 5 (a whole number); expected a proposer, ngram {}"));
  EXPECT_THAT(error_of([] { changed("proposer first_of {ngram 'x'}"); }),
              HasSubstr("item 1 of first_of has the options \"x\""));
  EXPECT_THAT(error_of([] { changed("proposer first_of {fcfs {}}"); }), HasSubstr("'fcfs' is a scheduler"));
  EXPECT_THAT(error_of([] { changed("proposer first_of {ngrm {}}"); }), HasSubstr("did you mean 'ngram'?"));
  EXPECT_THAT(error_of([] { changed("proposer first_of {a = 1}"); }), HasSubstr("is not a list of parts, {ngram {}"));
  std::string many;
  for (int i = 0; i < 20; ++i) many += "ngram {}, ";
  EXPECT_THAT(error_of([&] { changed("proposer first_of {" + many + "}"); }),
              HasSubstr("first_of has 20 proposers; at most 8"));
  const auto change = [](json options) {
    return with_change(running(), {"proposer", "first_of", std::move(options)}, catalog(), "/folder");
  };
  EXPECT_THAT(error_of([&] { change({{"max_tokens", 3}}); }), HasSubstr("first_of needs a list of proposers: write"));
  EXPECT_THAT(error_of([&] {
                change({{"proposers", {{{"plugin", "ngram"}, {"max", 3}}}}});
              }),
              HasSubstr("item 1 of first_of has 'max'; expected plugin and options"));
}

TEST(PartChange, MistakesNameKeyPluginOrOption) {
  EXPECT_THAT(error_of([] { changed("schedler fcfs"); }), AllOf(HasSubstr("'schedler'"), HasSubstr("'scheduler'?")));
  EXPECT_THAT(error_of([] { changed("scheduler fcsf"); }), HasSubstr("did you mean 'fcfs'?"));
  EXPECT_THAT(error_of([] { changed("scheduler paged"); }), HasSubstr("'paged' is an attention"));
  EXPECT_THAT(error_of([] { changed("scheduler fcfs {max_seqs = 1}"); }), HasSubstr("unknown option 'max_seqs'"));
  EXPECT_THAT(error_of([] { changed("scheduler mine.so"); }), HasSubstr("/folder/mine.so: no such file"));
}

}  // namespace
}  // namespace mortise
