#include "conformance/attention_reference.hpp"

#include <algorithm>
#include <cmath>

#include "sampling/denormals_off.hpp"

namespace mortise::conformance {
namespace {

// The heads of one sequence after norm and rotary embedding. keys_and_values() returns a KV head as
// [position][head_dim].
class Heads {
 public:
  Heads(const AttentionShape& shape, const std::vector<std::int32_t>& tokens)
      : shape_(shape), tokens_(tokens), cos_(rope_table(shape, false)), sin_(rope_table(shape, true)) {
    q_norm_ = norm_weight(shape, Projection::kQuery);
    k_norm_ = norm_weight(shape, Projection::kKey);
  }

  std::vector<float> query(std::int32_t position, std::int32_t layer, std::int32_t head) const {
    return prepared(Projection::kQuery, position, layer, head);
  }
  void keys_and_values(std::int32_t layer, std::int32_t head, std::vector<float>& keys,
                       std::vector<float>& values) const {
    keys.clear();
    values.clear();
    for (std::int32_t position = 0; position < static_cast<std::int32_t>(tokens_.size()); ++position) {
      std::vector<float> k = prepared(Projection::kKey, position, layer, head);
      std::vector<float> v = head_values(shape_, Projection::kValue, token(position), position, layer, head);
      mortise_span_written(k.data(), v.data(), shape_.head_dim);
      keys.insert(keys.end(), k.begin(), k.end());
      values.insert(values.end(), v.begin(), v.end());
    }
  }
  // Returns how many keys the row at `position` sees: its own and those directly before it.
  std::int32_t num_seen(std::int32_t position, std::int32_t layer) const {
    const std::int32_t window = shape_.windows.empty() ? 0 : shape_.windows[static_cast<std::size_t>(layer)];
    return window > 0 ? std::min(window, position + 1) : position + 1;
  }

 private:
  std::int32_t token(std::int32_t position) const { return tokens_[static_cast<std::size_t>(position)]; }
  std::vector<float> prepared(Projection projection, std::int32_t position, std::int32_t layer,
                              std::int32_t head) const {
    std::vector<float> x = head_values(shape_, projection, token(position), position, layer, head);
    const auto& norm = projection == Projection::kQuery ? q_norm_ : k_norm_;
    if (shape_.has_norms) {
      mortise_rms_norm(shape_.is_bf16(), x.data(), norm.data(), kNormEps, shape_.head_dim, x.data());
    }
    const auto angles = static_cast<std::size_t>(position) * static_cast<std::size_t>(shape_.rotary_dim / 2);
    if (shape_.rotary_dim > 0) {
      mortise_rotate(shape_.is_bf16(), shape_.interleaved, cos_.data() + angles, sin_.data() + angles,
                     shape_.rotary_dim, x.data());
    }
    return x;
  }

  const AttentionShape& shape_;
  const std::vector<std::int32_t>& tokens_;
  const std::vector<float> cos_, sin_;
  std::vector<float> q_norm_, k_norm_;
};

// Calls `work(position, query, keys, values, num_seen)` for each row of each head, layer by layer. `keys` and `values`
// point to the first key that the row sees.
template <typename Work>
void for_each_row(const AttentionScene& scene, std::size_t sequence, const Work& work) {
  const AttentionShape& shape = scene.shape();
  const Heads heads(shape, scene.tokens(sequence));
  std::vector<float> keys, values;
  for (std::int32_t layer = 0; layer < shape.num_layers; ++layer) {
    for (std::int32_t head = 0; head < shape.num_heads; ++head) {
      const std::int32_t group = shape.num_heads / shape.num_kv_heads;
      if (head % group == 0) heads.keys_and_values(layer, head / group, keys, values);
      for (std::int32_t position = 0; position < scene.size(sequence); ++position) {
        const std::int32_t num_seen = heads.num_seen(position, layer);
        const auto first = static_cast<std::size_t>((position + 1 - num_seen) * shape.head_dim);
        work(position, heads.query(position, layer, head), keys.data() + first, values.data() + first, num_seen);
      }
    }
  }
}

std::vector<double> softmax_average(const AttentionShape& shape, const std::vector<float>& q, const float* keys,
                                    const float* values, std::int32_t num_seen) {
  const auto dim = static_cast<std::size_t>(shape.head_dim);
  const double scale = shape.dims().attention_scale;
  std::vector<double> scores, out(dim);
  for (std::int32_t i = 0; i < num_seen; ++i) {
    double score = 0;
    for (std::size_t d = 0; d < dim; ++d) {
      score += static_cast<double>(q[d]) * keys[static_cast<std::size_t>(i) * dim + d];
    }
    scores.push_back(scale * score);
  }
  const double largest = *std::ranges::max_element(scores);
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    for (std::size_t d = 0; d < dim; ++d) out[d] += scores[i] / sum * static_cast<double>(values[i * dim + d]);
  }
  return out;
}

}  // namespace

OutputRows exact_rows(const AttentionScene& scene, std::size_t sequence, mortise_sum_order order) {
  const DenormalsOff denormals_off;
  const AttentionShape& shape = scene.shape();
  const float scale = mortise_span_scale(shape.dims().attention_scale);
  std::vector<float> out(static_cast<std::size_t>(shape.head_dim)), scratch(2 * out.size());
  OutputRows rows;
  for_each_row(scene, sequence,
               [&](std::int32_t position, const std::vector<float>& q, const float* keys, const float* values,
                   std::int32_t num_seen) {
                 mortise_attention_row_in(order, shape.is_bf16(), q.data(), keys, values, position, num_seen,
                                          shape.head_dim, scale, scratch.data(), out.data());
                 OutputRow& row = rows[{sequence, position}];
                 row.resize(row.size() + out.size() * shape.element_bytes());
                 mortise_store(out.data(), shape.dtype, shape.head_dim,
                               row.data() + row.size() - out.size() * shape.element_bytes());
               });
  return rows;
}

void expect_near(const AttentionScene& scene, std::size_t sequence, const OutputRows& found) {
  const AttentionShape& shape = scene.shape();
  // The values lie in [-1, 1]. bf16 rounds weights and output to 8 bits each.
  const double allowed = shape.is_bf16() ? 0.02 : 1e-4;
  std::map<std::int32_t, std::size_t> next;  // by position: byte offset of the next head in the row's output
  for_each_row(scene, sequence,
               [&](std::int32_t position, const std::vector<float>& q, const float* keys, const float* values,
                   std::int32_t num_seen) {
                 const auto row = found.find({sequence, position});
                 if (row == found.end()) return;  // the step had other rows of the sequence
                 const std::vector<double> expected = softmax_average(shape, q, keys, values, num_seen);
                 std::vector<float> out(expected.size());
                 std::size_t& at = next[position];
                 mortise_load(row->second.data() + at, shape.dtype, 1, shape.head_dim, out.data());
                 at += out.size() * shape.element_bytes();
                 for (std::size_t d = 0; d < out.size(); ++d) {
                   expect(std::abs(static_cast<double>(out[d]) - expected[d]) <= allowed,
                          "{}: the output at position {}, element {} is {}, and {} in double", shape.text(), position,
                          d, out[d], expected[d]);
                 }
               });
}

}  // namespace mortise::conformance
