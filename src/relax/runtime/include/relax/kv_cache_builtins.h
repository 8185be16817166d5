// The builtins of the paged KV cache by their names: `relax::register_kv_cache` (see kv_cache.h).
#ifndef RELAX_KV_CACHE_BUILTINS_H_
#define RELAX_KV_CACHE_BUILTINS_H_

#include <relax/kv_cache.h>

namespace relax {

namespace detail {

// The caches that live. A cache is a function object of tvm-ffi, which counts its users; calling it is an error.
class Caches {
 public:
  static Caches& all() {
    static auto* caches = new Caches;  // never deleted: caches may die while the process ends
    return *caches;
  }

  Value add(std::unique_ptr<PagedKVCache> cache) {
    auto refuse_call = [](void*, const TVMFFIAny*, int32_t, TVMFFIAny*) -> int {
      TVMFFIErrorSetRaisedFromCStr("TypeError", "a KV cache is no function");
      return -1;
    };
    void* handle = nullptr;
    auto* entry = new Entry{std::move(cache), nullptr};
    int status = TVMFFIFunctionCreate(
        entry, refuse_call, [](void* self) { all().remove(static_cast<Entry*>(self)); }, &handle);
    if (status != 0) delete entry;
    relax_library::check(status);
    TVMFFIAny any{};
    any.type_index = kTVMFFIFunction;
    any.v_obj = static_cast<TVMFFIObject*>(handle);
    Value value = Value::owned(any);
    std::lock_guard<std::mutex> lock(mutex_);
    entry->handle = handle;
    entries_[handle] = entry;
    return value;
  }

  PagedKVCache& get(const Value& value) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = value.kind() == kTVMFFIFunction ? entries_.find(value.any().v_obj) : entries_.end();
    if (found == entries_.end()) fail_type("expected a paged KV cache");
    return *found->second->cache;
  }

 private:
  struct Entry {
    std::unique_ptr<PagedKVCache> cache;
    void* handle;
  };
  void remove(Entry* entry) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      entries_.erase(entry->handle);
    }
    delete entry;
  }

  std::mutex mutex_;
  std::unordered_map<void*, Entry*> entries_;
};

inline DLDataType page_dtype(const std::string& name) {
  if (name == "float32") return {kDLFloat, 32, 1};
  if (name == "float16") return {kDLFloat, 16, 1};
  if (name == "bfloat16") return {kDLBfloat, 16, 1};
  refuse("the page_dtype is " + name + ", expected one of float32, float16, bfloat16");
}

inline bool is_missing(const Value& value) {
  return value.is_none() || (value.kind() == kTVMFFIArray && value.fields().empty());
}

// The options of a cache, a tuple of names and values in turn. Python's options "interleaved" and "softcap" are part of
// the kernels.
inline std::map<std::string, Value> options_of(const Value& value) {
  static const std::set<std::string> known{"interleaved", "rotary_dim",  "factors",       "scaling", "local_theta",
                                           "local_scale", "local_factors", "softcap", "page_dtype"};
  std::map<std::string, Value> options;
  if (value.is_none()) return options;
  Values fields = value.fields();
  if (fields.size() % 2) refuse("expected names and values of options in turn");
  for (size_t i = 0; i < fields.size(); i += 2) {
    std::string name = fields[i].text();
    if (!known.count(name)) refuse("there is no option '" + name + "' of a KV cache");
    if (!fields[i + 1].is_none()) options[name] = fields[i + 1];
  }
  return options;
}

inline void set_rotaries(CacheLayout& layout, const Values& args, const Value& factors,
                         const std::map<std::string, Value>& options) {
  int64_t mode = integer(args[8], "rope_mode");
  if (mode < 0 || mode > 2) refuse("rope_mode is " + text(mode) + ", expected 0 (none), 1 (normal) or 2 (inline)");
  double scale = number(args[9], "rotary_scale"), theta = number(args[10], "rotary_theta");
  if (mode == 0) return;
  auto get = [&](const char* name) { return options.count(name) ? options.at(name) : Value(); };
  auto number_or = [&](const char* name, double other) {
    return options.count(name) ? number(options.at(name), name) : other;
  };
  int64_t dim = options.count("rotary_dim") ? integer(get("rotary_dim"), "rotary_dim") : layout.key_dim;
  if (dim > layout.key_dim)
    refuse("rotary_dim is " + text(dim) + ", and keys have " + text(layout.key_dim) + " elements");
  Value divisors = options.count("factors") ? get("factors") : factors;
  std::vector<double> values = divisors.is_none() ? std::vector<double>{} : numbers(divisors, "rope_ext_factors");
  layout.rotary = Rotary(dim, theta, scale, divisors.is_none() ? nullptr : &values, number_or("scaling", 1));
  if (!options.count("local_theta")) return;
  Value local = get("local_factors");
  values = local.is_none() ? std::vector<double>{} : numbers(local, "local_factors");
  layout.local_rotary = std::make_unique<Rotary>(dim, number_or("local_theta", 0), number_or("local_scale", 1),
                                                 local.is_none() ? nullptr : &values, 1);
}

