// A language model without Python: the folder that `relax.llm.LanguageModel.export` writes, tokens in, tokens out.
//
//     relax::LanguageModel model("folder");
//     std::vector<int32_t> answer = model.generate({1, 2, 3}, 20);                      the likeliest tokens
//     int64_t first = model.add(), second = model.add();                                sequences
//     Tensor logits = model.step({{first, {1, 2, 3}}, {second, {4}}});                  (2, vocabulary)
//
// A model is used by one thread at a time; the kernels run on as many threads as RELAX_NUM_THREADS says.
#ifndef RELAX_LANGUAGE_MODEL_H_
#define RELAX_LANGUAGE_MODEL_H_

#include <relax/kv_cache.h>
#include <relax/safetensors.h>
#include <relax/sampling.h>

#include <set>
#include <utility>

namespace relax {

class LanguageModel {
 public:
  using Tokens = std::vector<int32_t>;
  using Batch = std::vector<std::pair<int64_t, Tokens>>;

  // Load the model of a folder. `context` is the number of tokens of all sequences together; 0: that of the export.
  explicit LanguageModel(const std::string& folder, int64_t max_sequences = 16, int64_t context = 0)
      : library_(folder + "/model.so"), file_(folder + "/weights.safetensors"), forward_(library_["forward"]) {
    register_kv_cache();
    register_samplers();
    vocabulary_ = setting("vocabulary"), page_ = setting("page");
    if (context == 0) context = setting("context");
    if (context < 1 || context > INT32_MAX / 2) refuse("a context of " + text(context) + " tokens cannot be made");
    chunk_ = std::min(context, setting("chunk"));
    std::string ends = metadata("ends");
    for (size_t at = 0; at < ends.size(); at = std::min(ends.find(' ', at), ends.size() - 1) + 1)
      ends_.insert(static_cast<int32_t>(whole(ends.substr(at, ends.find(' ', at) - at))));
    auto one = [](int64_t size) { return Value::shape({size}); };
    cache_ = library_["create_cache"](one(max_sequences), one(pages_of(context, page_) * page_), one(chunk_));
  }

  int64_t vocabulary() const { return vocabulary_; }
  int64_t free_tokens() const {
    return page_ * call("vm.builtin.attention_kv_cache_get_num_available_pages", cache_).integer();
  }
  const Value& cache() const { return cache_; }

  // The tokens of a sequence.
  int64_t length(int64_t sequence) const {
    auto found = lengths_.find(sequence);
    if (found == lengths_.end()) refuse("there is no sequence " + text(sequence));
    return found->second;
  }

  // The number of a new, empty sequence.
  int64_t add() {
    call("vm.builtin.kv_state_add_sequence", cache_, next_);
    lengths_[next_] = 0;
    return next_++;
  }

  // A new sequence that begins with the first `length` tokens of another one (-1: all of them).
  int64_t fork(int64_t parent, int64_t length = -1) {
    int64_t all = this->length(parent), shared = length == -1 ? all : length;
    if (shared < 0 || shared > all)
      refuse("the sequence has " + text(all) + " tokens, and " + text(shared) + " of them are to be shared");
    call("vm.builtin.kv_state_fork_sequence", cache_, parent, next_, shared);
    lengths_[next_] = shared;
    return next_++;
  }

  void remove(int64_t sequence) {
    length(sequence);
    call("vm.builtin.kv_state_remove_sequence", cache_, sequence);
    lengths_.erase(sequence);
  }

  // Forget the tokens of a sequence behind the first `length`.
  void shorten(int64_t sequence, int64_t length) {
    int64_t all = this->length(sequence);
    if (length < 0 || length > all)
      refuse("the sequence has " + text(all) + " tokens, and cannot be shortened to " + text(length));
    call("vm.builtin.kv_state_popn", cache_, sequence, all - length);
    lengths_[sequence] = length;
  }

  // Append tokens to sequences; return the logits (sequences, vocabulary) behind the last one of each. After an error,
  // the sequences are as they were, those excepted whose windows have slid on.
  Tensor step(const Batch& batch) {
    std::map<int64_t, int64_t> before;
    for (const auto& [sequence, tokens] : batch) {
      before[sequence] = length(sequence);
      if (tokens.empty()) refuse("each sequence of a step gets one token or more");
      for (int32_t token : tokens)
        if (token < 0 || token >= vocabulary_)
          throw Error("IndexError", text(token) + " is no token of a vocabulary of " + text(vocabulary_));
    }
    if (batch.empty() || before.size() < batch.size()) refuse("each sequence of a step is named once");
    Tensor logits = Tensor::uninitialised({kDLFloat, 32, 1}, {static_cast<int64_t>(batch.size()), vocabulary_});
    try {
      run_all(batch, logits.data<float>());
    } catch (...) {
      for (const auto& [sequence, old] : before) {
        try {
          shorten(sequence, old);
        } catch (const Error&) {  // a window has slid past
        }
      }
      throw;
    }
    return logits;
  }

