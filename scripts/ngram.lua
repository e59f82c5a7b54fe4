-- scripts/ngram.lua: for answers that quote their prompt; there n-gram drafts pay and need no second model.
local demo = script_dir .. "/../models/demo"

return pipeline {
  device    = cpu {},
  model     = llama { path = demo },
  attention = paged { block_size = 16 },
  scheduler = fcfs { max_num_seqs = 64, max_batched_tokens = 2048 },
  proposer  = ngram { min_match = 2, max_match = 4, max_tokens = 8 },
  kv_cache  = { memory = "512MiB" },
}