inline CacheLayout layout_of(const Values& args, const Value& factors, const Tensor& init,
                             const std::map<std::string, Value>& options) {
  std::vector<int64_t> config = integers(args[0], "cache_config"), layers = integers(args[1], "layer_indptr");
  if (config.size() != 4 && config.size() != 5)
    refuse("cache_config has " + text(static_cast<int64_t>(config.size())) + " numbers, expected 4 or 5");
  static const char* names[] = {"max_sequences", "total_tokens", "prefill_chunk", "page_size",
                                "num_qo_heads",  "num_kv_heads", "qk_head_dim",   "v_head_dim"};
  int64_t sizes[8];
  for (size_t i = 0; i < 8; ++i) {
    sizes[i] = i < 4 ? config[i] : integer(args[i - 2], names[i]);
    if (sizes[i] <= 0) refuse(std::string(names[i]) + " is " + text(sizes[i]) + ", expected a positive number");
    if (sizes[i] > INT32_MAX) refuse(std::string(names[i]) + " is " + text(sizes[i]) + ", and has more than 31 bits");
  }
  if (sizes[4] % sizes[5])
    refuse(text(sizes[4]) + " query heads cannot share " + text(sizes[5]) + " key and value heads");
  if (layers.size() != 2 || layers[0] < 0 || layers[0] >= layers[1])
    refuse("layer_indptr is " + dims(layers) + ", expected the first layer and the end of the layers");
  std::vector<int64_t> kinds = integers(args[6], "attn_kinds");
  if (static_cast<int64_t>(kinds.size()) < layers[1])
    refuse("attn_kinds has " + text(static_cast<int64_t>(kinds.size())) + " kinds, expected one for each of " +
           text(layers[1]) + " layers");
  kinds = {kinds.begin() + layers[0], kinds.begin() + layers[1]};
  for (int64_t kind : kinds) {
    if (kind == kLatent) refuse("latent attention (MLA) is not implemented in C++");
    if (kind < 0 || kind > 3)
      refuse("attn_kinds has the kind " + text(kind) + ", expected 0 (MHA), 1 (MLA), 2 (linear) or 3 (sliding)");
  }
  if ((args[7].kind() == kTVMFFIBool || args[7].kind() == kTVMFFIInt) && args[7].any().v_int64 != 0)
    refuse("enable_kv_transfer: transfer of pages between machines is not supported");
  CacheLayout layout;
  layout.max_sequences = sizes[0], layout.total_tokens = sizes[1], layout.prefill_chunk = sizes[2];
  layout.page_size = sizes[3], layout.query_heads = sizes[4], layout.key_heads = sizes[5];
  layout.key_dim = sizes[6], layout.value_dim = sizes[7], layout.first_layer = layers[0], layout.kinds = kinds;
  layout.sliding_window = config.size() == 5 && config[4] > 1 ? std::min<int64_t>(config[4], INT32_MAX) : 0;
  layout.dtype = init.dl().dtype;
  bool is_float = (layout.dtype.code == kDLFloat && (layout.dtype.bits == 32 || layout.dtype.bits == 16)) ||
                  (layout.dtype.code == kDLBfloat && layout.dtype.bits == 16);
  if (!is_float || layout.dtype.lanes != 1)
    refuse("the dtype of init is another one than float32, float16, bfloat16");
  auto found = options.find("page_dtype");
  layout.page_dtype = found == options.end() ? layout.dtype : page_dtype(found->second.text());
  set_rotaries(layout, args, factors, options);
  if (layout.pages() > ((int64_t{1} << 31) - 1) / layout.page_size)
    refuse("a cache of " + text(layout.pages()) + " pages of " + text(layout.page_size) +
           " tokens has too many for 32 bits");
  return layout;
}

