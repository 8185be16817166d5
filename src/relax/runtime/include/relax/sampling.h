// The choice of a next token without Python: `relax::Sampler`, and the builtins of relax/samplers.py by their names.
//
//     relax::Sampler sampler({/*temperature=*/0.8, /*top_k=*/0, /*top_p=*/0.95, /*min_p=*/0.0, /*seed=*/7});
//     int32_t token = sampler.sample(logits, vocabulary);
//
// The same settings and seed choose the tokens that `relax.llm.Sampler` chooses, up to the last bits of exp.
#ifndef RELAX_SAMPLING_H_
#define RELAX_SAMPLING_H_

#include <relax/builtins.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

namespace relax {

// Random numbers in [0, 1): Philox 4x64 with ten rounds, as NumPy's `Generator(Philox(key=seed)).random()`.
class Philox {
 public:
  explicit Philox(uint64_t seed) : key_{seed, 0} {}

  double random() {
    if (next_ == 4) {
      for (size_t i = 0; i < 4 && ++counter_[i] == 0; ++i) {
      }
      block_ = encrypted();
      next_ = 0;
    }
    return static_cast<double>(block_[next_++] >> 11) * 0x1p-53;
  }

 private:
  using Words = std::array<uint64_t, 4>;

  Words encrypted() const {
    Words words = counter_;
    uint64_t first = key_[0], second = key_[1];
    for (int round = 0; round < 10; ++round) {
      if (round) first += 0x9E3779B97F4A7C15u, second += 0xBB67AE8584CAA73Bu;
      __extension__ using Wide = unsigned __int128;
      Wide a = static_cast<Wide>(0xD2E7470EE14C6C93u) * words[0], b = static_cast<Wide>(0xCA5A826395121157u) * words[2];
      words = {static_cast<uint64_t>(b >> 64) ^ words[1] ^ first, static_cast<uint64_t>(b),
               static_cast<uint64_t>(a >> 64) ^ words[3] ^ second, static_cast<uint64_t>(a)};
    }
    return words;
  }

  std::array<uint64_t, 2> key_;
  Words counter_{}, block_{};
  size_t next_ = 4;
};

struct SamplerSettings {
  double temperature = 0;  // 0 takes the likeliest token
  int64_t top_k = 0;       // keep as many of the likeliest tokens; 0: all
  double top_p = 1;        // keep the likeliest tokens with this share of all probability
  double min_p = 0;        // keep the tokens with at least this share of the largest probability
  uint64_t seed = 0;
};

class Sampler {
 public:
  explicit Sampler(SamplerSettings settings = {}) : settings_(settings), random_(settings.seed) {
    require(settings.temperature >= 0 && std::isfinite(settings.temperature), "temperature is at least 0");
    require(settings.top_k >= 0, "top_k is at least 0");
    require(settings.top_p >= 0 && settings.top_p <= 1, "top_p is between 0 and 1");
    require(settings.min_p >= 0 && settings.min_p <= 1, "min_p is between 0 and 1");
  }

  // The next token, for the logits of all tokens of a vocabulary. A logit that is NaN or inf is a ValueError.
  int32_t sample(const float* logits, int64_t vocabulary) {
    require(vocabulary > 0, "there is at least one logit");
    int64_t best = 0;
    for (int64_t i = 0; i < vocabulary; ++i) {
      require(!std::isnan(logits[i]), "logits are no NaN");
      if (logits[i] > logits[best]) best = i;
    }
    require(std::isfinite(logits[best]), "the greatest logit is finite");
    if (settings_.temperature == 0) return static_cast<int32_t>(best);
    std::vector<int32_t> ids(static_cast<size_t>(vocabulary));
    std::iota(ids.begin(), ids.end(), 0);
    float greatest = logits[best];
    auto weight = [&](int32_t id) { return std::exp(logits[id] - greatest); };
    auto likelier = [&](int32_t a, int32_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); };
    if (settings_.top_k && settings_.top_k < vocabulary) {
      std::nth_element(ids.begin(), ids.begin() + settings_.top_k - 1, ids.end(), likelier);
      ids.resize(static_cast<size_t>(settings_.top_k));
    }
    if (settings_.top_p < 1) {
      std::sort(ids.begin(), ids.end(), likelier);
      double total = 0, sum = 0;
      for (int32_t id : ids) total += weight(id);
      size_t count = 0;
      do sum += weight(ids[count++]);
      while (count < ids.size() && sum < settings_.top_p * total);
      ids.resize(count);
    }
    auto unlikely = [&](int32_t id) { return weight(id) < static_cast<float>(settings_.min_p); };
    if (settings_.min_p > 0) ids.erase(std::remove_if(ids.begin(), ids.end(), unlikely), ids.end());
    std::sort(ids.begin(), ids.end());
    return drawn(ids, logits, greatest);
  }

 private:
  static void require(bool holds, const char* what) {
    if (!holds) refuse(std::string("expected that ") + what);
  }