  // Continue a prompt by at most `count` tokens; a token that ends the model's turn is the last one. Called with each
  // token, `more` returns false to stop.
  Tokens generate(const Tokens& prompt, int64_t count, const SamplerSettings& settings = {},
                  const std::function<bool(int32_t)>& more = nullptr) {
    Sampler sampler(settings);
    int64_t sequence = add();
    Tokens answer, next = prompt;
    try {
      while (static_cast<int64_t>(answer.size()) < count) {
        Tensor logits = step({{sequence, next}});
        int32_t token = sampler.sample(logits.data<float>(), vocabulary_);
        answer.push_back(token);
        if (ends_.count(token) || (more && !more(token))) break;
        next = {token};
      }
    } catch (...) {
      remove(sequence);
      throw;
    }
    remove(sequence);
    return answer;
  }

 private:
  const std::string& metadata(const std::string& name) const {
    auto found = file_.metadata.find(name);
    if (found == file_.metadata.end()) refuse("the file of weights does not say " + name + ": it was not exported");
    return found->second;
  }

  static int64_t whole(const std::string& digits) {
    if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos)
      refuse("the file of weights has the setting '" + digits + "', expected a whole number");
    return std::stoll(digits);
  }

  int64_t setting(const std::string& name) const {
    int64_t value = whole(metadata(name));
    if (value == 0) refuse("the file of weights has the setting " + name + " = 0");
    return value;
  }

  // Run a step in parts of at most `chunk_` tokens, and write the rows of logits.
  void run_all(const Batch& batch, float* logits) {
    Batch part;
    std::vector<int64_t> rows;  // of the sequences of a part: the row of logits, or -1 if tokens follow
    int64_t room = chunk_;
    for (size_t i = 0; i < batch.size(); ++i) {
      const auto& [sequence, tokens] = batch[i];
      for (size_t at = 0; at < tokens.size();) {
        size_t taken = std::min(tokens.size() - at, static_cast<size_t>(room));
        auto from = tokens.begin() + static_cast<int64_t>(at);
        part.emplace_back(sequence, Tokens(from, from + static_cast<int64_t>(taken)));
        at += taken, room -= static_cast<int64_t>(taken);
        rows.push_back(at == tokens.size() ? static_cast<int64_t>(i) : -1);
        if (room == 0) run(part, rows, logits), part.clear(), rows.clear(), room = chunk_;
      }
    }
    if (!part.empty()) run(part, rows, logits);
  }

  void run(const Batch& part, const std::vector<int64_t>& rows, float* logits) {
    std::vector<int64_t> sequences, counts;
    int64_t total = 0;
    for (const auto& [sequence, tokens] : part) {
      sequences.push_back(sequence), counts.push_back(static_cast<int64_t>(tokens.size()));
      total += counts.back();
    }
    Tensor tokens = Tensor::zeros<int32_t>({total}), last = Tensor::zeros<int32_t>({static_cast<int64_t>(part.size())});
    int32_t *to = tokens.data<int32_t>(), *end = to;
    for (size_t i = 0; i < part.size(); ++i) {
      end = std::copy(part[i].second.begin(), part[i].second.end(), end);
      last.data<int32_t>()[i] = static_cast<int32_t>(end - to) - 1;
    }
    call("vm.builtin.kv_state_begin_forward", cache_, Value::shape(sequences), Value::shape(counts));
    for (size_t i = 0; i < part.size(); ++i) lengths_[sequences[i]] += counts[i];
    std::vector<Value> args{tokens, last, cache_};
    for (const NamedTensor& weight : file_.tensors)
      if (weight.name.rfind("padding.", 0) != 0) args.push_back(weight.tensor);
    Value result;
    try {
      result = forward_.apply(args);
    } catch (...) {
      call("vm.builtin.kv_state_end_forward", cache_);
      throw;
    }
    call("vm.builtin.kv_state_end_forward", cache_);
    Tensor found(result);
    if (found.shape() != std::vector<int64_t>{static_cast<int64_t>(part.size()), vocabulary_})
      refuse("the library and the file of weights are of two models");
    const float* from = found.data<float>();
    for (size_t i = 0; i < rows.size(); ++i)
      if (rows[i] >= 0)
        std::copy(from + static_cast<int64_t>(i) * vocabulary_, from + static_cast<int64_t>(i + 1) * vocabulary_,
                  logits + rows[i] * vocabulary_);
  }

  relax_library::Library library_;
  SafeTensors file_;
  relax_library::Function forward_;
  Value cache_;
  std::map<int64_t, int64_t> lengths_;
  std::set<int32_t> ends_;
  int64_t next_ = 0, vocabulary_ = 0, page_ = 0, chunk_ = 0;
};

}  // namespace relax

#endif  // RELAX_LANGUAGE_MODEL_H_
