-- bench/random_batch.lua: the demo model with 256 sequences and no proposer, for the batch that random_batch.py writes.
return pipeline {
  device    = cpu {},
  model     = llama { path = script_dir .. "/../models/demo" },
  attention = paged { block_size = 16 },
  scheduler = fcfs { max_num_seqs = 256, max_batched_tokens = 2048 },
  kv_cache  = { memory = "2GiB" },
}