  // The first token at which the sum of weights is more than a random share of all.
  int32_t drawn(const std::vector<int32_t>& ids, const float* logits, float greatest) {
    float heat = static_cast<float>(std::max(settings_.temperature, 1e-30));
    std::vector<double> sums;
    double sum = 0;
    size_t last = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      float weight = std::exp((logits[ids[i]] - greatest) / heat);
      if (weight > 0) last = i;
      sums.push_back(sum += weight);
    }
    size_t at = static_cast<size_t>(std::upper_bound(sums.begin(), sums.end(), random_.random() * sum) - sums.begin());
    return ids[std::min(at, last)];
  }

  SamplerSettings settings_;
  Philox random_;
};

namespace detail {

// The numbers of one position: a compact tensor of float32 whose last dimension has them all.
inline Tensor row(const Value& value, const std::string& name) {
  if (value.kind() != kTVMFFITensor) fail_type("expected a tensor as " + name);
  Tensor tensor(value);
  if (tensor.dl().dtype.code != kDLFloat || tensor.dl().dtype.bits != 32 || !tensor.is_compact())
    fail_type("expected a compact tensor of float32 as " + name);
  std::vector<int64_t> shape = tensor.shape();
  if (shape.empty() || tensor.size() == 0 || shape.back() != tensor.size())
    refuse(name + " has the shape " + dims(shape) + ", expected that of one position");
  return tensor;
}

// The integers of a compact tensor of int32 or int64.
inline std::vector<int64_t> ids_of(const Value& value, const std::string& name) {
  if (value.kind() != kTVMFFITensor) fail_type("expected a tensor as " + name);
  Tensor tensor(value);
  DLDataType dtype = tensor.dl().dtype;
  if (dtype.code != kDLInt || (dtype.bits != 32 && dtype.bits != 64) || !tensor.is_compact())
    fail_type("expected a compact tensor of int32 or int64 as " + name);
  std::vector<int64_t> out;
  for (int64_t i = 0; i < tensor.size(); ++i)
    out.push_back(dtype.bits == 32 ? tensor.data<int32_t>()[i] : tensor.data<int64_t>()[i]);
  return out;
}

inline std::vector<int64_t> tokens_of(const Value& value, int64_t vocabulary) {
  std::vector<int64_t> ids = ids_of(value, "token_ids");
  for (int64_t id : ids)
    if (id < 0 || id >= vocabulary)
      refuse("token_ids has the id " + text(id) + ", expected one from 0 to " + text(vocabulary - 1));
  return ids;
}

inline void check_share(double share) {
  if (!(share >= 0 && share < 1))
    refuse("uniform_sample is " + std::to_string(share) + ", expected a number in [0, 1)");
}

inline void check_probabilities(const float* weights, int64_t count) {
  float least = INFINITY, greatest = -INFINITY;
  bool plain = true;
  for (int64_t i = 0; i < count; ++i) {
    plain = plain && weights[i] >= 0;
    least = std::min(least, weights[i]), greatest = std::max(greatest, weights[i]);
  }
  if (!plain || !(greatest > 0) || !std::isfinite(greatest))
    refuse("prob has values from " + std::to_string(least) + " to " + std::to_string(greatest) +
           ", expected probabilities");
}

// The weights exp((score - greatest) / temperature).
inline std::vector<float> softmax_weights(const Tensor& logits, double temperature) {
  const float* from = logits.data<float>();
  float greatest = -INFINITY, inverse = static_cast<float>(1 / temperature);
  for (int64_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(from[i])) refuse("logits have the greatest value nan, expected a finite one");
    greatest = std::max(greatest, from[i]);
  }
  if (!std::isfinite(greatest))
    refuse("logits have the greatest value " + std::to_string(greatest) + ", expected a finite one");
  std::vector<float> weights;
  for (int64_t i = 0; i < logits.size(); ++i) weights.push_back(std::exp((from[i] - greatest) * inverse));
  return weights;
}

// The first index at which the weights so far are more than a share of their sum.
inline int64_t at_share(const float* weights, int64_t count, double share) {
  std::vector<double> sums;
  double sum = 0;
  int64_t last = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (weights[i] > 0) last = i;
    sums.push_back(sum += weights[i]);
  }
  return std::min<int64_t>(std::upper_bound(sums.begin(), sums.end(), share * sum) - sums.begin(), last);
}

// The token at a share of the mass of the most likely tokens, which together have at least `top_p`.
inline int64_t sampled(const float* weights, int64_t count, double top_p, double sample) {
  if (!(top_p > 0 && top_p <= 1)) refuse("top_p is " + std::to_string(top_p) + ", expected a number in (0, 1]");
  check_share(sample);
  if (top_p >= 1) return at_share(weights, count, sample);
  std::vector<int32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return weights[a] > weights[b]; });
  double total = std::accumulate(weights, weights + count, 0.0), sum = 0;
  std::vector<double> sums;
  for (size_t i = 0; i < order.size() && (i == 0 || sum < top_p * total); ++i)
    sums.push_back(sum += weights[order[i]]);
  size_t at = static_cast<size_t>(std::upper_bound(sums.begin(), sums.end(), sample * sum) - sums.begin());
  return order[std::min(at, sums.size() - 1)];
}

