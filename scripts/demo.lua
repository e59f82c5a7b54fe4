-- scripts/demo.lua: what `mortise run` uses when no script is given. It is compiled into the program.
local demo = script_dir .. "/../models/demo"

return pipeline {
  device    = cpu {},                                                    -- all cores
  model     = llama { path = demo },
  attention = paged { block_size = 16 },                                 -- tokens per KV block
  scheduler = fcfs { max_num_seqs = 64, max_batched_tokens = 2048 },
  proposer  = draft_model { path = demo .. "-draft", max_tokens = 5 },  -- drafts that the model verifies: same text, sooner
  kv_cache  = { memory = "512MiB" },
}
