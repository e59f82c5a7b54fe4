-- scripts/fleet/replica.lua: what start.sh serves by default: the demo model with a KV cache that is small on purpose, so
-- that it matters which replica a request goes to. MORTISE_FLEET_KV sets its size.
local demo = script_dir .. "/../../models/demo"
return pipeline {
  device    = cpu { threads = 1 },
  model     = llama { path = demo },
  attention = cascade { block_size = 16 },
  scheduler = prefix_group { max_num_seqs = 32, max_batched_tokens = 1024 },
  kv_cache  = { memory = os.getenv("MORTISE_FLEET_KV") or "24MiB" },
}