inline Value sample_from_logits(const Values& args) {
  Tensor logits = row(args[0], "logits");
  double heat = number(args[1], "temperature"), top_p = number(args[2], "top_p");
  double sample = number(args[3], "uniform_sample");
  if (!(heat >= 0)) refuse("temperature is " + std::to_string(heat) + ", expected a number that is not negative");
  std::vector<float> weights = softmax_weights(logits, heat < 1e-6 ? 1 : heat);
  int64_t chosen = sampled(weights.data(), logits.size(), top_p, sample);
  if (heat >= 1e-6) return Value(chosen);
  const float* from = logits.data<float>();
  return Value(static_cast<int64_t>(std::max_element(from, from + logits.size()) - from));
}

inline Value sample_from_probabilities(const Values& args) {
  Tensor weights = row(args[0], "prob");
  check_probabilities(weights.data<float>(), weights.size());
  double top_p = number(args[1], "top_p"), sample = number(args[2], "uniform_sample");
  return Value(sampled(weights.data<float>(), weights.size(), top_p, sample));
}

inline Value multinomial(const Values& args) {
  if (args[0].kind() != kTVMFFITensor) fail_type("expected a tensor as prob");
  Tensor weights(args[0]);
  std::vector<int64_t> shape = weights.shape();
  if (shape.size() != 2 || shape[1] == 0) refuse("prob has the shape " + dims(shape) + ", expected (n, vocabulary)");
  if (!weights.is_compact()) refuse("prob is not compact, or not in host memory");
  std::vector<double> shares = numbers(args[1], "uniform_sample");
  if (static_cast<int64_t>(shares.size()) != shape[0])
    refuse("uniform_sample has " + text(static_cast<int64_t>(shares.size())) + " numbers, expected " + text(shape[0]));
  Tensor tokens = Tensor::zeros<int64_t>({shape[0], 1});
  for (int64_t i = 0; i < shape[0]; ++i) {
    const float* from = weights.data<float>() + i * shape[1];
    check_share(shares[static_cast<size_t>(i)]);
    check_probabilities(from, shape[1]);
    tokens.data<int64_t>()[i] = at_share(from, shape[1], shares[static_cast<size_t>(i)]);
  }
  return tokens;
}

inline Value repetition_penalty(const Values& args) {
  Tensor logits = row(args[0], "logits");
  std::vector<int64_t> ids = tokens_of(args[1], logits.size());
  double penalty = number(args[2], "penalty");
  if (!(penalty > 0)) refuse("penalty is " + std::to_string(penalty) + ", expected a positive number");
  float factor = static_cast<float>(penalty);
  for (int64_t id : std::set<int64_t>(ids.begin(), ids.end())) {
    float& score = logits.data<float>()[id];
    score = score > 0 ? score / factor : score * factor;
  }
  return Value();
}

inline Value presence_and_frequency_penalty(const Values& args) {
  Tensor logits = row(args[0], "logits");
  std::vector<int64_t> ids = tokens_of(args[1], logits.size()), counts = ids_of(args[2], "token_freqs");
  double presence = number(args[3], "presence_penalty"), frequency = number(args[4], "frequency_penalty");
  if (counts.size() != ids.size())
    refuse("there are " + text(static_cast<int64_t>(counts.size())) + " frequencies of " +
           text(static_cast<int64_t>(ids.size())) + " tokens");
  if (std::set<int64_t>(ids.begin(), ids.end()).size() != ids.size()) refuse("token_ids names a token twice");
  for (size_t i = 0; i < ids.size(); ++i) {
    float& score = logits.data<float>()[ids[i]];
    double penalty = static_cast<double>(counts[i]) * frequency + (counts[i] > 0 ? presence : 0);
    score = static_cast<float>(score - penalty);
  }
  return Value();
}

inline Value softmax_with_temperature(const Values& args) {
  Tensor logits = row(args[0], "logits");
  double heat = number(args[1], "temperature");
  if (!(heat > 0)) refuse("temperature is " + std::to_string(heat) + ", expected a positive number");
  std::vector<float> weights = softmax_weights(logits, heat);
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (int64_t i = 0; i < logits.size(); ++i)
    logits.data<float>()[i] = static_cast<float>(weights[static_cast<size_t>(i)] / total);
  return Value();
}

}  // namespace detail

// Register the samplers in the process, for all libraries. They take float32. Calling it again changes nothing.
inline void register_samplers() {
  static const bool done = [] {
    detail::builtin("sample_top_p_from_logits", 4, 4, detail::sample_from_logits);
    detail::builtin("sample_top_p_from_prob", 3, 3, detail::sample_from_probabilities);
    detail::builtin("multinomial_from_uniform", 2, 2, detail::multinomial);
    detail::builtin("apply_repetition_penalty", 3, 3, detail::repetition_penalty);
    detail::builtin("apply_presence_and_frequency_penalty", 5, 5, detail::presence_and_frequency_penalty);
    detail::builtin("apply_softmax_with_temperature", 2, 2, detail::softmax_with_temperature);
    return true;
  }();
  (void)done;
}

}  // namespace relax

#endif  // RELAX_SAMPLING_H_
