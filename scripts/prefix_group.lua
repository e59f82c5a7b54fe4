-- scripts/prefix_group.lua: for batches of requests that share long prefixes: those of one prefix run together, so that it
-- is computed once even where the KV memory holds few of them, and read once for all of them that decode. Any order of the
-- file will do.
local demo = script_dir .. "/../models/demo"

return pipeline {
  device    = cpu {},
  model     = llama { path = demo },
  attention = cascade { block_size = 16 },
  scheduler = prefix_group { max_num_seqs = 64, max_batched_tokens = 2048 },
  kv_cache  = { memory = "512MiB" },
}
