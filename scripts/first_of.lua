-- scripts/first_of.lua: drafts from the text itself where it repeats something, else from a small model.
local demo = script_dir .. "/../models/demo"

return pipeline {
  device    = cpu {},
  model     = llama { path = demo },
  attention = paged { block_size = 16 },
  scheduler = fcfs { max_num_seqs = 64, max_batched_tokens = 2048 },
  proposer  = first_of { ngram { max_tokens = 8 }, draft_model { path = demo .. "-draft", max_tokens = 5 } },
  kv_cache  = { memory = "512MiB" },
}
