-- scripts/mlp_speculator.lua: drafts from the target's own hidden rows, by a speculator that was trained for it.
local demo = script_dir .. "/../models/demo"

return pipeline {
  device    = cpu {},
  model     = llama { path = demo },
  attention = paged { block_size = 16 },
  scheduler = fcfs { max_num_seqs = 64, max_batched_tokens = 2048 },
  proposer  = mlp_speculator { path = demo .. "-mlp-speculator" },  -- as many drafts as it has stages
  kv_cache  = { memory = "512MiB" },
}
