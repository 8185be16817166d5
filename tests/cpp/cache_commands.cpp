// Commands to a KV cache, one a line, and what each of them answers: tests compare that with the cache in Python.
//
//     cache_commands model.so sequences tokens < commands
//     cache_commands --tensors weights.safetensors
//     cache_commands --missing < names                the packed functions that the headers do not register

#include <cmath>
#include <cstdio>
#include <iostream>
#include <sstream>

#include <relax/language_model.h>

using relax::call;
using relax::Tensor;
using relax::Value;

// Numbers in [-0.5, 0.5) by a formula that the test has too.
static void fill(const Tensor& tensor, uint32_t salt) {
  for (int64_t i = 0; i < tensor.size(); ++i) {
    uint32_t mixed = static_cast<uint32_t>(i) * 2654435761u + salt * 40503u;
    tensor.data<float>()[i] = static_cast<float>(mixed >> 8) / (1 << 24) - 0.5f;
  }
}

static void print(const float* numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::printf("%s%.6f", i ? " " : "", numbers[i]);
  std::printf("\n");
}

static const std::string kState = "vm.builtin.kv_state_", kAttention = "vm.builtin.attention_kv_cache_";

struct Commands {
  relax_library::Function step;
  Value cache;
  int64_t tokens = 0;

  void run(const std::string& name, const std::vector<int64_t>& n) {
    auto at = [&](size_t i) { return i < n.size() ? n[i] : 0; };
    if (name == "add") call(kState + "add_sequence", cache, at(0));
    else if (name == "remove") call(kState + "remove_sequence", cache, at(0));
    else if (name == "fork") call(kState + "fork_sequence", cache, at(0), at(1), at(2));
    else if (name == "popn") call(kState + "popn", cache, at(0), at(1));
    else if (name == "slide") call(kAttention + "enable_sliding_window_for_seq", cache, at(0), at(1), at(2));
    else if (name == "end") call(kState + "end_forward", cache);
    else if (name == "clear") call(kState + "clear", cache);
    else if (name == "begin") return begin(n);
    else if (name == "step") return attend(static_cast<uint32_t>(at(0)));
    else if (name == "pages") return answer(call(kAttention + "get_num_available_pages", cache));
    else if (name == "total") return answer(call(kAttention + "get_total_sequence_length", cache));
    else if (name == "positions") return positions();
    else if (name == "kv") return keys_and_values(n);
    else if (name == "sample") return sample(n);
    else if (name == "wrong") return wrong(at(0));
    std::printf("done\n");
  }

  void begin(const std::vector<int64_t>& pairs) {
    std::vector<int64_t> ids, lengths;
    int64_t total = 0;
    for (size_t i = 0; i + 1 < pairs.size(); i += 2)
      ids.push_back(pairs[i]), lengths.push_back(pairs[i + 1]), total += pairs[i + 1];
    call(kState + "begin_forward", cache, Value::shape(ids), Value::shape(lengths));
    tokens = total;
    std::printf("done\n");
  }

  void attend(uint32_t salt) {
    Tensor qkv = Tensor::zeros<float>({tokens, 32});
    fill(qkv, salt);
    Tensor out(step(qkv, cache));
    print(out.data<float>(), out.size());
  }

  void answer(const Value& value) { std::printf("%lld\n", static_cast<long long>(value.integer())); }

  void positions() {
    Tensor found(call(kAttention + "get_query_positions", cache));
    for (int64_t i = 0; i < found.size(); ++i) std::printf("%s%d", i ? " " : "", found.data<int32_t>()[i]);
    std::printf("\n");
  }

  void keys_and_values(const std::vector<int64_t>& n) {
    int64_t count = std::max<int64_t>(n.at(2) - n.at(1), 0);
    Tensor k = Tensor::zeros<float>({2, count, 2, 4}), v = Tensor::zeros<float>({2, count, 2, 4});
    call(kAttention + "debug_get_kv", cache, n.at(0), n.at(1), n.at(2), k, v);
    double sum = 0;
    for (int64_t i = 0; i < k.size(); ++i) sum += k.data<float>()[i] + 2 * v.data<float>()[i];
    std::printf("%.4f\n", sum);
  }