// vm.builtin.paged_attention_kv_cache_create, with the arguments that it has in Python.
inline Value create(const Values& args) {
  bool has_factors = args.size() > 12 && args[12].kind() == kTVMFFITensor;
  size_t at = has_factors ? 12 : 11;
  if (args.size() <= at || args[at].kind() != kTVMFFITensor)
    fail_type("paged_attention_kv_cache_create: expected a tensor of the cache's dtype as argument 11 or 12, behind "
              "rotary_theta and rope_ext_factors, in a call with " + text(static_cast<int64_t>(args.size())) +
              " arguments");
  Tensor init(args[at]);
  Values rest(args.begin() + static_cast<int64_t>(at) + 1, args.end());
  auto trimmed = [&] {
    while (rest.size() > 15 && rest.back().is_none()) rest.pop_back();
    return rest.size() > 15 && rest.back().kind() == kTVMFFIArray;
  };
  Value options, kernels;
  if (trimmed() && !is_missing(rest.back()) && rest.back().fields()[0].is_text())
    options = rest.back(), rest.pop_back();
  if (trimmed()) kernels = rest.back(), rest.pop_back();
  trimmed();
  if (rest.size() != 15 && rest.size() != 16)
    fail_type("paged_attention_kv_cache_create: expected 15 or 16 functions behind the initial tensor, then kernels "
              "and options if there are any");
  for (const Value& function : rest)
    if (!is_missing(function))
      refuse("kernels of TVM's contract cannot read the pages of this cache; give None or an empty list for them");
  std::map<std::string, Value> named = options_of(options);
  CacheLayout layout = layout_of(args, has_factors ? args[11] : Value(), init, named);
  if (is_missing(kernels))
    refuse("the cache has no kernels: the compiler adds them where page size, heads, dtypes and options are constants");
  Values pair = kernels.kind() == kTVMFFIArray ? kernels.fields() : Values{};
  if (pair.size() != 2 || pair[0].kind() != kTVMFFIFunction || pair[1].kind() != kTVMFFIFunction)
    refuse("expected the kernels (append, attend) of a cache");
  return Caches::all().add(std::make_unique<PagedKVCache>(std::move(layout), pair[0], pair[1]));
}

// Register a builtin of a cache and `more` arguments, of which the last `optional` may be absent.
template <typename Body>
void of_cache(const std::string& name, size_t more, Body body, size_t optional = 0) {
  builtin(name, 1 + more - optional, 1 + more, [body](const Values& args) -> Value {
    PagedKVCache& cache = Caches::all().get(args[0]);
    if constexpr (std::is_void<decltype(body(cache, args))>::value) {
      body(cache, args);
      return Value();
    } else {
      return body(cache, args);
    }
  });
}

}  // namespace detail

// Register the builtins of the paged KV cache in the process, for all libraries. Calling it again changes nothing.
inline void register_kv_cache() {
  using namespace detail;
  static const bool done = [] {
    const std::string id = "the id of a sequence", attention = "attention_kv_cache_";
    builtin("paged_attention_kv_cache_create", 0, 64, create);
    of_cache("kv_state_clear", 0, [](PagedKVCache& cache, const Values&) { cache.clear(); });
    of_cache("kv_state_add_sequence", 1,
             [id](PagedKVCache& cache, const Values& args) { cache.add_sequence(integer(args[1], id)); });
    of_cache("kv_state_remove_sequence", 1,
             [id](PagedKVCache& cache, const Values& args) { cache.remove_sequence(integer(args[1], id)); });
    of_cache("kv_state_fork_sequence", 3, [](PagedKVCache& cache, const Values& args) {
      int64_t position = args.size() > 3 ? integer(args[3], "the position of the fork") : -1;
      cache.fork_sequence(integer(args[1], "the id of the parent"), integer(args[2], "the id of the child"), position);
    }, 1);
    of_cache("kv_state_popn", 2, [id](PagedKVCache& cache, const Values& args) {
      cache.popn(integer(args[1], id), integer(args[2], "the number of tokens"));
    });
    of_cache("kv_state_begin_forward", 3, [](PagedKVCache& cache, const Values& args) {
      if (args.size() > 3 && !args[3].is_none()) refuse("token trees are not implemented in C++");
      cache.begin_forward(integers(args[1], "the ids of sequences"), integers(args[2], "the numbers of new tokens"));
    }, 1);
    of_cache("kv_state_end_forward", 0, [](PagedKVCache& cache, const Values&) { cache.end_forward(); });
    of_cache(attention + "attention_with_fused_qkv", 4, [](PagedKVCache& cache, const Values& args) {
      double scale = number(args[2], "the scale of attention");
      cache.attention_with_fused_qkv(integer(args[1], "the layer"), scale, args[3], args[4]);
    });
    of_cache(attention + "get_query_positions", 0,
             [](PagedKVCache& cache, const Values&) { return Value(cache.query_positions()); });
    of_cache(attention + "get_num_available_pages", 0,
             [](PagedKVCache& cache, const Values&) { return Value(cache.available_pages()); });
    of_cache(attention + "get_total_sequence_length", 0,
             [](PagedKVCache& cache, const Values&) { return Value(cache.total_length()); });
    of_cache(attention + "empty", 0, [](PagedKVCache& cache, const Values&) { return Value(cache.is_empty()); });
    of_cache(attention + "enable_sliding_window_for_seq", 3, [id](PagedKVCache& cache, const Values& args) {
      int64_t sink = args.size() > 3 ? integer(args[3], "the number of sinks") : 0;
      cache.slide(integer(args[1], id), integer(args[2], "the window"), sink);
    }, 1);
    of_cache(attention + "debug_get_kv", 5, [id](PagedKVCache& cache, const Values& args) {
      int64_t start = integer(args[2], "the first token"), end = integer(args[3], "the end");
      cache.debug_get_kv(integer(args[1], id), start, end, args[4], args[5]);
    });
    return true;
  }();
  (void)done;
}

}  // namespace relax

#endif  // RELAX_KV_CACHE_BUILTINS_H_