  // A token by each sampler; numbers are percent: temperature, top_p, the random number.
  void sample(const std::vector<int64_t>& n) {
    Tensor logits = Tensor::zeros<float>({1, 300});
    fill(logits, static_cast<uint32_t>(n.at(3)));
    for (int64_t i = 0; i < 300; ++i) logits.data<float>()[i] *= 12;
    double heat = static_cast<double>(n.at(0)) / 100, top_p = static_cast<double>(n.at(1)) / 100;
    double share = static_cast<double>(n.at(2)) / 100;
    Tensor ids = Tensor::zeros<int32_t>({2});
    ids.data<int32_t>()[1] = 5;
    call("vm.builtin.apply_repetition_penalty", logits, ids, 1.5);
    call("vm.builtin.apply_presence_and_frequency_penalty", logits, ids, ids, 0.5, 0.25);
    long long first = call("vm.builtin.sample_top_p_from_logits", logits, heat, top_p, share).integer();
    call("vm.builtin.apply_softmax_with_temperature", logits, 0.7);
    long long second = call("vm.builtin.sample_top_p_from_prob", logits, top_p, share).integer();
    Tensor shares = Tensor::zeros<float>({1});
    shares.data<float>()[0] = static_cast<float>(share);
    Tensor third(call("vm.builtin.multinomial_from_uniform", logits, shares));
    std::printf("%lld %lld %lld\n", first, second, static_cast<long long>(third.data<int64_t>()[0]));
  }

  // Calls with arguments of other kinds.
  void wrong(int64_t which) {
    Tensor small = Tensor::zeros<float>({1, 3}), whole = Tensor::zeros<int32_t>({3});
    switch (which) {
      case 0: call(kState + "add_sequence", 3, 0); break;
      case 1: call(kState + "add_sequence", cache, 0.5); break;
      case 2: call(kState + "begin_forward", cache, Value::shape({0}), Value::shape({1}), Value::shape({-1})); break;
      case 3: call(kState + "popn", cache); break;
      case 4: call(kAttention + "attention_with_fused_qkv", cache, 0, 1.0, small, small); break;
      case 5: call(kAttention + "attention_with_fused_qkv", cache, 0, 1.0, whole, small); break;
      case 6: call(kAttention + "attention_with_fused_qkv", cache, 9, 1.0, small, small); break;
      case 7: call("vm.builtin.apply_repetition_penalty", small, whole.view({3, 1}), 0.0); break;
      case 8: whole.data<int32_t>()[2] = 3; call("vm.builtin.apply_repetition_penalty", small, whole, 2.0); break;
      case 9: call("vm.builtin.sample_top_p_from_logits", small, 1.0, 0.9, 1.0); break;
      case 10: small.data<float>()[1] = NAN; call("vm.builtin.sample_top_p_from_logits", small, 1.0, 0.9, 0.5); break;
      case 11: call("vm.builtin.sample_top_p_from_prob", small, 0.9, 0.5); break;
      case 12: call("vm.builtin.paged_attention_kv_cache_create", Value::shape({1})); break;
    }
    std::printf("no error\n");
  }
};

static int show_tensors(const char* path) {
  for (const relax::NamedTensor& each : relax::SafeTensors(path).tensors)
    std::printf("%s %s\n", each.name.c_str(), relax::dims(each.tensor.shape()).c_str());
  return 0;
}

static int show_missing() {
  for (std::string name; std::getline(std::cin, name);) {
    try {
      Value::global(name);
    } catch (const relax_library::Error& error) {
      std::printf("%s: %s\n", error.kind().c_str(), error.what());
    }
  }
  return 0;
}

int main(int argc, char** argv) try {
  if (argc == 3) return show_tensors(argv[2]);
  relax::register_kv_cache();
  relax::register_samplers();
  if (argc == 2) return show_missing();
  relax_library::Library library(argv[1]);
  Value room = Value::shape({std::atoll(argv[2]), std::atoll(argv[3])});
  Commands commands{library["step"], library["cache"](room)};
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string name;
    std::vector<int64_t> numbers;
    words >> name;
    for (int64_t number; words >> number;) numbers.push_back(number);
    try {
      commands.run(name, numbers);
    } catch (const relax_library::Error& error) {
      std::printf("%s: %s\n", error.kind().c_str(), error.what());
    }
  }
  return 0;
} catch (const relax_library::Error& error) {
  std::printf("%s: %s\n", error.kind().c_str(), error.what());
  return 1;
}
